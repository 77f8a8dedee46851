package integration

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// What breaks off must never look whole, and is asked for again.
func TestNodeBrokenBodies(t *testing.T) {
	a := startApp(t)
	inProfiles(t, func(t *testing.T, args []string) {
		p, c := startProxy(t, a.url, args...), newClient(t)
		for _, page := range []string{"short", "badchunk"} {
			path := fmt.Sprintf("/%s/%d", page, len(args))
			for n := 1; n <= 3; n++ {
				r, err := testnet.Do(c, "GET", p.url+path)
				assert.Error(t, err, "%s came whole: %v", page, r)
				assert.Equal(t, n, a.seen(path).Count, page)
			}
		}
		for _, page := range []string{"abort", "abortchunked"} {
			path := fmt.Sprintf("/%s/%d", page, len(args))
			for n := 1; n <= 3; n++ {
				a.release(path)
				r, err := testnet.Do(c, "GET", p.url+path)
				assert.Error(t, err, "%s came whole", page)
				if r != nil {
					assert.LessOrEqual(t, len(r.Body), 50000)
				}
				assert.Equal(t, n, a.seen(path).Count, page)
			}
		}
	})
}

// Everyone who reads along sees the break, with HTTP/1.0 too as far as that can
// show it.
func TestNodeBrokenBodyForAll(t *testing.T) {
	a := startApp(t)
	p, c := startProxy(t, a.url), newClient(t)
	for _, page := range []string{"abort", "abortchunked"} {
		path := "/" + page + "/all"
		var streams []*stream
		for range 5 {
			s := open(t, c, p.url+path)
			s.read(t, 1000)
			streams = append(streams, s)
		}
		a.release(path)
		for _, s := range streams {
			_, err := io.ReadAll(s.Body)
			assert.ErrorIs(t, err, io.ErrUnexpectedEOF, page)
		}
		assert.Equal(t, 1, a.seen(path).Count)
	}
}

// A part that was asked for breaks off too if the body does.
func TestNodeBrokenBodyWithRange(t *testing.T) {
	a := startApp(t)
	p, c := startProxy(t, a.url), newClient(t)
	for _, page := range []string{"abort", "abortchunked"} {
		for _, asked := range []string{"bytes=40000-59999", "bytes=60000-60009"} {
			path := "/" + page + "/" + asked
			a.release(path)
			r, err := testnet.Do(c, "GET", p.url+path, "Range", asked)
			if err == nil {
				assert.GreaterOrEqual(t, r.Status, 500, "%s of %s came whole: %d bytes", asked, page, len(r.Body))
			}
		}
	}
}

// Answers that aren't HTTP, or contradict themselves, are the origin's failure.
func TestNodeMalformedHeads(t *testing.T) {
	a := startApp(t)
	inProfiles(t, func(t *testing.T, args []string) {
		p, c := startProxy(t, a.url, args...), newClient(t)
		for _, page := range []string{"duplicate", "negative", "nonsense", "gone"} {
			path := fmt.Sprintf("/%s/%d", page, len(args))
			for range 2 {
				r := do(t, c, "GET", p.url+path)
				assert.Equal(t, 502, r.Status, page)
				assert.Equal(t, "no-store", r.Header.Get("Cache-Control"))
			}
			// A transport may try a broken connection again, but it isn't stored.
			assert.GreaterOrEqual(t, a.seen(path).Count, 2, page)
		}
	})
}

// A body that is longer than its head says is as long as its head says: nobody
// can read on without guessing. What follows isn't taken for the next answer.
func TestNodeBodyLongerThanItsLength(t *testing.T) {
	a := startApp(t)
	p, c := startProxy(t, a.url), newClient(t)
	for range 3 {
		r, err := testnet.Do(c, "GET", p.url+"/long/a")
		if err == nil {
			assert.Equal(t, "longe", r.Body)
		}
		assert.Equal(t, "page 1\n", do(t, c, "GET", p.url+"/page/after").Body)
	}
}

// A megabyte of header is refused or handed on, but does no harm.
func TestNodeEnormousHeader(t *testing.T) {
	a := startApp(t)
	p, c := startProxy(t, a.url), newClient(t)
	for _, page := range []string{"bighead", "manyheads"} {
		for range 2 {
			r := do(t, c, "GET", p.url+"/"+page+"/a")
			if r.Status == http.StatusOK {
				assert.Equal(t, "hello", r.Body)
			} else {
				assert.Equal(t, 502, r.Status)
			}
		}
	}
	assert.Equal(t, "page 1\n", do(t, c, "GET", p.url+"/page/after").Body)
}

// A megabyte of header in a request, and other requests that aren't right.
func TestNodeMalformedRequests(t *testing.T) {
	a := startApp(t)
	p, c := startProxy(t, a.url), newClient(t)
	const get = "GET /page/raw HTTP/1.1\r\nHost: a\r\n"
	for what, tt := range map[string]struct {
		request string
		code    int
	}{
		"large header":      {get + "X-Big: " + strings.Repeat("x", 2<<20) + "\r\n\r\n", 431},
		"two hosts":         {"GET /page/raw HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
		"no host":           {"GET /page/raw HTTP/1.1\r\n\r\n", 400},
		"space in a name":   {get + "X-Bad : 1\r\n\r\n", 400},
		"control character": {get + "X-Bad: a\x00b\r\n\r\n", 400},
		"two lengths":       {get + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400},
		"negative length":   {get + "Content-Length: -1\r\n\r\n", 400},
		"unknown coding":    {get + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
		"not HTTP":          {"hello\r\n\r\n", 400},
	} {
		conn, r := dial(t, p.addr, "")
		// The proxy may answer and close before it has taken all of it.
		go func() { _, _ = io.WriteString(conn, tt.request) }()
		resp, err := http.ReadResponse(r, nil)
		if assert.NoError(t, err, what) {
			assert.Equal(t, tt.code, resp.StatusCode, what)
		}
	}
	assert.Zero(t, a.seen("/page/raw").Count)
	assert.Equal(t, "page 1\n", do(t, c, "GET", p.url+"/page/raw").Body)
}

// A length and chunks together: the chunks count. If the origin took the length,
// it would see a second request that the proxy never judged.
func TestNodeAmbiguousFraming(t *testing.T) {
	a := startApp(t)
	p := startProxy(t, a.url)
	smuggled := "GET /page/smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
	_, r := dial(t, p.addr, "POST /post/framing HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n"+smuggled)
	resp := readResponse(t, r)
	_, err := io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	assert.Contains(t, []int{201, 400}, resp.StatusCode)
	_, err = r.ReadByte()
	assert.Error(t, err, "the connection ends")
	assert.Zero(t, a.seen("/page/smuggled").Count)
}

// HTTP/1.0 clients get whole bodies, delimited by length or the connection.
func TestNodeHTTP10(t *testing.T) {
	a := startApp(t)
	p := startProxy(t, a.url)
	for _, page := range []string{"page", "trailers"} {
		for range 2 {
			_, r := dial(t, p.addr, "GET /"+page+"/old HTTP/1.0\r\nHost: a\r\n\r\n")
			resp := readResponse(t, r)
			assert.Empty(t, resp.TransferEncoding)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Contains(t, []string{"page 1\n", "a body with a trailer\n"}, string(body))
			assertClosed(t, r)
		}
	}
}

func assertClosed(t *testing.T, r *bufio.Reader) {
	t.Helper()
	_, err := r.ReadByte()
	assert.ErrorIs(t, err, io.EOF)
}
