package middleware

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/admission"
)

// switching is a writer whose connection can be taken over.
type switching struct {
	http.ResponseWriter
	conn net.Conn
}

func (s switching) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return s.conn, bufio.NewReadWriter(bufio.NewReader(s.conn), bufio.NewWriter(s.conn)), nil
}

// Event streams and WebSockets that say nothing don't keep visitors out when a failing
// origin has brought the ceiling below what they hold, and it comes up again.
func TestIdleConnectionsLockNobodyOut(t *testing.T) {
	for _, kind := range []string{"none", "stream", "socket"} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				mw, err := New(limited(admission.Options{Limit: 100, Adaptive: &admission.Adaptive{}}))
				require.NoError(t, err)
				defer func() { require.NoError(t, mw.Close(context.Background())) }()
				var down atomic.Bool
				h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch {
					case r.URL.Path == "/stream":
						w.Header().Set("Content-Type", "text/event-stream")
						_ = http.NewResponseController(w).Flush()
						<-r.Context().Done()
					case r.URL.Path == "/socket":
						conn, _, err := http.NewResponseController(w).Hijack()
						if err == nil {
							<-r.Context().Done()
							conn.Close()
						}
					default:
						time.Sleep(20 * time.Millisecond)
						if down.Load() {
							w.WriteHeader(http.StatusServiceUnavailable)
						}
					}
				}))
				ctx, cancel := context.WithCancel(context.Background())
				var idle sync.WaitGroup
				for range 30 {
					if kind == "none" {
						break
					}
					client, server := net.Pipe()
					defer client.Close()
					idle.Go(func() {
						r := httptest.NewRequest("POST", "/"+kind, nil).WithContext(ctx)
						h.ServeHTTP(switching{httptest.NewRecorder(), server}, r)
					})
				}
				ask := func(length time.Duration) (ok, shed int64) {
					var good, refused atomic.Int64
					var all sync.WaitGroup
					end := time.Now().Add(length)
					for range 20 {
						all.Go(func() {
							for time.Now().Before(end) {
								w := httptest.NewRecorder()
								h.ServeHTTP(w, httptest.NewRequest("DELETE", "/", nil))
								switch {
								case w.Header().Get("Weir-Cache-Status") == "SHED":
									refused.Add(1)
								case w.Code == 200:
									good.Add(1)
								}
								time.Sleep(20 * time.Millisecond)
							}
						})
					}
					all.Wait()
					return good.Load(), refused.Load()
				}
				ask(5 * time.Second)
				require.Equal(t, map[string]int{"none": 0, "stream": 30, "socket": 30}[kind], mw.AdmissionStats().Limiter.InUse)
				down.Store(true)
				ask(20 * time.Second)
				require.Less(t, mw.AdmissionStats().Limiter.Limit, 30)
				down.Store(false)
				ask(10 * time.Second)
				ok, shed := ask(10 * time.Second)
				require.Greater(t, ok, int64(4000))
				require.Zero(t, shed)
				cancel()
				idle.Wait()
				require.Zero(t, mw.AdmissionStats().Limiter.InUse)
			})
		})
	}
}

// Answers to bodies of unknown length say nothing about how fast the origin is, but
// they count beside its failures, and let the ceiling come up.
func TestCeilingKnowsAnswersToUploads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mw, err := New(limited(admission.Options{Limit: 100, Adaptive: &admission.Adaptive{Min: 5, Start: 100}}))
		require.NoError(t, err)
		defer func() { require.NoError(t, mw.Close(context.Background())) }()
		var n, failing atomic.Int64
		h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			time.Sleep(20 * time.Millisecond)
			if n.Add(1)%failing.Load() == 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
		send := func(oneIn int64, length time.Duration) int {
			failing.Store(oneIn)
			var all sync.WaitGroup
			end := time.Now().Add(length)
			for range 30 {
				all.Go(func() {
					for time.Now().Before(end) {
						body := struct{ io.Reader }{strings.NewReader("x")}
						h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/", body))
						time.Sleep(10 * time.Millisecond)
					}
				})
			}
			all.Wait()
			return mw.AdmissionStats().Limiter.Limit
		}
		require.Equal(t, 100, send(100, 30*time.Second))
		require.Equal(t, 5, send(1, 20*time.Second))
		require.Greater(t, send(100, 2*time.Minute), 35)
	})
}

// A failed origin brings the ceiling down although a stale head stands in for it.
func TestCeilingKnowsWhatAStaleHeadHides(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mw, err := New(limited(admission.Options{Limit: 100, Adaptive: &admission.Adaptive{Start: 50}}))
		require.NoError(t, err)
		defer func() { require.NoError(t, mw.Close(context.Background())) }()
		h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.Header().Set("Cache-Control", "max-age=1, stale-if-error=3600")
			_, _ = io.WriteString(w, "page")
		}))
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		time.Sleep(5 * time.Second)
		for range 200 {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("HEAD", "/", nil))
			require.Equal(t, 200, w.Code)
			time.Sleep(20 * time.Millisecond)
		}
		require.Less(t, mw.AdmissionStats().Limiter.Limit, 50)
	})
}
