package lb

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
