package middleware

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/trace"
)

// writeAll answers with n bytes in one of the ways that handlers have.
var writeAll = map[string]func(t *testing.T, w http.ResponseWriter, n int) error{
	"Write": func(_ *testing.T, w http.ResponseWriter, n int) error {
		_, err := w.Write(make([]byte, n))
		return err
	},
	"WriteString": func(_ *testing.T, w http.ResponseWriter, n int) error {
		_, err := io.WriteString(w, strings.Repeat("x", n))
		return err
	},
	"small pieces": func(_ *testing.T, w http.ResponseWriter, n int) error {
		for ; n > 0; n -= 100 {
			if _, err := w.Write(make([]byte, min(n, 100))); err != nil {
				return err
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				return err
			}
		}
		return nil
	},
	"a reader": func(_ *testing.T, w http.ResponseWriter, n int) error {
		_, err := io.Copy(w, struct{ io.Reader }{strings.NewReader(strings.Repeat("x", n))})
		return err
	},
	"a file": func(t *testing.T, w http.ResponseWriter, n int) error {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, make([]byte, n), 0o600); err != nil {
			return err
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.CopyN(w, f, int64(n))
		return err
	},
}

// A client that doesn't take an answer that is passed on is cut off, so that what the
// request holds is free again; one that takes it slowly gets all of it, in whatever
// time.
func TestSlowReaderOfPassedAnswer(t *testing.T) {
	const size = 1 << 20
	for name, write := range writeAll {
		for _, c := range []struct {
			every time.Duration // for each 32 KiB
			whole bool
		}{{12 * time.Second, true}, {time.Hour, false}} {
			t.Run(fmt.Sprint(name, ", ", c.every), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					defer time.Sleep(time.Second) // net/http's patience with a connection that it closes
					ended := make(chan error, 1)
					r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						w.Header().Set("Content-Length", fmt.Sprint(size))
						w.Header().Set("Content-Type", "application/octet-stream")
						ended <- write(t, w, size)
					}))
					conn, err := dialRig(r)
					require.NoError(t, err)
					defer conn.Close()
					_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
					require.NoError(t, err)
					began := time.Now()
					ctx, cancel := context.WithCancel(t.Context())
					go func() {
						buf := make([]byte, 32<<10)
						for err := error(nil); err == nil; _, err = io.ReadFull(conn, buf) {
							select {
							case <-time.After(c.every):
							case <-ctx.Done():
								return
							}
						}
					}()
					err = <-ended
					took := time.Since(began)
					cancel()
					_ = conn.Close()
					synctest.Wait()
					want := trace.Complete
					if c.whole {
						require.NoError(t, err)
						require.Greater(t, took, 6*time.Minute)
					} else {
						require.ErrorIs(t, err, os.ErrDeadlineExceeded)
						require.LessOrEqual(t, took, 2*time.Minute)
						want = trace.ClientGone
					}
					r.mu.Lock()
					defer r.mu.Unlock()
					require.Len(t, r.records, 1)
					require.Equal(t, want, r.records[0].Outcome)
				})
			})
		}
	}
}

// Pauses of the handler aren't the client's: an event stream goes on for ever.
func TestPausesOfPassedAnswerAreNobodysFault(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for range 20 {
				_, _ = io.WriteString(w, "data: 1\n\n")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(10 * time.Minute)
			}
		}))
		r.get("/", 200, strings.Repeat("data: 1\n\n", 20), "Accept", "text/event-stream")
	})
}
