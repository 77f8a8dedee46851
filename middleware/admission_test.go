package middleware

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/trace"
)

// Hits need nothing of the origin: they are served while all permits are taken.
func TestHitsTakeNoPermit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := newWorks(0)
		r := newRig(t, limited(admission.Options{Limit: 1, Queue: -1}), o)
		require.Equal(t, "MISS", r.get("/a", 200, "/a"))
		require.Equal(t, trace.Admission{Permits: 1, Verdict: "admitted", Reason: "admitted"}, r.record().Admission)
		held := holdOne(t, r, "/held")
		for range 10 {
			require.Equal(t, "HIT", r.get("/a", 200, "/a"))
			require.Equal(t, trace.Admission{}, r.record().Admission)
		}
		require.Equal(t, uint64(2), r.tries())
		r.start("/b").shed(t, 503)
		o.free()
		held.whole(t, 200, "/held")
		settle()
		require.Zero(t, r.inUse())
	})
}

// However many wait for one response, one permit is taken for it.
func TestWaitersTakeNoPermit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := newWorks(time.Second)
		r := newRig(t, limited(admission.Options{Limit: 1, Queue: -1}), o)
		calls := r.many(1000, "/a")
		for _, c := range calls {
			c.whole(t, 200, "/a")
		}
		settle()
		require.Equal(t, 1, o.count("/a"))
		require.Equal(t, uint64(1), r.tries())
		permits := 0
		for _, rec := range r.records {
			permits += rec.Admission.Permits
		}
		require.Equal(t, 1, permits)
	})
}

// The origin never works on more than the ceiling, whatever comes: fetches of as many
// URLs, requests past the cache, or both. Those that don't fit queue, and the rest is
// refused.
func TestOriginSeesNoMoreThanTheCeiling(t *testing.T) {
	for name, start := range map[string]func(r *rig, i int) *call{
		"fetches": func(r *rig, i int) *call { return r.start(fmt.Sprint("/", i)) },
		"past the cache": func(r *rig, i int) *call {
			return r.startPost("/a")
		},
		"both": func(r *rig, i int) *call {
			if i%2 == 0 {
				return r.startPost(fmt.Sprint("/", i))
			}
			return r.start(fmt.Sprint("/", i))
		},
		"with credentials": func(r *rig, i int) *call { return r.start("/a", "Authorization", "Basic YTpi") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				o := newWorks(time.Second)
				r := newRig(t, limited(admission.Options{Limit: 10, Queue: 30, TenantQueue: 30, QueueTimeout: 10 * time.Second, StandingAfter: -1}), o)
				calls := make([]*call, 200)
				began := time.Now()
				for i := range calls {
					calls[i] = start(r, i)
				}
				status := map[int]int{}
				for _, c := range calls {
					<-c.done
					require.NoError(t, c.err)
					status[c.status]++
				}
				require.Equal(t, map[int]int{200: 40, 503: 160}, status)
				require.Equal(t, 10, o.peak)
				require.Equal(t, 4*time.Second, time.Since(began))
			})
		})
	}
}

// The permit is given back when the body has ended, not when its head is there.
func TestPermitIsHeldUntilTheBodyEnds(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		bubble(t, func(t *testing.T) {
			gate := testnet.NewGate()
			o := originOf(shareable(testnet.Chunk{Data: "a"}, testnet.Chunk{Gate: gate, Data: "b"}))
			r := newRig(t, limited(admission.Options{Limit: 1, Queue: -1}), o)
			c := r.start("/")
			if method == "POST" {
				c.cancel()
				<-c.done
				settle()
				c = r.startPost("/")
			}
			settle()
			status, body := c.sofar()
			if method == "GET" {
				require.Equal(t, 200, status)
				require.Equal(t, "a", body)
			}
			require.Equal(t, 1, r.inUse())
			r.start("/other").shed(t, 503)
			gate.Open()
			<-c.done
			settle()
			require.Zero(t, r.inUse())
		})
	}
}

// Whatever a handler does, its permit comes back, and only once.
func TestPermitComesBack(t *testing.T) {
	for name, f := range map[string]func(w http.ResponseWriter, r *http.Request){
		"panic":                   func(w http.ResponseWriter, r *http.Request) { panic("x") },
		"abort":                   func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
		"the goroutine's end":     func(w http.ResponseWriter, r *http.Request) { runtime.Goexit() },
		"nothing at all":          nothing,
		"a body of wrong length":  func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Length", "5") },
		"the origin's failure":    func(w http.ResponseWriter, r *http.Request) { ProxyErrorHandler(w, r, io.ErrUnexpectedEOF) },
		"panic after the head":    func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "abc"); panic("x") },
		"a 304 that nobody asked": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(304) },
	} {
		for _, method := range []string{"GET", "POST"} {
			t.Run(name+", "+method, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					r := newRig(t, limited(admission.Options{Limit: 2, Queue: -1}), http.HandlerFunc(f))
					for range 5 {
						if method == "GET" {
							<-r.start("/").done
						} else {
							<-r.startPost("/").done
						}
						settle()
						require.Zero(t, r.inUse())
					}
					require.Equal(t, uint64(5), r.mw.AdmissionStats().Limiter.Admitted)
				})
			})
		}
	}
}

// A permit follows a connection that the handler has taken over, whoever ends first.
func TestTunnelHoldsItsPermit(t *testing.T) {
	for name, handlerLast := range map[string]bool{"the handler first": false, "the connection first": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				taken := make(chan net.Conn, 1)
				stay := make(chan struct{})
				r := newRig(t, limited(admission.Options{Limit: 1, Queue: -1}), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					conn, _, err := http.NewResponseController(w).Hijack()
					if err != nil {
						panic(err)
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
					taken <- conn
					<-stay
				}))
				client, err := dialRig(r)
				require.NoError(t, err)
				go func() {
					_, _ = io.WriteString(client, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
					_, _ = io.Copy(io.Discard, client)
				}()
				conn := <-taken
				settle()
				require.Equal(t, 1, r.inUse())
				if handlerLast {
					require.NoError(t, conn.Close())
					settle()
					require.Equal(t, 1, r.inUse(), "the handler still works")
					close(stay)
				} else {
					close(stay)
					time.Sleep(time.Hour)
					require.Equal(t, 1, r.inUse(), "the connection is still open")
					require.NoError(t, conn.Close())
				}
				settle()
				require.Zero(t, r.inUse())
				_ = conn.Close()
				require.Zero(t, r.inUse())
				require.NoError(t, client.Close())
			})
		})
	}
}

// A connection that its handler has lost is nobody's work any more.
func TestLostTunnelGivesItsPermitBack(t *testing.T) {
	l, err := admission.New(admission.Options{Limit: 1})
	require.NoError(t, err)
	p, d := l.TryAcquire(admission.Request{})
	require.True(t, d.OK())
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	func() { newTunnel(a, &holding{permit: p}).returned() }()
	require.Eventually(t, func() bool {
		runtime.GC()
		return l.Stats().InUse == 0
	}, 30*time.Second, time.Millisecond)
}
