package middleware

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/admission"
)

// replacing is an outer handler that gives the wrapped one another body.
func replacing(body func(http.ResponseWriter, io.ReadCloser) io.ReadCloser, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = body(w, r.Body)
		next.ServeHTTP(w, r)
	})
}

// unpacked is what a decompressing handler makes of a body: four times as long, and
// net/http's own is read to its end before.
func unpacked(_ http.ResponseWriter, b io.ReadCloser) io.ReadCloser {
	all, _ := io.ReadAll(b)
	return io.NopCloser(bytes.NewReader(bytes.Repeat(all, 4)))
}

// read is what a handler that checks a signature makes of a body.
func read(_ http.ResponseWriter, b io.ReadCloser) io.ReadCloser {
	all, _ := io.ReadAll(b)
	return io.NopCloser(bytes.NewReader(all))
}

// Once net/http has its body's end, it reads on to notice that the client leaves. No
// deadline of weir's may look like that, though the wrapped handler has seen no end of
// the body that an outer one gives it.
func TestClientIsThereWhenAnOuterHandlerHasReadItsBody(t *testing.T) {
	handlers := map[string]http.HandlerFunc{
		"reads all":       func(w http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body) },
		"reads nothing":   func(http.ResponseWriter, *http.Request) {},
		"reads a part":    func(w http.ResponseWriter, r *http.Request) { _, _ = io.ReadFull(r.Body, make([]byte, 2)) },
		"closes":          func(w http.ResponseWriter, r *http.Request) { _ = r.Body.Close() },
		"has a head":      func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(200) },
		"writes":          func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("x")) },
		"writes a string": func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "x") },
		"copies": func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader("x"))
		},
		"streams": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", 10_000))
			_ = http.NewResponseController(w).Flush()
		},
	}
	for outer, body := range map[string]func(http.ResponseWriter, io.ReadCloser) io.ReadCloser{"unpacked": unpacked, "read": read} {
		for what, o := range map[string]Options{
			"plain": {}, "limiter": limited(admission.Options{}), "unwatched writes": {StallTimeout: -1},
		} {
			for name, first := range handlers {
				t.Run(fmt.Sprint(outer, ", ", what, ", ", name), func(t *testing.T) {
					bubble(t, func(t *testing.T) {
						gone := make(chan error, 1)
						r := newOuterRig(t, o, func(h http.Handler) http.Handler { return replacing(body, h) },
							http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
								first(w, r)
								time.Sleep(3 * unreadPatience)
								gone <- r.Context().Err()
							}))
						for range 2 {
							req, err := http.NewRequestWithContext(t.Context(), "POST", r.url, strings.NewReader("some content"))
							require.NoError(t, err)
							res, err := r.client.Do(req)
							require.NoError(t, err)
							_, err = io.Copy(io.Discard, res.Body)
							require.NoError(t, err)
							require.NoError(t, res.Body.Close())
							require.Equal(t, 200, res.StatusCode)
							require.False(t, res.Close)
							require.NoError(t, <-gone)
						}
					})
				})
			}
		}
	}
}

// An outer handler's body that fails, or that is closed for nothing, isn't the end of
// net/http's: its client gets the answer, and can't hold the connection by what it
// doesn't send.
func TestRestBehindAnOuterHandlersBodyIsntAwaitedForEver(t *testing.T) {
	refused := errors.New("an outer handler's")
	for name, body := range map[string]func(http.ResponseWriter, io.ReadCloser) io.ReadCloser{
		"too long for it": func(w http.ResponseWriter, b io.ReadCloser) io.ReadCloser { return http.MaxBytesReader(w, b, 2) },
		"fails": func(_ http.ResponseWriter, b io.ReadCloser) io.ReadCloser {
			return io.NopCloser(io.MultiReader(io.LimitReader(b, 2), failingReader{refused}))
		},
		"closed": func(_ http.ResponseWriter, b io.ReadCloser) io.ReadCloser { return io.NopCloser(b) },
	} {
		for what, o := range map[string]Options{"plain": {}, "limiter": limited(admission.Options{})} {
			t.Run(name+", "+what, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					r := newOuterRig(t, o, func(h http.Handler) http.Handler { return replacing(body, h) },
						http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
							if name == "closed" {
								_ = r.Body.Close()
							} else if _, err := io.ReadAll(r.Body); err == nil {
								panic("no error")
							}
							w.WriteHeader(413)
							_ = http.NewResponseController(w).Flush()
						}))
					conn, err := dialRig(r)
					require.NoError(t, err)
					defer conn.Close()
					began := time.Now()
					length := 10000
					if name == "closed" {
						length = DefaultBodyBuffer + 1 // nobody waits for it first
					}
					_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n1234", length)
					require.NoError(t, err)
					br := bufio.NewReader(conn)
					res, err := http.ReadResponse(br, nil)
					require.NoError(t, err)
					require.Equal(t, 413, res.StatusCode)
					_, _ = io.Copy(io.Discard, br) // until the connection is closed
					require.LessOrEqual(t, time.Since(began), 3*unreadPatience)
				})
			})
		}
	}
}
