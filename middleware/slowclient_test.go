package middleware

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/trace"
)

// upload is what became of a body in the handler.
type upload struct {
	got  int64
	err  error
	took time.Duration
}

// takeUpload is a handler that reads the body, resting after each read.
func takeUpload(rest time.Duration, out chan<- upload) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		var u upload
		buf := make([]byte, 4<<10)
		for u.err == nil {
			var n int
			n, u.err = r.Body.Read(buf)
			u.got += int64(n)
			time.Sleep(rest)
		}
		u.took = time.Since(began)
		out <- u
		w.WriteHeader(http.StatusNoContent)
	}
}

// A request's body must come, by its time without progress and never by its total
// time. What the handler takes itself isn't the client's fault.
func TestSlowBody(t *testing.T) {
	const all = 1 << 30 // announced
	for name, c := range map[string]struct {
		o     Options
		rest  time.Duration
		piece int
		every time.Duration
		n     int // pieces; the body ends with the last one if want is nil
		took  time.Duration
		want  error
	}{
		"nothing comes":                         {every: time.Hour, n: 1, took: 60 * time.Second, want: os.ErrDeadlineExceeded},
		"a byte now and then":                   {piece: 1, every: 59 * time.Second, n: 100, took: 60 * time.Second, want: os.ErrDeadlineExceeded},
		"a byte now and then, no rate":          {o: Options{BodyRate: -1}, piece: 1, every: 59 * time.Second, n: 100, took: 5900 * time.Second},
		"below the rate":                        {piece: 239, every: time.Second, n: 200, took: 60 * time.Second, want: os.ErrDeadlineExceeded},
		"above the rate, for hours":             {piece: 250, every: time.Second, n: 20000, took: 20000 * time.Second},
		"in bursts, for hours":                  {piece: 16 << 10, every: 59 * time.Second, n: 500, took: 59 * 500 * time.Second},
		"a handler that takes its time":         {rest: 10 * time.Minute, piece: 4 << 10, every: time.Second, n: 20, took: 20*10*time.Minute + time.Second},
		"other limits":                          {o: Options{BodyTimeout: 5 * time.Second, BodyRate: 1000}, piece: 999, every: time.Second, n: 10, took: 5 * time.Second, want: os.ErrDeadlineExceeded},
		"no limit":                              {o: Options{BodyTimeout: -1}, piece: 1, every: time.Hour, n: 100, took: 100 * time.Hour},
		"good at first and then nothing at all": {piece: 16 << 10, every: 0, n: 10, took: 60 * time.Second, want: os.ErrDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				defer time.Sleep(time.Second) // net/http's patience with a connection that it closes
				out := make(chan upload, 1)
				r := newRig(t, c.o, takeUpload(c.rest, out))
				conn, err := dialRig(r)
				require.NoError(t, err)
				defer conn.Close()
				length := all
				if c.want == nil {
					length = c.piece * c.n
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() {
					_, _ = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", length)
					piece := strings.Repeat("x", c.piece)
					for range c.n {
						select {
						case <-time.After(c.every):
						case <-ctx.Done():
							return
						}
						if _, err := io.WriteString(conn, piece); err != nil {
							return
						}
					}
				}()
				u := <-out
				if c.want == nil {
					require.Equal(t, upload{int64(length), io.EOF, c.took}, u)
				} else {
					require.ErrorIs(t, u.err, c.want)
					require.Equal(t, c.took, u.took)
				}
				br := bufio.NewReader(conn)
				res, err := http.ReadResponse(br, nil)
				require.NoError(t, err)
				require.Equal(t, 204, res.StatusCode)
				require.Equal(t, c.want != nil, res.Close, "the connection of one who is too slow isn't used again")
				cancel()
				synctest.Wait()
				r.mu.Lock()
				defer r.mu.Unlock()
				require.Len(t, r.records, 1)
				want := trace.Complete
				if c.want != nil {
					want = trace.ClientGone
				}
				require.Equal(t, want, r.records[0].Outcome)
			})
		})
	}
}

// After an upload that took long in all, and a long pause, the connection still
// serves, and a request under way isn't taken for cancelled.
func TestSlowBodyLeavesNoDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var gone error
		r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			time.Sleep(10 * time.Minute)
			gone = r.Context().Err()
		}))
		r.client.Timeout = 0
		for range 3 {
			req, err := http.NewRequestWithContext(t.Context(), "POST", r.url, strings.NewReader("body"))
			require.NoError(t, err)
			res, err := r.client.Do(req)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.NoError(t, gone)
			time.Sleep(10 * time.Second)
		}
	})
}

// A handler that answers without the body has its answer sent within seconds, even
// if the client never sends what it announced, and whatever the handler does with the
// body.
func TestUnreadBodyHoldsNoAnswer(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"ignored": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(403) },
		"flushed": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(403)
			_ = http.NewResponseController(w).Flush()
		},
		"closed first": func(w http.ResponseWriter, r *http.Request) {
			_ = r.Body.Close()
			w.WriteHeader(403)
		},
		"closed last": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(403)
			_ = r.Body.Close()
		},
		"read in part": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadFull(r.Body, make([]byte, 2))
			w.WriteHeader(403)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				defer time.Sleep(time.Second) // net/http's patience with a connection that it closes
				r := newRig(t, Options{}, handler)
				conn, err := dialRig(r)
				require.NoError(t, err)
				defer conn.Close()
				began := time.Now()
				_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n1234")
				require.NoError(t, err)
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err)
				require.Equal(t, 403, res.StatusCode)
				require.LessOrEqual(t, time.Since(began), 2*unreadPatience)
			})
		})
	}
}

// A proxy tells a client that was too slow that it was, and not that the origin is.
func TestProxyTellsSlowClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		defer time.Sleep(time.Second)
		origin := testnet.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
		}))
		r := newRig(t, Options{}, &httputil.ReverseProxy{
			Rewrite:      func(pr *httputil.ProxyRequest) { pr.SetURL(mustURL("http://origin")) },
			Transport:    origin.Client.Transport,
			ErrorHandler: ProxyErrorHandler,
			ErrorLog:     silent(),
		})
		conn, err := dialRig(r)
		require.NoError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n1234")
		require.NoError(t, err)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, 408, res.StatusCode)
		require.True(t, res.Close)
	})
}
