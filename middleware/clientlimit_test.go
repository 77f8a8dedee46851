package middleware

import (
	"bufio"
	"context"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/trace"
)

// crowd is a handler behind a cache of its own, whose requests under /held don't end
// before they're let go.
type crowd struct {
	t       *testing.T
	mw      *Middleware
	h       http.Handler
	release chan struct{}
	ended   sync.WaitGroup
}

func newCrowd(t *testing.T, o Options) *crowd {
	c := &crowd{t: t, release: make(chan struct{})}
	mw, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, mw.Close(context.Background())) })
	c.mw = mw
	c.h = mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			<-c.release
		}
		goodFor60(w.Header())
	}))
	return c
}

// hold sends a request that goes on until letGo.
func (c *crowd) hold(peer string, header ...string) {
	r := request("POST", "/held", header...)
	r.RemoteAddr = peer
	before := c.mw.AdmissionStats().Clients.InFlight
	c.ended.Go(func() { c.h.ServeHTTP(recorder(), r) })
	settle()
	require.Equal(c.t, before+1, c.mw.AdmissionStats().Clients.InFlight)
}

func (c *crowd) letGo() {
	close(c.release)
	c.ended.Wait()
	s := c.mw.AdmissionStats().Clients
	require.Equal(c.t, [3]int{}, [3]int{s.Clients, s.InFlight, s.Most})
}

func (c *crowd) ask(method, path, peer string, header ...string) (status int, retryAfter string) {
	r := request(method, path, header...)
	r.RemoteAddr = peer
	w := recorder()
	c.h.ServeHTTP(w, r)
	return w.Code, w.Header().Get("Retry-After")
}

// A client that has as many requests in flight as it may gets no further one, hits
// included, whoever it says it is; all others do.
func TestClientLimit(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	const v4, proxy = "192.0.2.1:1", "10.0.0.1:1"
	for name, c := range map[string]struct {
		holder string
		holds  []string // header fields
		asker  string
		asks   []string
		status int
	}{
		"the same address":               {v4, nil, "192.0.2.1:2", nil, 429},
		"another":                        {v4, nil, "192.0.2.2:1", nil, 200},
		"IPv4 written as IPv6":           {v4, nil, "[::ffff:192.0.2.1]:1", nil, 429},
		"the same /64":                   {"[2001:db8::1]:1", nil, "[2001:db8::ffff:ffff:1]:1", nil, 429},
		"the next /64":                   {"[2001:db8::1]:1", nil, "[2001:db8:0:1::1]:1", nil, 200},
		"none at all":                    {"@", nil, "@", nil, 429},
		"what it writes itself":          {v4, nil, v4, []string{"X-Forwarded-For", "203.0.113.1"}, 429},
		"one client behind a proxy":      {proxy, []string{"X-Forwarded-For", "203.0.113.1"}, proxy, []string{"X-Forwarded-For", "203.0.113.1"}, 429},
		"two clients behind a proxy":     {proxy, []string{"X-Forwarded-For", "203.0.113.1"}, proxy, []string{"X-Forwarded-For", "203.0.113.2"}, 200},
		"behind the proxy and before it": {proxy, []string{"X-Forwarded-For", "192.0.2.1"}, v4, nil, 429},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var last atomic.Pointer[trace.Record]
				w := newCrowd(t, Options{
					TrustedProxies: proxies, Admission: AdmissionOptions{ClientLimit: 2},
					Hook: func(r *trace.Record) { last.Store(r.Clone()) },
				})
				w.ask("GET", "/hit", "198.51.100.1:1")
				w.hold(c.holder, c.holds...)
				status, _ := w.ask("GET", "/hit", c.asker, c.asks...)
				require.Equal(t, 200, status, "one more is allowed")
				w.hold(c.holder, c.holds...)
				for _, method := range []string{"GET", "POST"} {
					status, retry := w.ask(method, "/hit", c.asker, c.asks...)
					require.Equal(t, c.status, status)
					if status == 429 {
						require.GreaterOrEqual(t, atoi(retry), 1)
						rec := last.Load()
						require.Equal(t, trace.Shed, rec.Cache.Status)
						require.Equal(t, "admission refused the request: client-limit", rec.Cache.Reason)
						require.Equal(t, trace.Admission{Verdict: "refused", Reason: "client-limit"}, rec.Admission)
					}
				}
				s := w.mw.AdmissionStats().Clients
				require.Equal(t, ClientStats{Limit: 2, Clients: 1, InFlight: 2, Most: 2, Refused: s.Refused}, s)
				require.Equal(t, c.status == 429, s.Refused == 2)
				w.letGo()
				status, _ = w.ask("GET", "/hit", c.asker, c.asks...)
				require.Equal(t, 200, status)
			})
		})
	}
}

// The operator can purge whatever comes from its address.
func TestClientLimitDoesntKeepTheOperatorOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newCrowd(t, Options{
			Admission: AdmissionOptions{ClientLimit: 1},
			Purge: PurgeOptions{Authorise: func(r *http.Request) (string, error) {
				if r.Header.Get("Authorization") == "" {
					return "", purge.ErrNoCredentials
				}
				return "operator", nil
			}},
		})
		for _, peer := range []string{"192.0.2.1:1", "@"} { // without an address, too
			w.hold(peer)
			status, _ := w.ask("PURGE", "/", peer, "Authorization", "right")
			require.Equal(t, 200, status)
			status, _ = w.ask("PURGE", "/", peer)
			require.Equal(t, 429, status)
		}
		w.letGo()
	})
}

// What was counted is given back exactly once, whatever ends a request; and what is
// refused further on counts only while it's refused.
func TestClientLimitComesBack(t *testing.T) {
	for name, c := range map[string]struct {
		o Options
		h http.HandlerFunc
	}{
		"an answer": {h: func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "x") }},
		"a panic":   {h: func(http.ResponseWriter, *http.Request) { panic("x") }},
		"an abort":  {h: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		"the goroutine's end": {h: func(http.ResponseWriter, *http.Request) {
			runtime.Goexit()
		}},
		"a hook that panics": {Options{Hook: func(*trace.Record) { panic("x") }}, func(http.ResponseWriter, *http.Request) {}},
		"a connection taken over": {h: func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		}},
		"overload": {Options{Admission: AdmissionOptions{
			Overload: &admission.OverloadOptions{LagKnee: -1},
			Sender:   func(*http.Request) admission.Sender { panic("x") },
		}}, func(http.ResponseWriter, *http.Request) {}},
		"rates": {Options{Admission: AdmissionOptions{Guard: newGuard(t, perAddress)}}, func(http.ResponseWriter, *http.Request) {}},
		"limit": {Options{Admission: AdmissionOptions{Limiter: &admission.Options{Limit: 1, Queue: -1}}}, func(http.ResponseWriter, *http.Request) {}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c.o.Admission.ClientLimit, c.o.Logger = 3, slog.New(slog.DiscardHandler)
				mw, err := New(c.o)
				require.NoError(t, err)
				defer func() { require.NoError(t, mw.Close(context.Background())) }()
				srv := testnet.Serve(t, mw.Wrap(c.h))
				for _, method := range []string{"GET", "POST", "HEAD", "PURGE"} {
					for range 5 {
						req, err := http.NewRequest(method, "http://example.com/", nil)
						require.NoError(t, err)
						if res, err := srv.Client.Do(req); err == nil {
							_ = res.Body.Close()
							if c.o.Admission.Guard == nil {
								require.NotEqual(t, 429, res.StatusCode)
							}
						}
						settle()
						require.Equal(t, ClientStats{Limit: 3}, mw.AdmissionStats().Clients)
					}
				}
			})
		})
	}
}

// Many clients at once: none has more in flight than it may, none is refused that has
// less, and all counts come back to nothing.
func TestClientLimitUnderLoad(t *testing.T) {
	const limit, clients, workers, each = 3, 40, 32, 3000
	l := newClientLimit(limit)
	var have [clients]struct {
		sync.Mutex
		n int
	}
	var refused uint64
	var mu sync.Mutex
	var all sync.WaitGroup
	for seed := range uint64(workers) {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, 1))
			var held []func()
			drop := func(i int) { held[i](); held[i] = held[len(held)-1]; held = held[:len(held)-1] }
			for range each {
				if len(held) > 0 && rnd.IntN(2) == 0 {
					drop(rnd.IntN(len(held)))
					continue
				}
				i := rnd.IntN(clients)
				c := &have[i]
				c.Lock()
				token, ok := l.enter(uint64(i) * 0x9e3779b97f4a7c15)
				if ok != (c.n < limit) {
					t.Errorf("client %d has %d in flight, of %d: %v", i, c.n, limit, ok)
				}
				if ok {
					c.n++
					held = append(held, func() {
						c.Lock()
						defer c.Unlock()
						token.leave()
						c.n--
					})
				} else {
					mu.Lock()
					refused++
					mu.Unlock()
				}
				c.Unlock()
			}
			for len(held) > 0 {
				drop(0)
			}
		})
	}
	all.Wait()
	require.Equal(t, ClientStats{Limit: limit, Refused: refused}, l.stats())
	require.NotZero(t, refused)
}

// A bound that can't bound anything is refused.
func TestClientLimitIsChecked(t *testing.T) {
	sender := func(*http.Request) admission.Sender { return admission.FromTenant }
	for name, c := range map[string]struct {
		o    AdmissionOptions
		want string
	}{
		"negative":                          {AdmissionOptions{ClientLimit: -1}, "Admission.ClientLimit = -1: must not be negative"},
		"above the process's":               {AdmissionOptions{ClientLimit: 101, Overload: &admission.OverloadOptions{Knee: 50, Limit: 100}}, "above Admission.Overload.Limit (100)"},
		"above twice the knee":              {AdmissionOptions{ClientLimit: 101, Overload: &admission.OverloadOptions{Knee: 50}}, "above Admission.Overload.Limit (100)"},
		"above the default":                 {AdmissionOptions{ClientLimit: 8193, Overload: &admission.OverloadOptions{}}, "above Admission.Overload.Limit (8192)"},
		"above the operator's":              {AdmissionOptions{ClientLimit: 201, Sender: sender, Overload: &admission.OverloadOptions{Knee: 50, Limit: 100}}, "above Admission.Overload.OperatorLimit (200)"},
		"the process's":                     {AdmissionOptions{ClientLimit: 100, Overload: &admission.OverloadOptions{Knee: 50, Limit: 100}}, ""},
		"alone":                             {AdmissionOptions{ClientLimit: 1 << 20}, ""},
		"above the ceiling: hits need none": {AdmissionOptions{ClientLimit: 100, Limiter: &admission.Options{Limit: 10}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			mw, err := New(Options{Admission: c.o})
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
				require.NotContains(t, fmt.Sprint(err), "\n")
				return
			}
			require.NoError(t, err)
			require.NoError(t, mw.Close(context.Background()))
		})
	}
}

// Clients that trickle their bodies hold no more than ClientLimit of what all share.
func TestTricklersOfOneClientLeaveRoomForOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newCrowd(t, Options{Admission: AdmissionOptions{
			ClientLimit: 4,
			Limiter:     &admission.Options{Limit: 10, Queue: -1},
			Overload:    &admission.OverloadOptions{Knee: 5, Limit: 10, LagKnee: -1},
		}})
		for range 4 {
			w.hold("192.0.2.1:1")
		}
		for range 20 {
			status, _ := w.ask("POST", "/held", "192.0.2.1:1")
			require.Equal(t, 429, status)
		}
		status, _ := w.ask("POST", "/", "192.0.2.2:1")
		require.Equal(t, 200, status)
		time.Sleep(time.Second)
		w.letGo()
	})
}

// A connection that a handler has taken over is in flight until it's closed, though the
// handler has returned: for its client's bound and for the process's, with a permit and
// without.
func TestConnectionTakenOverStaysInFlight(t *testing.T) {
	overload := &admission.OverloadOptions{LagKnee: -1}
	for name, c := range map[string]struct {
		o        AdmissionOptions
		inFlight [3]int // of the client, of the process, permits; for each connection
	}{
		"all":               {AdmissionOptions{ClientLimit: 2, Overload: overload, Limiter: &admission.Options{Limit: 4, Queue: -1}}, [3]int{1, 1, 1}},
		"no permits":        {AdmissionOptions{ClientLimit: 2, Overload: overload}, [3]int{1, 1, 0}},
		"the client's only": {AdmissionOptions{ClientLimit: 2}, [3]int{1, 0, 0}},
		"the process's":     {AdmissionOptions{Overload: overload}, [3]int{0, 1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				taken := make(chan net.Conn, 3)
				r := newRig(t, Options{Admission: c.o}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					conn, _, err := http.NewResponseController(w).Hijack()
					if err != nil {
						panic(err)
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
					taken <- conn
				}))
				inFlight := func() [3]int {
					settle()
					s := r.mw.AdmissionStats()
					return [3]int{s.Clients.InFlight, s.Overload.InFlight, s.Limiter.InUse}
				}
				upgrade := func() int {
					conn, err := dialRig(r)
					require.NoError(t, err)
					t.Cleanup(func() { _ = conn.Close() })
					go func() {
						_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
					}()
					res, err := http.ReadResponse(bufio.NewReader(conn), nil)
					require.NoError(t, err)
					return res.StatusCode
				}
				times := func(n int) (want [3]int) {
					for i := range want {
						want[i] = n * c.inFlight[i]
					}
					return want
				}
				require.Equal(t, []int{101, 101}, []int{upgrade(), upgrade()})
				time.Sleep(time.Hour)
				require.Equal(t, times(2), inFlight())
				if c.o.ClientLimit > 0 {
					require.Equal(t, 429, upgrade())
				}
				for i := range 2 {
					conn := <-taken
					require.NoError(t, conn.Close())
					_ = conn.Close()
					require.Equal(t, times(1-i), inFlight(), "given back once")
				}
				require.Equal(t, 101, upgrade())
				require.NoError(t, (<-taken).Close())
				require.Equal(t, times(0), inFlight())
			})
		})
	}
}

// What the bound costs by itself: finding out who the client is, counting, and giving
// back.
func BenchmarkClientLimit(b *testing.B) {
	l := newClientLimit(100)
	g := &governor{seed: maphash.MakeSeed()}
	r := request("GET", "/")
	b.Run("address", func(b *testing.B) {
		for b.Loop() {
			g.hash(g.client(r))
		}
	})
	b.Run("enter and leave", func(b *testing.B) {
		for b.Loop() {
			t, _ := l.enter(12345)
			t.leave()
		}
	})
}
