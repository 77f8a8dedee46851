package integration

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNodePage(t *testing.T) {
	a := startApp(t)
	inProfiles(t, func(t *testing.T, args []string) {
		p, c := startProxy(t, a.url, args...), newClient(t)
		path := "/page/" + fmt.Sprint(len(args))
		for _, word := range []string{"MISS", "HIT", "HIT"} {
			r := do(t, c, "GET", p.url+path)
			assert.Equal(t, word, r.Header.Get(statusField))
			assert.Equal(t, "page 1\n", r.Body)
		}
		assert.Equal(t, 1, a.seen(path).Count)
	})
}

func TestNodeTrailers(t *testing.T) {
	a := startApp(t)
	p, c := startProxy(t, a.url), newClient(t)
	for _, word := range []string{"MISS", "HIT", "HIT"} {
		r := do(t, c, "GET", p.url+"/trailers/a")
		assert.Equal(t, word, r.Header.Get(statusField))
		assert.Equal(t, "a body with a trailer\n", r.Body)
		assert.Equal(t, "7", r.Trailer.Get("X-Sum"), word)
	}
	r := do(t, c, "HEAD", p.url+"/trailers/a")
	assert.Equal(t, 200, r.Status)
	r = do(t, c, "GET", p.url+"/trailers/a", "Range", "bytes=2-5")
	assert.Equal(t, "body", r.Body)
}

// The hints of the origin reach the client that it was asked for, before the
// page is there; they are no part of what is stored.
func TestNodeEarlyHints(t *testing.T) {
	a := startApp(t)
	p, c := startProxy(t, a.url), newClient(t)
	get := func(hinted chan<- textproto.MIMEHeader) <-chan answer {
		out := make(chan answer, 1)
		trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			assert.Equal(t, 103, code)
			hinted <- h
			return nil
		}}
		req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), "GET", p.url+"/hints/a", nil)
		require.NoError(t, err)
		go func() {
			resp, err := c.Do(req)
			if err == nil {
				assert.Empty(t, resp.Header.Get("X-Hint"))
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			out <- answer{nil, err}
		}()
		return out
	}
	hinted := make(chan textproto.MIMEHeader, 10)
	out := get(hinted)
	h := await(t, hinted)
	assert.Equal(t, "</style.css>; rel=preload; as=style", h.Get("Link"))
	a.release("/hints/a")
	require.NoError(t, await(t, out).err)

	require.NoError(t, await(t, get(hinted)).err)
	assert.Empty(t, hinted, "a hit has no hints of its own")
	r := do(t, c, "GET", p.url+"/hints/a")
	assert.Equal(t, "HIT", r.Header.Get(statusField))
	assert.Empty(t, r.Header.Get("Link")+r.Header.Get("X-Hint"))
}

func TestNodeVary(t *testing.T) {
	a := startApp(t)
	inProfiles(t, func(t *testing.T, args []string) {
		p, c := startProxy(t, a.url, args...), newClient(t)
		for _, tt := range []struct {
			page, field string
			values      []string
		}{
			{"cookie", "Cookie", []string{"a=1", "a=2", "a=1; b=2"}},
			{"language", "Accept-Language", []string{"de", "en", "de,en;q=0.5"}},
		} {
			path := fmt.Sprintf("/%s/%d", tt.page, len(args))
			for range 2 {
				for _, value := range tt.values {
					assert.Equal(t, tt.page+" "+value+"\n", do(t, c, "GET", p.url+path, tt.field, value).Body)
				}
				assert.Equal(t, tt.page+" none\n", do(t, c, "GET", p.url+path).Body)
			}
			assert.Equal(t, 4, a.seen(path).Count, path)
		}
	})
}

func TestNodeCompression(t *testing.T) {
	a := startApp(t)
	inProfiles(t, func(t *testing.T, args []string) {
		p, c := startProxy(t, a.url, args...), newClient(t)
		path := "/packed/" + fmt.Sprint(len(args))
		want := strings.Repeat("this compresses rather well. ", 5000)
		for range 2 {
			r := do(t, c, "GET", p.url+path, "Accept-Encoding", "gzip")
			require.Equal(t, "gzip", r.Header.Get("Content-Encoding"))
			equalBytes(t, want, unpacked(t, r.Body), "gzip")
			for _, accept := range []string{"identity", "gzip;q=0"} {
				r = do(t, c, "GET", p.url+path, "Accept-Encoding", accept)
				assert.Empty(t, r.Header.Get("Content-Encoding"))
				equalBytes(t, want, r.Body, accept)
			}
		}
		assert.Equal(t, 3, a.seen(path).Count)
	})
}

func TestNodeErrorsAreNotStored(t *testing.T) {
	a := startApp(t)
	inProfiles(t, func(t *testing.T, args []string) {
		p, c := startProxy(t, a.url, args...), newClient(t)
		for _, code := range []int{500, 502, 503, 404, 400} {
			path := fmt.Sprintf("/status/%d/%d", code, len(args))
			for n := 1; n <= 3; n++ {
				r := do(t, c, "GET", p.url+path)
				assert.Equal(t, code, r.Status)
				assert.Equal(t, fmt.Sprintf("error %d\n", n), r.Body, "the origin's own page, and a new one each time")
			}
		}
	})
}

// The origin fails, and says itself that the old page is better than that.
func TestNodeStaleIfError(t *testing.T) {
	a := startApp(t)
	p, c := startProxy(t, a.url), newClient(t)
	require.Equal(t, 200, do(t, c, "GET", p.url+"/failing/a").Status)
	eventually(t, "the page is stale", func() bool {
		r := do(t, c, "GET", p.url+"/failing/a")
		require.Equal(t, 200, r.Status)
		require.Equal(t, "page\n", r.Body)
		return r.Header.Get(statusField) == "STALE-ERROR"
	})
}

// Fifty visitors of a stale page get it at once, while one request renews it.
func TestNodeStaleWhileRevalidate(t *testing.T) {
	a := startApp(t)
	p, c := startProxy(t, a.url), newClient(t)
	require.Equal(t, "page 1\n", do(t, c, "GET", p.url+"/swr/a").Body)
	eventually(t, "the page is stale", func() bool {
		return do(t, c, "GET", p.url+"/swr/a").Header.Get(statusField) == "STALE"
	})
	a.await("/swr/a", 1)
	for range 50 {
		r := do(t, c, "GET", p.url+"/swr/a")
		assert.Equal(t, "STALE", r.Header.Get(statusField))
		assert.Equal(t, "page 1\n", r.Body)
	}
	assert.Equal(t, 2, a.seen("/swr/a").Count)
	a.release("/swr/a")
	eventually(t, "the new page is there", func() bool {
		return do(t, c, "GET", p.url+"/swr/a").Body == "page 2\n"
	})
}

// A successful write makes the page that it's about invalid, others not.
func TestNodeWriteInvalidates(t *testing.T) {
	a := startApp(t)
	inProfiles(t, func(t *testing.T, args []string) {
		p, c := startProxy(t, a.url, args...), newClient(t)
		path := "/post/" + fmt.Sprint(len(args))
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH"} {
			before := do(t, c, "GET", p.url+path).Body
			assert.Equal(t, before, do(t, c, "GET", p.url+path).Body)
			other := do(t, c, "GET", p.url+path+"/other").Body
			assert.Equal(t, 201, do(t, c, method, p.url+path).Status)
			assert.NotEqual(t, before, do(t, c, "GET", p.url+path).Body, method)
			assert.Equal(t, other, do(t, c, "GET", p.url+path+"/other").Body)
		}
		do(t, c, "GET", p.url+"/page/kept")
		assert.Equal(t, 404, do(t, c, "POST", p.url+"/nowhere").Status)
		assert.Equal(t, "HIT", do(t, c, "GET", p.url+"/page/kept").Header.Get(statusField))
	})
}

// A body that the client holds back until it's told to go on.
func TestNodeExpectContinue(t *testing.T) {
	a := startApp(t)
	p := startProxy(t, a.url)
	head := "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
	conn, r := dial(t, p.addr, fmt.Sprintf(head, "/post/expect"))
	assert.Equal(t, 100, readResponse(t, r).StatusCode)
	_, err := io.WriteString(conn, "hello")
	require.NoError(t, err)
	resp := readFinal(t, r) // net/http may say 100 twice: for itself and for the origin
	assert.Equal(t, 201, resp.StatusCode)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "POST 1 5\n", string(body))
	assert.Equal(t, []string{"hello"}, a.seen("/post/expect").Bodies)

	// The origin refuses without wanting to see it.
	_, r = dial(t, p.addr, fmt.Sprintf(head, "/refuse/expect"))
	assert.Equal(t, 413, readResponse(t, r).StatusCode)

	// One that doesn't wait to be told.
	_, r = dial(t, p.addr, fmt.Sprintf(head, "/post/impatient")+"hello")
	assert.Equal(t, 201, readFinal(t, r).StatusCode)
	assert.Equal(t, []string{"hello"}, a.seen("/post/impatient").Bodies)
}
