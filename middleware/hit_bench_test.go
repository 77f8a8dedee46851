package middleware

import (
	"context"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// reusable is a ResponseWriter that costs next to nothing, like net/http's own
// when its buffers are warm.
type reusable struct {
	h      http.Header
	status int
	n      int
}

func (w *reusable) Header() http.Header  { return w.h }
func (w *reusable) WriteHeader(code int) { w.status = code }
func (w *reusable) Write(p []byte) (int, error) {
	w.n += len(p)
	return len(p), nil
}

// hitFixture is a middleware that has stored one response of size bytes, and a
// request that hits it, with the header fields of a browser if browser is set.
func hitFixture(tb testing.TB, size int, browser bool) (http.Handler, *http.Request, *reusable) {
	tb.Helper()
	return hitFixtureWith(tb, Options{}, size, browser)
}

// hitFixtureWith has options, and pairs of header fields for the response.
func hitFixtureWith(tb testing.TB, o Options, size int, browser bool, header ...string) (http.Handler, *http.Request, *reusable) {
	tb.Helper()
	body := make([]byte, size)
	mw, err := New(o)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, mw.Close(context.Background())) })
	h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "public, max-age=3600")
		w.Header().Set("ETag", `"v1"`)
		w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		_, _ = w.Write(body)
	}))
	r := &http.Request{
		Method: "GET", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Host: "www.example.com",
		RequestURI: "/products/shoes?colour=red&size=42&page=2&sort=price&view=grid",
		URL:        &url.URL{Path: "/products/shoes", RawQuery: "colour=red&size=42&page=2&sort=price&view=grid"},
		Header:     http.Header{}, RemoteAddr: "192.0.2.1:1234",
	}
	if browser {
		for name, value := range map[string]string{
			"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)", "Accept": "text/html,application/xhtml+xml",
			"Accept-Language": "en-GB,en;q=0.7", "Accept-Encoding": "gzip, deflate, br", "Connection": "keep-alive",
			"Upgrade-Insecure-Requests": "1", "Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate",
			"Sec-Fetch-Site": "none", "Cookie": "session=abc; theme=dark",
		} {
			r.Header.Set(name, value)
		}
	}
	w := &reusable{h: http.Header{}}
	h.ServeHTTP(w, r)
	require.Equal(tb, size, w.n)
	h.ServeHTTP(w, r)
	require.Equal(tb, "HIT", w.h.Get("Weir-Cache-Status"))
	return h, r, w
}

// A hit allocates once: the header values, which belong to the client's writer.
func TestHitAllocatesOnce(t *testing.T) {
	for _, browser := range []bool{false, true} {
		h, r, w := hitFixture(t, 1024, browser)
		testnet.Allocs(t, 1, func() { h.ServeHTTP(w, r) }, "from a browser:", browser)
	}
}

// The time of a hit shouldn't depend on the size of the body, and little on the
// number of the request's header fields.
func BenchmarkHit(b *testing.B) {
	for _, c := range []struct {
		name    string
		size    int
		browser bool
	}{{"1KiB", 1024, false}, {"1KiB browser", 1024, true}, {"1MiB", 1 << 20, false}} {
		b.Run(c.name, func(b *testing.B) {
			h, r, w := hitFixture(b, c.size, c.browser)
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
}

// The floor: a handler that writes the same response itself.
func BenchmarkBareHandler(b *testing.B) {
	body := make([]byte, 1024)
	ct, cc, tag, length := []string{"text/html"}, []string{"public, max-age=3600"}, []string{`"v1"`}, []string{"1024"}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["Content-Type"], h["Cache-Control"], h["Etag"], h["Content-Length"] = ct, cc, tag, length
		w.WriteHeader(200)
		_, _ = w.Write(body)
	})
	r, w := &http.Request{Method: "GET"}, &reusable{h: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
}
