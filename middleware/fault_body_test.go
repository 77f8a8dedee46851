package middleware

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/trace"
)

// brokenBodies are handlers whose body breaks off after "first ", each in
// another way, when the gate opens.
func brokenBodies(gate *testnet.Gate) map[string]http.HandlerFunc {
	begin := func(w http.ResponseWriter, r *http.Request) {
		goodFor60(w.Header())
		fmt.Fprint(w, "first ")
		w.(http.Flusher).Flush()
		_ = gate.Wait(r.Context())
	}
	return map[string]http.HandlerFunc{
		"panic": func(w http.ResponseWriter, r *http.Request) { begin(w, r); panic("oh dear") },
		"abort": func(w http.ResponseWriter, r *http.Request) { begin(w, r); panic(http.ErrAbortHandler) },
		"ended goroutine": func(w http.ResponseWriter, r *http.Request) {
			begin(w, r)
			runtime.Goexit()
		},
		"short of its length": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			begin(w, r)
		},
		"report": func(w http.ResponseWriter, r *http.Request) {
			begin(w, r)
			ProxyErrorHandler(w, r, io.ErrUnexpectedEOF)
		},
		"stall": func(w http.ResponseWriter, r *http.Request) { begin(w, r); <-r.Context().Done() },
		"deaf stall": func(w http.ResponseWriter, r *http.Request) {
			begin(w, r)
			time.Sleep(time.Hour)
		},
	}
}

func TestBrokenBodyAbortsEveryClientAndIsNotStored(t *testing.T) {
	for name := range brokenBodies(nil) {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				gate := testnet.NewGate()
				var well atomic.Bool
				fail := brokenBodies(gate)[name]
				r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					if well.Load() {
						goodFor60(w.Header())
						fmt.Fprint(w, "good")
						return
					}
					fail(w, req)
				}))
				calls := append(r.many(10, "/a"), r.lead("/a"))
				synctest.Wait()
				for _, c := range calls {
					status, body := c.sofar()
					require.Equal(t, "200 first ", fmt.Sprint(status, " ", body))
				}
				well.Store(true)
				gate.Open()
				for _, c := range calls {
					c.broken(t)
				}
				require.Zero(t, r.mw.Stats().Memory.Objects)
				r.get("/a", 200, "good")
				require.Equal(t, "HIT", r.get("/a", 200, "good"))
			})
		})
	}
}

func TestBrokenBodyResetsTheStreamOverHTTP2(t *testing.T) {
	gate := testnet.NewGate()
	r := newH2Rig(t, Options{}, brokenBodies(gate)["abort"])
	calls := r.many(3, "/a")
	<-gate.Arrived()
	gate.Open()
	for _, c := range calls {
		c.broken(t)
	}
	require.Zero(t, r.mw.Stats().Memory.Objects)
}

// newH2Rig is newRealRig with HTTP/2.
func newH2Rig(t *testing.T, o Options, next http.Handler) *rig {
	t.Helper()
	r := prepareRig(t, o)
	srv := httptest.NewUnstartedServer(r.mw.Wrap(next))
	srv.Config.ErrorLog = silent()
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	r.url, r.client = srv.URL, srv.Client()
	return r
}

// A response that one client alone gets may pause for longer than a client may
// take nothing, over HTTP/2 too.
func TestOriginsPauseIsNotTheClientsOverHTTP2(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := prepareRig(t, Options{})
		srv := testnet.Serve(t, http.NotFoundHandler())
		srv.Close()
		l := testnet.NewPipeListener()
		var p http.Protocols
		p.SetUnencryptedHTTP2(true)
		server := &http.Server{Protocols: &p, Handler: r.mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Cache-Control", "no-store")
			for i := range 3 {
				fmt.Fprint(w, i)
				w.(http.Flusher).Flush()
				time.Sleep(3 * time.Minute)
			}
		}))}
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { _ = server.Close() })
		tr := &http.Transport{DialContext: l.DialContext, Protocols: &p}
		t.Cleanup(tr.CloseIdleConnections)
		r.url, r.client = "http://example.com", &http.Client{Transport: tr}
		r.get("/a", 200, "012")
	})
}

func TestMoreThanTheDeclaredLengthIsNeverSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		errs := make(chan error, 2)
		r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			goodFor60(w.Header())
			w.Header().Set("Content-Length", "5")
			_, err := io.WriteString(w, "hello")
			errs <- err
			_, err = io.WriteString(w, " and more")
			errs <- err
		}))
		r.get("/a", 200, "hello")
		require.NoError(t, <-errs)
		require.ErrorIs(t, <-errs, http.ErrContentLength)
		require.Equal(t, "HIT", r.get("/a", 200, "hello"))
	})
}

// A client that leaves while the handler uses its writer, and a handler that
// goes on after it has returned.
func TestHandlerThatKeepsItsWriterTouchesNobodyElse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var kept []http.ResponseWriter
		r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			kept = append(kept, w)
			goodFor60(w.Header())
			if req.URL.Path == "/nothing" {
				return
			}
			fmt.Fprint(w, "body of ", req.URL.Path)
		}))
		use := func() {
			for _, w := range kept {
				w.Header().Set("X-Late", "1")
				w.WriteHeader(500)
				_, err := w.Write([]byte("late"))
				require.Error(t, err)
				_, err = w.(io.ReaderFrom).ReadFrom(strings.NewReader("late"))
				require.Error(t, err)
				w.(http.Flusher).Flush()
			}
		}
		for range 3 {
			for _, path := range []string{"/a", "/b"} {
				r.get(path, 200, "body of "+path)
				use()
			}
			r.get("/nothing", 200, "")
			use()
		}
	})
}

func TestHandlerThatKeepsThePassedWriterTouchesNoOtherRequestsRecord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var kept http.ResponseWriter
		r := prepareRig(t, Options{})
		h := r.mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if kept == nil {
				kept = w
			}
			fmt.Fprint(w, "body")
		}))
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/a", nil))
		done := make(chan bool)
		go func() {
			defer close(done)
			for range 100 {
				_, _ = kept.Write([]byte("late"))
			}
		}()
		for range 100 {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/b", nil))
		}
		<-done
		for _, rec := range r.records {
			require.EqualValues(t, 4, rec.BytesSent)
		}
	})
}

func TestOddUsesOfTheWriter(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		do     func(t *testing.T, w http.ResponseWriter)
	}{
		"two heads":          {200, "a", func(_ *testing.T, w http.ResponseWriter) { fmt.Fprint(w, "a"); w.WriteHeader(500) }},
		"two explicit heads": {201, "", func(_ *testing.T, w http.ResponseWriter) { w.WriteHeader(201); w.WriteHeader(500) }},
		"body in a 204": {204, "", func(t *testing.T, w http.ResponseWriter) {
			w.WriteHeader(204)
			_, err := fmt.Fprint(w, "a")
			require.ErrorIs(t, err, http.ErrBodyNotAllowed)
		}},
		"length of a 204": {204, "", func(_ *testing.T, w http.ResponseWriter) {
			w.Header().Set("Content-Length", "10")
			w.WriteHeader(204)
		}},
		"nothing":      {200, "", func(*testing.T, http.ResponseWriter) {}},
		"empty writes": {200, "", func(_ *testing.T, w http.ResponseWriter) { _, _ = w.Write(nil); _, _ = w.Write([]byte{}) }},
		"status 799":   {799, "a", func(_ *testing.T, w http.ResponseWriter) { w.WriteHeader(799); fmt.Fprint(w, "a") }},
		"nonsense length": {200, "a", func(_ *testing.T, w http.ResponseWriter) {
			w.Header().Set("Content-Length", "-7")
			fmt.Fprint(w, "a")
		}},
		"copied": {200, strings.Repeat("x", 100<<10), func(t *testing.T, w http.ResponseWriter) {
			n, err := io.Copy(w, io.LimitReader(strings.NewReader(strings.Repeat("x", 200<<10)), 100<<10))
			require.NoError(t, err)
			require.EqualValues(t, 100<<10, n)
		}},
		"line breaks in fields": {200, "a", func(_ *testing.T, w http.ResponseWriter) {
			w.Header().Set("X-A", "1\r\nSet-Cookie: evil=1")
			w.Header()["X\r\nB"] = []string{"2"}
			fmt.Fprint(w, "a")
		}},
		"a header changed too late": {200, "a", func(_ *testing.T, w http.ResponseWriter) {
			w.WriteHeader(200)
			w.Header().Set("Set-Cookie", "late=1")
			fmt.Fprint(w, "a")
			w.Header().Set("Set-Cookie", "later=1")
		}},
		"a flushed nothing": {200, "", func(_ *testing.T, w http.ResponseWriter) { w.(http.Flusher).Flush() }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					goodFor60(w.Header())
					c.do(t, w)
				}))
				for range 2 {
					call := r.start("/a")
					call.whole(t, c.status, c.body)
					require.Empty(t, call.header["Set-Cookie"])
				}
			})
		})
	}
}

func TestClientThatTakesNothingIsCutOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		body := strings.Repeat("x", 8<<20)
		rest := testnet.NewGate()
		r := newRig(t, Options{}, originOf(shareable(testnet.Chunk{Data: body[:1<<20]}, testnet.Chunk{Gate: rest, Data: body[1<<20:]})))
		conn, err := dialRig(r)
		require.NoError(t, err)
		defer conn.Close()
		fmt.Fprint(conn, "GET /a HTTP/1.1\r\nHost: example.com\r\n\r\n")
		synctest.Wait() // nothing is read of the answer
		fast := r.lead("/a")
		rest.Open()
		fast.whole(t, 200, body)
		start := time.Now()
		for !hasOutcome(r) {
			time.Sleep(time.Second)
		}
		require.InDelta(t, 60, time.Since(start).Seconds(), 2)
		raw := readAll(conn)
		require.Less(t, len(raw), len(body))
	})
}

func hasOutcome(r *rig) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.records) == 2
}

// One write can take longer than a client or an origin may stand still, if the
// clients are slow.
func TestLongWriteIsNotAStall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			goodFor60(w.Header())
			_, err := w.Write(make([]byte, 40<<20))
			require.NoError(t, err)
		}))
		conn, err := dialRig(r)
		require.NoError(t, err)
		defer conn.Close()
		fmt.Fprint(conn, "GET /a HTTP/1.0\r\nHost: example.com\r\n\r\n")
		buf, got := make([]byte, 64<<10), 0
		for {
			n, err := io.ReadFull(conn, buf)
			got += n
			if err != nil {
				break
			}
			time.Sleep(time.Second + time.Millisecond)
		}
		require.Greater(t, got, 40<<20)
	})
}

// The same over a real socket, with a short limit.
func TestStalledSocketIsCutOffAndOthersFinish(t *testing.T) {
	body := strings.Repeat("0123456789abcdef", 1<<19)
	r := newRealRig(t, Options{StallTimeout: 10 * time.Second}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		goodFor60(w.Header())
		_, _ = io.WriteString(w, body)
	}))
	u := mustURL(r.url)
	conn, err := net.Dial("tcp", u.Host)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
	fmt.Fprint(conn, "GET /a HTTP/1.1\r\nHost: example.com\r\n\r\n")
	for _, c := range r.many(3, "/a") {
		c.whole(t, 200, body)
	}
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.records) == 4
	}, 40*time.Second, 10*time.Millisecond, "the stalled request ends")
	gone := 0
	for _, rec := range r.records {
		if rec.Outcome == trace.ClientGone {
			gone++
		}
	}
	require.Equal(t, 1, gone)
}

// Slow readers of a body larger than what is kept: they don't hold the fast one
// up for long, and memory stays bounded.
func TestSlowReadersOfLargeBodyKeepMemoryBounded(t *testing.T) {
	const size = 100 << 20
	r := prepareRig(t, Options{})
	h := r.mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		goodFor60(w.Header())
		w.Header().Set("Content-Length", fmt.Sprint(size))
		piece := make([]byte, 1<<20)
		for range size >> 20 {
			if _, err := w.Write(piece); err != nil {
				panic(http.ErrAbortHandler)
			}
		}
	}))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan any, 11)
	for range 10 {
		go func() {
			w := &slowWriter{h: http.Header{}, ctx: ctx}
			done <- panicOf(h, w, httptest.NewRequest("GET", "/a", nil).WithContext(ctx))
		}()
	}
	fast := &slowWriter{h: http.Header{}}
	go func() { done <- panicOf(h, fast, httptest.NewRequest("GET", "/a", nil)) }()
	var peak uint64
	var m runtime.MemStats
	for range 200 {
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapInuse)
		require.LessOrEqual(t, r.mw.Stats().FillBytes, r.mw.Stats().MaxFillBytes)
		if fast.n.Load() >= size {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	require.Less(t, peak, uint64(250<<20))
	cancel()
	for range 11 {
		<-done
	}
}

// slowWriter takes everything at once, or waits for a long time with each piece
// if it has a context.
type slowWriter struct {
	h   http.Header
	ctx context.Context
	n   atomic.Int64
}

func (w *slowWriter) Header() http.Header { return w.h }
func (w *slowWriter) WriteHeader(int)     {}
func (w *slowWriter) Write(p []byte) (int, error) {
	if w.ctx != nil {
		select {
		case <-w.ctx.Done():
			return 0, w.ctx.Err()
		case <-time.After(time.Minute):
		}
	}
	w.n.Add(int64(len(p)))
	return len(p), nil
}

// A slow client isn't the pace of the others as long as the body fits into what
// is kept.
func TestSlowClientDoesntSetThePace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		body := strings.Repeat("x", 2<<20)
		gate := testnet.NewGate()
		r := newRig(t, Options{}, originOf(shareable(testnet.Chunk{Data: "b"}, testnet.Chunk{Gate: gate, Data: body})))
		slow, err := dialRig(r)
		require.NoError(t, err)
		defer slow.Close()
		fmt.Fprint(slow, "GET /a HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n")
		synctest.Wait()
		fast := r.lead("/a")
		gate.Open()
		start := time.Now()
		fast.whole(t, 200, "b"+body)
		require.Zero(t, time.Since(start))
	})
}
