package lb

import (
	"context"
	"fmt"
	"io"
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
			t.Parallel() // each has a clock of its own
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
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
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
						time.Sleep(10 * time.Millisecond)
					}
				}()
				c := drive(b, 200, 60*time.Second, 5*time.Second, get)
				stop()
				time.Sleep(20 * time.Millisecond)
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
		})
	}
}
