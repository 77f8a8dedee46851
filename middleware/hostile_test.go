package middleware

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// weirdValues are field values that nobody in their right mind sends.
func weirdValues() []string {
	return []string{
		"", " ", ",", ";", "=", `"`, `\`, "*", "\x00", "\x7f\xff", "\t\t", "-1", "+1", "1e9", "0x10", "٣",
		strings.Repeat("9", 400), strings.Repeat(",", 1000), strings.Repeat(`"\`, 500), strings.Repeat("a=b;", 1000),
		"max-age=", "max-age=-1", `max-age="60`, "max-age=60, max-age=0", "s-maxage=99999999999999999999",
		"bytes=", "bytes=-", "bytes=5-2", "bytes=0-" + strings.Repeat("9", 100), "bytes=" + strings.Repeat("0-0,", 500) + "0-0",
		`W/`, `W/"`, `"a", "b`, "Thu, 01 Jan 1970", "Thu, 99 Foo 99999 99:99:99 GMT", strings.Repeat("x", 10<<10),
		"private=\"set-cookie", "max-age=1" + strings.Repeat(", x", 5000), "public,max-age=60,no-store=\"\"",
	}
}

func TestWeirdFieldValuesNeverPanic(t *testing.T) {
	names := []string{
		"Cache-Control", "Pragma", "Range", "If-Range", "If-None-Match", "If-Modified-Since", "If-Match", "Cookie", "Accept-Encoding",
		"Accept-Language", "Authorization", "Forwarded", "X-Forwarded-Host", "Upgrade", "Connection", "Te", "Vary", "Age", "Date",
		"Expires", "Etag", "Last-Modified", "Content-Length", "Content-Range", "Content-Type", "Content-Encoding", "Trailer",
		"Transfer-Encoding", "Cdn-Cache-Control", "Weir-Cache-Control", "Cache-Status", "Set-Cookie", "Content-Location", "Location", "Warning",
	}
	for _, profile := range []Options{{}, {Default: RFCProfile()}} {
		r := prepareRig(t, profile)
		var name, value string
		h := r.mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			goodFor60(w.Header())
			w.Header()["Etag"] = []string{`"v1"`}
			w.Header()["Vary"] = []string{"Accept-Language"}
			if name != "" && req.Header.Get("X-Response") != "" {
				w.Header()[name] = append(w.Header()[name], value)
			}
			_, _ = io.WriteString(w, "body")
		}))
		for _, method := range []string{"GET", "HEAD", "POST"} {
			for _, name = range names {
				for i, v := range weirdValues() {
					value = v
					for _, response := range []string{"", "1"} {
						req := request(method, "/"+strconv.Itoa(i))
						req.Header["X-Response"] = []string{response}
						if response == "" {
							req.Header[name] = []string{value, "second"}
						}
						w := &slowWriter{h: http.Header{}}
						if p := panicOf(h, w, req); p != nil {
							require.Equal(t, http.ErrAbortHandler, p, "%s %s: %.60q", method, name, value)
						}
					}
				}
			}
		}
	}
}

func TestHugeRequestsDontHurt(t *testing.T) {
	r := prepareRig(t, Options{})
	h := r.mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		goodFor60(w.Header())
		_, _ = io.WriteString(w, "body")
	}))
	var query strings.Builder
	for i := range 10000 {
		fmt.Fprintf(&query, "&p%d=%d", i%5000, i)
	}
	start := time.Now()
	for range 20 {
		for _, req := range []*http.Request{
			request("GET", "/a?"+query.String()),
			request("GET", "/a", "X-Large", strings.Repeat("x", 1<<20)),
			request("GET", "/a", "Cookie", strings.Repeat("a=b; ", 50000)),
			request("GET", "/"+strings.Repeat("a/../", 50000)),
		} {
			w := &slowWriter{h: http.Header{}}
			require.Nil(t, panicOf(h, w, req))
			require.EqualValues(t, 4, w.n.Load())
		}
	}
	require.Less(t, time.Since(start), 20*time.Second)
}

// Raw requests over a real socket: what net/http lets through must neither
// break anything nor be mixed up with another request.
func TestRawRequests(t *testing.T) {
	r := newRealRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		goodFor60(w.Header())
		_, _ = fmt.Fprintf(w, "[%s %s %s]", req.Method, req.Host, req.RequestURI)
	}))
	addr := mustURL(r.url).Host
	ask := func(raw string) string {
		conn, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = io.WriteString(conn, raw)
		return readAll(conn)
	}
	const end = "Connection: close\r\n\r\n"
	for name, c := range map[string]struct{ raw, want string }{
		"NUL in the target":       {"GET /a\x00b HTTP/1.1\r\nHost: a\r\n" + end, "400 Bad Request"},
		"control in the target":   {"GET /a\x01b HTTP/1.1\r\nHost: a\r\n" + end, "400 Bad Request"},
		"absolute form":           {"GET http://b/a HTTP/1.1\r\nHost: a\r\n" + end, "[GET b /a]"},
		"OPTIONS *":               {"OPTIONS * HTTP/1.1\r\nHost: a\r\n" + end, "HTTP/1.1 200"},
		"two Hosts":               {"GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n" + end, "400 Bad Request"},
		"no Host":                 {"GET /a HTTP/1.1\r\n" + end, "400 Bad Request"},
		"length and chunks":       {"GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n" + end + "0\r\n\r\n", "HTTP/1.1 "},
		"two lengths":             {"GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n" + end + "hello", "400 Bad Request"},
		"a negative length":       {"GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n" + end, "400 Bad Request"},
		"HTTP/1.0 without a Host": {"GET /a HTTP/1.0\r\n\r\n", "[GET  /a]"},
		"NUL in a field":          {"GET /a HTTP/1.1\r\nHost: a\r\nX: \x00\r\n" + end, "400 Bad Request"},
		"half a head":             {"GET /a HTTP/1.1\r\nHost: a\r\n", ""},
		"a lower-case method":     {"get /a HTTP/1.1\r\nHost: a\r\n" + end, "[get a /a]"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.want == "" {
				conn, err := net.Dial("tcp", addr)
				require.NoError(t, err)
				_, _ = io.WriteString(conn, c.raw)
				require.NoError(t, conn.Close())
				return
			}
			require.Contains(t, ask(c.raw), c.want)
		})
	}
	// A body that isn't read mustn't be taken for the next request's answer.
	raw := ask("GET /x HTTP/1.1\r\nHost: a\r\nContent-Length: 34\r\n\r\nGET /evil HTTP/1.1\r\nHost: evil\r\n\r\n" + "GET /y HTTP/1.1\r\nHost: a\r\n" + end)
	require.NotContains(t, raw, "evil")
	require.Contains(t, ask("GET /y HTTP/1.1\r\nHost: a\r\n"+end), "[GET a /y]")
}

// A random program: many clients, few keys, origins that do all they can do.
// A whole body that a client accepts was produced for this key and variant, and
// if it's private for this very request.
func TestRandomTrafficNeverMixesResponsesUp(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { randomTraffic(t, seed) })
	}
}

func randomTraffic(t *testing.T, seed uint64) {
	var lock sync.Mutex
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(n int) int {
		lock.Lock()
		defer lock.Unlock()
		return random.IntN(n)
	}
	var serial atomic.Int64
	o := Options{FetchTimeout: 100 * time.Millisecond, WaitTimeout: 50 * time.Millisecond, UnshareableFor: 5 * time.Millisecond}
	o.Store.MemoryBytes, o.Store.MaxMemoryObjectBytes, o.Store.FillBytes = 1<<20, 128<<10, 1<<20
	r := newRealRig(t, o, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		randomAnswer(w, req, pick, serial.Add(1))
	}))
	clients := sync.WaitGroup{}
	var whole, cut atomic.Int64
	for client := range 24 {
		clients.Go(func() {
			for i := range 60 {
				me := fmt.Sprintf("%d.%d", client, i)
				key, variant := "/"+strconv.Itoa(pick(6)), strconv.Itoa(pick(2))
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				if pick(5) == 0 {
					time.AfterFunc(time.Duration(pick(3000))*time.Microsecond, cancel)
				}
				req, _ := http.NewRequestWithContext(ctx, "GET", r.url+key, nil)
				req.Header.Set("X-Me", me)
				req.Header.Set("X-Variant", variant)
				switch pick(12) {
				case 0:
					req.Method = "POST"
				case 1:
					req.Header.Set("Cookie", "user="+me)
				case 2:
					req.Header.Set("Cache-Control", "no-cache")
				}
				if problem := checkAnswer(r.client, req, me, key, variant, &whole, &cut); problem != "" {
					t.Error(problem)
				}
				cancel()
			}
		})
	}
	clients.Wait()
	require.Greater(t, whole.Load(), int64(500), "most answers are whole (%d were cut)", cut.Load())
}

// randomAnswer is an origin that does everything. Each line of a body says for
// which key, variant and request it was made; the last says how many they are.
func randomAnswer(w http.ResponseWriter, req *http.Request, pick func(int) int, serial int64) {
	me, variant := req.Header.Get("X-Me"), req.Header.Get("X-Variant")
	h := w.Header()
	h.Set("Content-Type", "text/plain")
	h.Set("Etag", `"`+req.URL.Path+"/"+variant+`"`)
	h.Set("Vary", "X-Variant")
	h.Set("X-Made-For", me)
	kind := "shared"
	switch pick(10) {
	case 0:
		kind = "private"
		h.Set("Cache-Control", "private, max-age=60")
	case 1:
		kind = "private"
		h.Set("Cache-Control", "max-age=60")
		h.Set("Set-Cookie", "for="+me)
	case 2:
		kind = "private"
		h.Set("Cache-Control", "no-store")
	case 3:
		h.Set("Cache-Control", "public, max-age=0, stale-while-revalidate=60, stale-if-error=60")
	default:
		h.Set("Cache-Control", "public, max-age=1")
	}
	if req.Header.Get("If-None-Match") == h.Get("Etag") && pick(2) == 0 && kind == "shared" {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	pause := func() { time.Sleep(time.Duration(pick(2000)) * time.Microsecond) }
	pause()
	switch pick(20) {
	case 0:
		w.WriteHeader(503)
	case 1:
		panic(http.ErrAbortHandler)
	case 2:
		panic("oh dear")
	case 3:
		if req.Method == "POST" {
			panic(http.ErrAbortHandler) // nobody would end the wait
		}
		<-req.Context().Done()
		return
	}
	lines := 1 + pick(5)
	if pick(10) == 0 {
		lines = 300 // more than is kept
	}
	line := fmt.Sprintf("%s key=%s variant=%s for=%s serial=%d %s\n", kind, req.URL.Path, variant, me, serial, strings.Repeat("x", 1000))
	for range lines {
		if _, err := io.WriteString(w, line); err != nil {
			return
		}
		if pick(4) == 0 {
			w.(http.Flusher).Flush()
			pause()
		}
		if pick(100) == 0 {
			panic(http.ErrAbortHandler)
		}
	}
	fmt.Fprintf(w, "lines=%d", lines)
}

// checkAnswer sends a request and returns what is wrong with the answer.
func checkAnswer(client *http.Client, req *http.Request, me, key, variant string, whole, cut *atomic.Int64) string {
	resp, err := client.Do(req)
	if err != nil {
		cut.Add(1)
		return ""
	}
	defer resp.Body.Close()
	n, serial := 0, ""
	scan := bufio.NewScanner(resp.Body)
	last := ""
	for scan.Scan() {
		last = scan.Text()
		f := strings.Fields(last)
		if len(f) < 5 {
			continue
		}
		n++
		if serial != "" && f[4] != serial {
			return "two responses in one: " + serial + " and " + f[4]
		}
		serial = f[4]
		if f[1] != "key="+key || f[2] != "variant="+variant || f[0] == "private" && f[3] != "for="+me {
			return fmt.Sprintf("%s for %s %s of %s got %.80s", req.Method, key, variant, me, last)
		}
	}
	if cookie := resp.Header.Get("Set-Cookie"); cookie != "" && cookie != "for="+me {
		return "another's cookie: " + cookie + " for " + me
	}
	if scan.Err() != nil {
		cut.Add(1)
		return ""
	}
	whole.Add(1)
	if serial != "" && last != fmt.Sprint("lines=", n) {
		return fmt.Sprintf("a short body looks whole: %d lines and %.80q", n, last)
	}
	return ""
}
