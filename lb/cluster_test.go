package lb

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// crowd is what clients saw.
type crowd struct {
	mu       sync.Mutex
	total    int
	failed   int
	reasons  map[string]int
	attempts int
	slowest  time.Duration
	times    []time.Duration // since the start, of failures
}

// drive sends rate requests a second for d, evenly, each from a client of its
// own, and waits for all of them. patience is how long a client waits.
func drive(b *Balancer, rate int, d, patience time.Duration, method func(i int) string) *crowd {
	c := &crowd{reasons: map[string]int{}}
	var wg sync.WaitGroup
	began := time.Now()
	gap := time.Second / time.Duration(rate)
	for i := 0; time.Since(began) < d; i++ {
		wg.Go(func() { c.request(b, began, i, method(i), patience) })
		time.Sleep(gap)
	}
	wg.Wait()
	return c
}

func (c *crowd) request(b *Balancer, began time.Time, i int, method string, patience time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	timer := time.AfterFunc(patience, cancel)
	defer timer.Stop()
	ctx, trail := WithTrail(ctx)
	var body io.Reader
	if method == "PUT" || method == "POST" {
		body = struct{ io.Reader }{strings.NewReader("some data")}
	}
	req, _ := http.NewRequestWithContext(ctx, method, "http://shop.test/", body)
	req.Header.Set("X-Request", fmt.Sprint(i))
	sent := time.Now()
	why := ""
	res, err := b.RoundTrip(req)
	if err == nil {
		_, err = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if res.StatusCode >= 500 {
			why = res.Status
		}
	}
	if err != nil {
		why = FailureOf(err).String()
	}
	rec := trail.Record()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total++
	c.attempts += len(rec.Attempts)
	c.slowest = max(c.slowest, time.Since(sent))
	if why != "" {
		c.failed++
		why = method + ": " + why
		if n := len(rec.Attempts); n > 0 {
			why += " (" + rec.Attempts[n-1].Next + ")"
		}
		c.reasons[why]++
		c.times = append(c.times, time.Since(began))
	}
}

func get(int) string { return "GET" }

// worker is an origin that does so many requests at once, each taking d; others
// wait for their turn.
func worker(parallel int, d time.Duration) http.HandlerFunc {
	slots := make(chan struct{}, parallel)
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-r.Context().Done():
			return
		}
		pause(r.Context(), d)
		io.WriteString(w, strings.Repeat("x", 2000))
	}
}

// Four origins are restarted one after the other at 70 % of their load, without
// the balancer being told: no client sees an error. POSTs don't either if what was
// never sent may go on.
func TestRollingRestart(t *testing.T) {
	for _, gentle := range []bool{true, false} {
		t.Run(fmt.Sprintf("gentle=%v", gentle), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				var hosts []*host
				var addresses []string
				for i := range 4 {
					a := fmt.Sprintf("10.0.0.%d:80", i+1)
					// 10 at once of 50 ms each are 200 a second.
					hosts, addresses = append(hosts, n.add(a, worker(10, 50*time.Millisecond))), append(addresses, a)
				}
				p := n.pool("p", addresses...)
				p.Retry.Unsent = true
				p.Health = HealthCheck{Path: "/health", Interval: time.Second, FastInterval: 100 * time.Millisecond}
				p.SlowStart = 5 * time.Second
				b := newBalancer(t, Options{Pools: []Pool{p}})
				go func() {
					for _, h := range hosts {
						time.Sleep(5 * time.Second)
						if gentle {
							h.shutdown()
						} else {
							h.kill()
						}
						time.Sleep(4 * time.Second)
						h.start()
					}
				}()
				method := get
				if gentle {
					method = func(i int) string { return []string{"GET", "GET", "GET", "PUT", "POST"}[i%5] }
				}
				c := drive(b, 560, 42*time.Second, time.Minute, method)
				assert.Empty(t, c.reasons)
				t.Logf("%d requests, %d attempts, slowest %v", c.total, c.attempts, c.slowest)
				assert.Less(t, c.attempts-c.total, c.total/100)
				for _, h := range hosts {
					for id, k := range h.ids() {
						if id != "" {
							require.LessOrEqual(t, k, 2)
						}
					}
				}
			})
		})
	}
}

// Of four origins one fails fast, one is ten times slower, one is a black hole.
// Clients of the one that is well see hardly anything of it.
func TestOneFailingOneSlowOneSilent(t *testing.T) {
	for _, policy := range []Policy{RoundRobin, LeastConnections, TwoChoices, Latency} {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork(t)
			n.add("10.0.0.1:80", worker(1000, 20*time.Millisecond))
			n.add("10.0.0.2:80", func(w http.ResponseWriter, r *http.Request) {
				pause(r.Context(), time.Millisecond)
				w.WriteHeader(503)
			})
			n.add("10.0.0.3:80", worker(1000, 200*time.Millisecond))
			n.add("10.0.0.4:80", worker(1000, time.Hour))
			n.add("10.0.0.5:80", worker(1000, 20*time.Millisecond))
			p := n.pool("p", "10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80", "10.0.0.5:80")
			p.Policy = policy
			p.Transport.HeadTimeout = 2 * time.Second
			b := newBalancer(t, Options{Pools: []Pool{p}})
			var ejected [5]time.Duration
			began := time.Now()
			watch, stop := context.WithCancel(context.Background())
			go func() {
				for watch.Err() == nil {
					g := b.view.Load().all[0]
					for i, s := range g.servers {
						if st, _ := s.state(b.clock()); st == StateEjected && ejected[i] == 0 {
							ejected[i] = time.Since(began)
						}
					}
					time.Sleep(time.Millisecond)
				}
			}()
			c := drive(b, 200, 60*time.Second, 5*time.Second, get)
			stop()
			time.Sleep(10 * time.Millisecond)
			counts := []int{}
			for i := range 5 {
				counts = append(counts, n.hosts[fmt.Sprintf("10.0.0.%d:80", i+1)].count())
			}
			last := time.Duration(0)
			if len(c.times) > 0 {
				last = c.times[len(c.times)-1]
			}
			t.Logf("%s: %d of %d failed %v, last after %v; failing out after %v, silent after %v; attempts %d, by origin %v",
				policy, c.failed, c.total, c.reasons, last, ejected[1], ejected[3], c.attempts, counts)
			assert.Less(t, c.failed, c.total/50)
			assert.NotZero(t, ejected[1])
			assert.Zero(t, ejected[0]+ejected[2]+ejected[4])
		})
	}
}

// Whatever origins do, a POST or PATCH reaches them once at most, other requests
// three times, and never one origin twice but for a kept connection found closed.
func TestFaultsInEveryPlace(t *testing.T) {
	faults := map[string]func(n *network, x *host){
		"refuses":       func(n *network, x *host) { x.kill() },
		"hangs at dial": func(n *network, x *host) { x.dialling(hang) },
		"hangs at head": func(n *network, x *host) { x.handle(after(time.Hour, "")) },
		"aborts at head": func(n *network, x *host) {
			x.handle(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		},
		"closes unread": func(n *network, x *host) {
			x.handle(func(w http.ResponseWriter, r *http.Request) {
				c, _, _ := w.(http.Hijacker).Hijack()
				c.Close()
			})
		},
		"cuts the head": func(n *network, x *host) {
			x.handle(func(w http.ResponseWriter, r *http.Request) {
				c, _, _ := w.(http.Hijacker).Hijack()
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Le")
				c.Close()
			})
		},
		"talks nonsense": func(n *network, x *host) {
			x.handle(func(w http.ResponseWriter, r *http.Request) {
				c, _, _ := w.(http.Hijacker).Hijack()
				io.WriteString(c, "SSH-2.0-OpenSSH_9.9\r\n")
				c.Close()
			})
		},
		"503": func(n *network, x *host) {
			x.handle(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Retry-After", "5")
				w.WriteHeader(503)
			})
		},
		"502": func(n *network, x *host) { x.handle(saying(502, "bad")) },
		"504": func(n *network, x *host) { x.handle(saying(504, "late")) },
	}
	for name, fault := range faults {
		for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "POST", "PATCH"} {
			t.Run(name+"/"+method, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newNetwork(t)
					bad, good := n.add("10.0.0.1:80", saying(200, "bad")), n.add("10.0.0.2:80", saying(200, "good"))
					fault(n, bad)
					p := n.pool("p", "10.0.0.1:80", "10.0.0.2:80")
					p.Policy = Failover
					b := newBalancer(t, Options{Pools: []Pool{p}})
					body := ""
					if strings.HasPrefix(method, "P") {
						body = "some data"
					}
					a := ask(t, b, method, "http://shop.test/", body, func(r *http.Request) {
						r.Header.Set("X-Request", "1")
						r.Header.Set("Idempotency-Key", "1")
					})
					if strings.HasPrefix(method, "PO") || strings.HasPrefix(method, "PA") {
						assert.True(t, a.err != nil || a.status >= 500, "told as it was")
						assert.LessOrEqual(t, bad.count()+good.count(), 1)
						assert.Len(t, a.trail.Attempts, 1)
					} else {
						require.NoError(t, a.err)
						assert.Equal(t, 200, a.status)
						assert.Equal(t, 1, good.count())
						assert.LessOrEqual(t, bad.count(), 1)
						assert.Len(t, a.trail.Attempts, 2)
					}
					for _, s := range b.view.Load().all[0].servers {
						assert.Zero(t, s.entry.load.inFlight.Load())
					}
				})
			})
		}
	}
}

// A body that breaks off or falls silent is told as it is: nothing is repeated
// once a head was passed on. The origin is blamed for it.
func TestBrokenBodies(t *testing.T) {
	for name, then := range map[string]func(context.Context){
		"cut":    func(context.Context) { panic(http.ErrAbortHandler) },
		"silent": func(ctx context.Context) { pause(ctx, time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				bad := n.add("10.0.0.1:80", func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Length", "10")
					io.WriteString(w, "half")
					w.(http.Flusher).Flush()
					then(r.Context())
				})
				good := n.add("10.0.0.2:80", saying(200, "good"))
				p := n.pool("p", "10.0.0.1:80", "10.0.0.2:80")
				p.Policy = Failover
				b := newBalancer(t, Options{Pools: []Pool{p}})
				for range DefaultEjectionFailures {
					a := ask(t, b, "GET", "http://shop.test/", "")
					assert.Equal(t, 200, a.status)
					assert.Equal(t, "half", a.body)
					assert.Error(t, a.err)
				}
				assert.Equal(t, DefaultEjectionFailures, bad.count())
				assert.Zero(t, good.count())
				a := ask(t, b, "GET", "http://shop.test/", "")
				assert.Equal(t, "good", a.body)
				assert.Equal(t, map[string]string{"pa": "ejected", "pb": "used"}, a.trail.origins())
			})
		})
	}
}

// A client that goes away isn't the origin's failure, however often it happens; a
// deadline that passes while the origin is silent is.
func TestWhoIsBlamed(t *testing.T) {
	for name, c := range map[string]struct {
		ctx   func() (context.Context, context.CancelFunc)
		state string
	}{
		"client gone": {func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(3*time.Second, cancel)
			return ctx, cancel
		}, "not reached"},
		"deadline": {func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), 3*time.Second)
		}, "ejected"},
		"short deadline": {func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), 300*time.Millisecond)
		}, "not reached"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				n.add("10.0.0.1:80", after(time.Hour, ""))
				n.add("10.0.0.2:80", after(0, "good"))
				p := n.pool("p", "10.0.0.1:80", "10.0.0.2:80")
				p.Policy = Failover
				b := newBalancer(t, Options{Pools: []Pool{p}})
				for range 20 {
					ctx, cancel := c.ctx()
					a := ask(t, b, "GET", "http://shop.test/", "", func(r *http.Request) {
						*r = *r.WithContext(context.WithValue(ctx, trailContext, r.Context().Value(trailContext)))
					})
					cancel()
					if a.err == nil {
						break // it is ejected
					}
				}
				p.Policy = RoundRobin
				b.view.Load().all[0].servers[0].admin = StateHealthy
				state, _ := b.view.Load().all[0].servers[0].state(b.clock())
				want := StateHealthy
				if c.state == "ejected" {
					want = StateEjected
				}
				assert.Equal(t, want, state)
			})
		})
	}
}

// An origin that closes its kept connections under load costs no client an error.
func TestKeptConnectionsThatAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		x := n.add("10.0.0.1:80", func(w http.ResponseWriter, r *http.Request) {
			if rand.IntN(3) == 0 {
				// Close the connection just after the next request has come.
				c, brw, _ := w.(http.Hijacker).Hijack()
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				http.ReadRequest(bufio.NewReader(brw))
				c.Close()
				return
			}
			io.WriteString(w, "ok")
		})
		b := newBalancer(t, Options{Pools: []Pool{n.pool("p", "10.0.0.1:80")}})
		c := drive(b, 50, 20*time.Second, time.Minute, get)
		assert.Empty(t, c.reasons)
		assert.Greater(t, c.attempts, c.total, "some were made again")
		state, _ := b.view.Load().all[0].servers[0].state(b.clock())
		assert.Equal(t, StateHealthy, state)
		_ = x
	})
}

// A client whose own body breaks off isn't the origin's failure either.
func TestBrokenUploadsBlameNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.add("10.0.0.1:80", saying(200, ""))
		n.add("10.0.0.2:80", saying(200, ""))
		p := n.pool("p", "10.0.0.1:80", "10.0.0.2:80")
		p.Policy = Failover
		b := newBalancer(t, Options{Pools: []Pool{p}})
		for range 20 {
			a := ask(t, b, "PUT", "http://shop.test/", "x", func(r *http.Request) {
				r.Body, r.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader("some"), errReader{})), -1
			})
			assert.Equal(t, []string{"pa: request failed; none: the request itself failed"}, a.trail.attempts())
		}
		assert.Equal(t, StateHealthy, b.Status()[0].Origins[0].State)
	})
}

// The place is given back at the body's end, even if nobody closes it.
func TestPlaceIsGivenBackAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.add("10.0.0.1:80", saying(200, "hello"))
		b := newBalancer(t, Options{Pools: []Pool{n.pool("p", "10.0.0.1:80")}})
		res, err := b.RoundTrip(mustRequest("GET", "http://shop.test/"))
		require.NoError(t, err)
		assert.Equal(t, 1, b.Status()[0].Origins[0].InFlight)
		io.ReadAll(res.Body)
		assert.Zero(t, b.Status()[0].Origins[0].InFlight)
		res.Body.Close()
		assert.Zero(t, b.Status()[0].Origins[0].InFlight)
	})
}
