package lb

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slowly dials after a while.
func slowly(dial func(context.Context, string, string) (net.Conn, error), d time.Duration) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		select {
		case <-time.After(d):
			return dial(ctx, network, address)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// An update that replaces the connections under a check says nothing of the origin: the
// check is made again at once, over the new ones.
func TestUpdateDuringACheckIsNoResult(t *testing.T) {
	for _, pessimistic := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork(t)
			n.add("10.0.0.1:80", saying(200, "ok"))
			options := func(head time.Duration) Options {
				p := n.pool("p", "10.0.0.1:80")
				p.Health = HealthCheck{Path: "/", Interval: time.Hour, FastInterval: 10 * time.Millisecond, Rise: 1, Pessimistic: pessimistic}
				p.Transport.HeadTimeout = head
				p.Transport.DialContext = slowly(p.Transport.DialContext, 100*time.Millisecond)
				return Options{Pools: []Pool{p}, DisablePanic: true}
			}
			b := newBalancer(t, options(10*time.Second))
			before := StateHealthy
			if pessimistic {
				before = StateUnhealthy
			}
			for i := range 5 {
				time.Sleep(50 * time.Millisecond)
				assert.Equal(t, before, b.Status()[0].Origins[0].State, "after %d updates", i)
				require.NoError(t, b.Update(options(time.Duration(11+i)*time.Second)))
			}
			time.Sleep(110 * time.Millisecond)
			synctest.Wait()
			o := b.Status()[0].Origins[0]
			assert.Equal(t, OriginStatus{State: StateHealthy}, OriginStatus{State: o.State, Trouble: o.Trouble})
		})
	}
}

// So does one under a warm-up, with and without health checks: the next try isn't put
// off.
func TestUpdateDuringAWarmUpBeginsItAgain(t *testing.T) {
	for _, checked := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork(t)
			n.add("10.0.0.1:80", func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/healthz" {
					time.Sleep(100 * time.Millisecond)
				}
			})
			options := func(head time.Duration) Options {
				p := n.pool("p", "10.0.0.1:80")
				p.WarmUp = WarmUp{Paths: []string{"/a", "/b", "/c", "/d"}, Concurrency: 1}
				if checked {
					p.Health = HealthCheck{Path: "/healthz", Interval: time.Hour, FastInterval: 10 * time.Millisecond}
				}
				p.Transport.HeadTimeout = head
				return Options{Pools: []Pool{p}}
			}
			b := newBalancer(t, options(10*time.Second))
			for i := range 5 {
				time.Sleep(150 * time.Millisecond)
				assert.Equal(t, StateWarmingUp, b.Status()[0].Origins[0].State)
				require.NoError(t, b.Update(options(time.Duration(11+i)*time.Second)))
			}
			time.Sleep(600 * time.Millisecond) // the request under way, and four more
			synctest.Wait()
			o := b.Status()[0].Origins[0]
			assert.Equal(t, OriginStatus{State: StateHealthy}, OriginStatus{State: o.State, Trouble: o.Trouble})
		})
	}
}
