package lb

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Options are replaced every 20 ms under load, origins come and go, weights
// change: no request is lost and no count.
func TestUpdateUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		var addresses []string
		for i := range 5 {
			a := fmt.Sprintf("10.0.0.%d:80", i+1)
			n.add(a, worker(100, 30*time.Millisecond))
			addresses = append(addresses, a)
		}
		options := func(i int) Options {
			p := n.pool("p", addresses[i%4:i%4+2]...)
			for j := range p.Origins {
				p.Origins[j].ID = p.Origins[j].Address
				p.Origins[j].Weight = 1 + (i+j)%3
			}
			p.Origins[i%2].Maintenance = i%5 == 0
			p.Policy = []Policy{WeightedRoundRobin, LeastConnections, HashPath, Latency}[i%4]
			return Options{Pools: []Pool{p}}
		}
		b := newBalancer(t, options(0))
		stop := time.AfterFunc(10*time.Second, func() {})
		go func() {
			for i := 1; stop.Reset(10 * time.Second); i++ {
				assert.NoError(t, b.Update(options(i)))
				time.Sleep(20 * time.Millisecond)
			}
		}()
		c := drive(b, 300, 8*time.Second, time.Minute, get)
		stop.Stop()
		time.Sleep(time.Second)
		assert.Empty(t, c.reasons)
		assert.Equal(t, c.total, c.attempts)
		for _, o := range b.Status()[0].Origins {
			assert.Zero(t, o.InFlight)
		}
	})
}

// What stays keeps its health, its count and its connections; what is taken out
// finishes its request and then closes its connection. An origin with another
// address is another origin.
func TestUpdateKeepsWhatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		open := make(chan struct{})
		slow := func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "begun ")
			w.(http.Flusher).Flush()
			<-open
			io.WriteString(w, "done")
		}
		n.add("10.0.0.1:80", slow)
		n.add("10.0.0.2:80", saying(200, "other"))
		n.add("10.0.0.3:80", saying(200, "third"))
		p := n.pool("p", "10.0.0.1:80", "10.0.0.2:80")
		p.Policy = Failover
		b := newBalancer(t, Options{Pools: []Pool{p}})
		var a answer
		var wg sync.WaitGroup
		wg.Go(func() { a = ask(t, b, "GET", "http://shop.test/", "") })
		synctest.Wait()
		old := b.view.Load().all[0]
		for range DefaultEjectionFailures {
			tok, _ := old.servers[0].cond.begin(b.clock())
			old.servers[0].cond.report(tok, outcome{kind: failed}, b.clock())
		}
		status := func() []string {
			var out []string
			for _, o := range b.Status()[0].Origins {
				out = append(out, fmt.Sprint(o.ID, " ", o.State, " ", o.InFlight))
			}
			return out
		}
		assert.Equal(t, []string{"pa ejected 1", "pb healthy 0"}, status())
		p.Policy, p.MaxConnections = RoundRobin, 5
		p.Origins[1].Weight = 1
		require.NoError(t, b.Update(Options{Pools: []Pool{p}}))
		assert.Equal(t, []string{"pa ejected 1", "pb healthy 0"}, status(), "kept")
		assert.Same(t, old.servers[0].link, b.view.Load().all[0].servers[0].link)

		p.Origins[0].Address = "10.0.0.3:80"
		require.NoError(t, b.Update(Options{Pools: []Pool{p}}))
		assert.Equal(t, []string{"pa healthy 0", "pb healthy 0"}, status(), "another server")
		assert.EqualValues(t, 1, old.servers[0].entry.load.inFlight.Load())
		close(open)
		wg.Wait()
		assert.Equal(t, "begun done", a.body)
		assert.NoError(t, a.err)
		assert.Zero(t, old.servers[0].entry.load.inFlight.Load())
		_, err := old.servers[0].link.visitors.RoundTrip(mustRequest("GET", "http://shop.test/"))
		assert.Equal(t, FailureShutdown, FailureOf(err))

		// A refused update changes nothing.
		before := b.view.Load()
		p.Policy = "fastest"
		require.Error(t, b.Update(Options{Pools: []Pool{p}}))
		assert.Same(t, before, b.view.Load())
	})
}

func mustRequest(method, url string) *http.Request {
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		panic(err)
	}
	return r
}

// A request that finds its origin just taken out goes to the new ones, POSTs too:
// nothing was sent.
func TestReplacedUnderway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.add("10.0.0.1:80", saying(200, "one"))
		n.add("10.0.0.2:80", saying(200, "two"))
		b := newBalancer(t, Options{Pools: []Pool{n.pool("p", "10.0.0.1:80")}})
		old := b.view.Load()
		require.NoError(t, b.Update(Options{Pools: []Pool{n.pool("q", "10.0.0.2:80")}}))
		next := b.view.Load()
		for _, m := range []string{"GET", "POST"} {
			b.view.Store(old) // as if the request had come just before
			c := &call{b: b, req: mustRequest(m, "http://shop.test/"), host: "shop.test"}
			c.tried = c.triedBuf[:0]
			require.True(t, b.enter())
			l, err := c.start()
			require.NoError(t, err)
			b.view.Store(next)
			l.send()
			require.True(t, l.failed)
			then, why := c.another(l)
			require.NotNil(t, then, why)
			assert.Equal(t, nextReplaced, why)
			l.drop()
			then.send()
			require.NoError(t, then.err)
			res := c.deliver(then, nil)
			text, _ := io.ReadAll(res.Body)
			assert.Equal(t, "two", string(text))
		}
	})
}

// A setting of the connections changes, again and again, while a request waits for
// one: it waits for one of the new ones, without having used an attempt up. A POST
// too, since nothing was sent.
func TestUpdateOfSettingsWhileConnecting(t *testing.T) {
	for _, method := range []string{"GET", "PUT", "POST"} {
		for _, attempts := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s, attempts=%d", method, attempts), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newNetwork(t)
					h := n.add("10.0.0.1:80", saying(200, "one"))
					p := n.pool("p", "10.0.0.1:80")
					p.Retry.Attempts = attempts
					p.MaxConnections = 1
					p.Transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
						pause(ctx, time.Second)
						return n.DialContext(ctx, network, address)
					}
					b := newBalancer(t, Options{Pools: []Pool{p}})
					var a answer
					var wg sync.WaitGroup
					wg.Go(func() { a = ask(t, b, method, "http://shop.test/", "some data") })
					for i := range 5 {
						time.Sleep(time.Second / 2)
						p.Transport.HeadTimeout = time.Duration(10+i) * time.Second
						require.NoError(t, b.Update(Options{Pools: []Pool{p}}))
					}
					wg.Wait()
					require.NoError(t, a.err, "%v", a.trail.attempts())
					assert.Equal(t, "one", a.body)
					assert.Equal(t, 1, h.count())
					assert.Len(t, a.trail.Attempts, 6)
				})
			})
		}
	}
}

// A request that waits for a connection when the balancer gives up closing isn't
// sent round in circles.
func TestCloseWhileConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.add("10.0.0.1:80", saying(200, "one")).dialling(hang)
		n.add("10.0.0.2:80", saying(200, "two")).dialling(hang)
		b, err := New(Options{Pools: []Pool{n.pool("p", "10.0.0.1:80", "10.0.0.2:80")}})
		require.NoError(t, err)
		var a answer
		var wg sync.WaitGroup
		wg.Go(func() { a = ask(t, b, "GET", "http://shop.test/", "") })
		synctest.Wait()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		assert.ErrorIs(t, b.Close(ctx), context.Canceled)
		wg.Wait()
		assert.Equal(t, FailureShutdown, FailureOf(a.err))
		assert.Len(t, a.trail.Attempts, 2)
		assert.NoError(t, b.Close(context.Background()))
	})
}

// What is taken out and put back still has its requests: the limit holds for them
// too. What has none is forgotten two updates later.
func TestCapacityOfWhatIsPutBack(t *testing.T) {
	for name, without := range map[string]string{"origin": "p", "pool": "q"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				open := make(chan struct{})
				n.add("10.0.0.1:80", func(w http.ResponseWriter, r *http.Request) { <-open })
				n.add("10.0.0.2:80", saying(200, "two"))
				with, other := n.pool("p", "10.0.0.1:80"), n.pool(without, "10.0.0.2:80")
				with.MaxConnections = 1
				other.Origins[0].ID = "other"
				b := newBalancer(t, Options{Pools: []Pool{with}})
				var wg sync.WaitGroup
				wg.Go(func() { assert.NoError(t, ask(t, b, "GET", "http://shop.test/", "").err) })
				synctest.Wait()
				for range 3 {
					require.NoError(t, b.Update(Options{Pools: []Pool{other}}))
					require.NoError(t, b.Update(Options{Pools: []Pool{other}}))
					require.NoError(t, b.Update(Options{Pools: []Pool{with}}))
					assert.Equal(t, 1, b.Status()[0].Origins[0].InFlight)
					var none *NoOriginError
					require.ErrorAs(t, ask(t, b, "GET", "http://shop.test/", "").err, &none)
					assert.True(t, none.AtCapacity)
				}
				close(open)
				wg.Wait()
				assert.NoError(t, ask(t, b, "GET", "http://shop.test/", "").err)
				for i := range 20 {
					other.Origins[0].ID = fmt.Sprint("other", i)
					require.NoError(t, b.Update(Options{Pools: []Pool{other}}))
					assert.LessOrEqual(t, len(b.loads), 2)
				}
			})
		})
	}
}

// Close waits for bodies, refuses what comes later, and gives up with its context.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		open := make(chan struct{})
		n.add("10.0.0.1:80", func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "begun ")
			w.(http.Flusher).Flush()
			<-open
			io.WriteString(w, "done")
		})
		p := n.pool("p", "10.0.0.1:80")
		p.Health = HealthCheck{Path: "/"}
		b, err := New(Options{Pools: []Pool{p}})
		require.NoError(t, err)
		res, err := b.RoundTrip(mustRequest("GET", "http://shop.test/"))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		assert.ErrorIs(t, b.Close(ctx), context.DeadlineExceeded)
		_, err = b.RoundTrip(mustRequest("GET", "http://shop.test/"))
		assert.ErrorIs(t, err, ErrClosed)
		assert.ErrorIs(t, b.Update(Options{Pools: []Pool{p}}), ErrClosed)
		var wg sync.WaitGroup
		closedAt := time.Time{}
		wg.Go(func() {
			assert.NoError(t, b.Close(context.Background()))
			closedAt = time.Now()
		})
		time.Sleep(time.Second)
		assert.Zero(t, closedAt)
		close(open)
		text, err := io.ReadAll(res.Body)
		assert.NoError(t, err)
		assert.Equal(t, "begun done", string(text))
		res.Body.Close()
		wg.Wait()
		assert.NoError(t, b.Close(context.Background()))
	})
}

// A tunnel keeps its place until it is closed, through updates too.
func TestUpgradeKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.add("10.0.0.1:80", func(w http.ResponseWriter, r *http.Request) {
			c, brw, _ := w.(http.Hijacker).Hijack()
			defer c.Close()
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			for {
				line, err := brw.ReadString('\n')
				if err != nil {
					return
				}
				io.WriteString(c, "echo "+line)
			}
		})
		n.add("10.0.0.2:80", saying(200, "two"))
		b := newBalancer(t, Options{Pools: []Pool{n.pool("p", "10.0.0.1:80")}})
		req := mustRequest("GET", "http://shop.test/")
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "echo")
		res, err := b.RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, 101, res.StatusCode)
		load := b.view.Load().all[0].servers[0].entry.load
		require.NoError(t, b.Update(Options{Pools: []Pool{n.pool("q", "10.0.0.2:80")}}))
		assert.EqualValues(t, 1, load.inFlight.Load())
		tunnel := res.Body.(io.ReadWriteCloser)
		lines := bufio.NewReader(tunnel)
		for range 3 {
			io.WriteString(tunnel, "hello\n")
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			assert.Equal(t, "echo hello\n", line)
			time.Sleep(time.Minute)
		}
		tunnel.Close()
		assert.Zero(t, load.inFlight.Load())
	})
}
