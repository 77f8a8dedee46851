package admission

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// contender is a tenant that always has requests in the queue.
type contender struct {
	name   string
	weight int
	cost   int // of each request, at most
	routes int
	first  RouteID // of routes
	queued []*waiter
	served float64 // cost / weight
}

// queue tops up the contender's requests, to more than one release can admit.
func (c *contender) queue(l *Limiter, rng *rand.Rand) {
	for len(c.queued) < 40 {
		r := Request{Tenant: c.name, Weight: c.weight, Cost: 1 + rng.IntN(c.cost), Route: c.first + RouteID(rng.IntN(c.routes))}
		c.queued = append(c.queued, l.enqueue(&r, l.place(&r), l.now(), time.Hour))
	}
}

// collect returns the permits of the contender's requests that were admitted.
func (c *contender) collect(t *testing.T, l *Limiter) (out []Permit) {
	rest := c.queued[:0]
	for _, w := range c.queued {
		if !w.settled {
			rest = append(rest, w)
			continue
		}
		<-w.wake
		p, d := l.recycle(w)
		require.True(t, d.OK())
		c.served += float64(p.Cost()) / float64(c.weight)
		out = append(out, p)
	}
	c.queued = rest
	return out
}

// Tenants that always wait get what their weights say: at no time do two of them
// differ by more than a request of each, whichever routes they use.
func TestFairness(t *testing.T) {
	t.Parallel()
	for seed := range 8 {
		rng := rand.New(rand.NewPCG(uint64(seed), 3))
		l := newLimiter(t, Options{Limit: 8 + rng.IntN(20), StandingAfter: -1, Routes: []Route{{Name: "a"}, {Name: "b"}}})
		var running []Permit
		for range l.counts.limit {
			running = append(running, mustTry(t, l, Request{}))
		}
		var tenants []*contender
		for i := range 2 + rng.IntN(6) {
			c := &contender{name: fmt.Sprint(i), weight: 1 + rng.IntN(5), cost: 1 + rng.IntN(8), routes: 1 + rng.IntN(3)}
			c.queue(l, rng)
			tenants = append(tenants, c)
		}
		for range 1000 {
			i := rng.IntN(len(running))
			running[i].Release()
			running[i] = running[len(running)-1]
			running = running[:len(running)-1]
			for _, c := range tenants {
				running = append(running, c.collect(t, l)...)
				c.queue(l, rng)
			}
			for _, a := range tenants {
				for _, b := range tenants {
					most := float64(a.cost)/float64(a.weight) + float64(b.cost)/float64(b.weight)
					require.LessOrEqual(t, a.served-b.served, most+0.01, "%v against %v", a.name, b.name)
				}
			}
		}
	}
}

// Whatever tenants that wait only for a full route didn't get while others were
// served, they get no more of the shared room afterwards than their weights say:
// a request each comes first, since they waited for it.
func TestNothingIsSavedUpBehindAFullRoute(t *testing.T) {
	t.Parallel()
	for seed := range 20 {
		rng := rand.New(rand.NewPCG(uint64(seed), 5))
		l := newLimiter(t, Options{Limit: 8 + rng.IntN(8), Queue: 4000, TenantQueue: 4000, StandingAfter: -1, Routes: []Route{{Name: "a"}, {Name: "b"}, {Name: "narrow", Limit: 1}}})
		const narrow = 3
		mustTry(t, l, Request{Route: narrow})
		var tenants []*contender
		for i := range 2 + rng.IntN(4) {
			c := &contender{name: fmt.Sprint(i), weight: 1 + rng.IntN(5), cost: 1 + rng.IntN(6), routes: 1 + rng.IntN(2), first: RouteID(rng.IntN(2))}
			if i%2 == 0 {
				r := Request{Tenant: c.name, Weight: c.weight, Route: narrow}
				require.False(t, l.enqueue(&r, l.place(&r), l.now(), time.Hour).settled)
			}
			tenants = append(tenants, c)
		}
		// Others have what they want, long since.
		for range 100 + rng.IntN(1000) {
			p, d := l.Acquire(background, Request{Tenant: tenants[1].name, Weight: tenants[1].weight})
			require.True(t, d.OK())
			p.Release()
		}
		running := []Permit{mustTry(t, l, Request{Tenant: "other", Cost: int(l.counts.limit) - 1})}
		for range 1000 {
			for _, c := range tenants {
				c.queue(l, rng)
			}
			i := rng.IntN(len(running))
			running[i].Release()
			running[i] = running[len(running)-1]
			running = running[:len(running)-1]
			for _, c := range tenants {
				running = append(running, c.collect(t, l)...)
			}
			for _, a := range tenants {
				for _, b := range tenants {
					most := 2 * (float64(a.cost)/float64(a.weight) + float64(b.cost)/float64(b.weight))
					require.LessOrEqual(t, a.served-b.served, most+0.01, "%v against %v", a.name, b.name)
				}
			}
		}
	}
}

// Of a narrow route's room tenants have what their weights say as well, however
// quickly others are served meanwhile; also those who come later, or are served
// elsewhere too.
func TestWeightsOnANarrowRoute(t *testing.T) {
	for _, others := range []int{0, 1, 20} {
		l := newLimiter(t, Options{Limit: 10, Queue: 4000, TenantQueue: 4000, StandingAfter: -1, Routes: []Route{{Name: "narrow", Limit: 1}}})
		const narrow = 1
		held := mustTry(t, l, Request{Route: narrow})
		queued := map[*waiter]string{}
		put := func(tenant string, weight, n int) {
			for range n {
				r := Request{Tenant: tenant, Weight: weight, Route: narrow}
				queued[l.enqueue(&r, l.place(&r), l.now(), time.Hour)] = tenant
			}
		}
		turns := func(n int) map[string]int {
			got := map[string]int{}
			for range n {
				for i := range others {
					p, d := l.Acquire(background, Request{Tenant: []string{"quick", "four"}[i%2]})
					require.True(t, d.OK())
					p.Release()
				}
				held.Release()
				for w, tenant := range queued {
					if w.settled {
						delete(queued, w)
						<-w.wake
						held, _ = l.recycle(w)
						got[tenant]++
					}
				}
			}
			return got
		}
		put("four", 4, 1000)
		put("one", 1, 1000)
		first := turns(200)
		if others < 2 { // or "four" has its part elsewhere
			assert.InDelta(t, 160, first["four"], 4, "%v", first)
		}
		put("late", 2, 1000)
		second := turns(140)
		assert.InDelta(t, 2*second["one"], second["late"], 4, "%v", second)
		// Once it's served elsewhere no more, that isn't held against it.
		others = 0
		third := turns(140)
		assert.InDelta(t, 80, third["four"], 4, "%v", third)
		held.Release()
	}
}

// A tenant with hundreds of requests in the queue doesn't keep one with a single
// request waiting for more than a round.
func TestCrowdDoesNotStarve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Options{Limit: 1, Queue: 1000, TenantQueue: 900})
		p := mustTry(t, l, Request{})
		out := make(chan result, 1000)
		for range 500 {
			queueUp(background, l, "crowd", Request{Tenant: "crowd"}, out)
		}
		synctest.Wait()
		p.Release()
		p = (<-out).permit
		queueUp(background, l, "one", Request{Tenant: "one"}, out)
		synctest.Wait()
		p.Release()
		first := <-out
		first.permit.Release()
		second := <-out
		second.permit.Release()
		assert.Contains(t, []string{first.name, second.name}, "one")
		for range 498 {
			(<-out).permit.Release()
		}
		synctest.Wait()
		// Nobody who comes when there is room is made to pay for the past.
		mustTry(t, l, Request{}).Release()
		empty(t, l)
		assert.Empty(t, l.lines[1].tenants)
	})
}

// A tenant alone has the whole queue. Others who come get what is theirs, and no
// more; its newest make way.
func TestTenantAloneHasTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Options{Limit: 1, Queue: 100, QueueTimeout: time.Minute})
		p := mustTry(t, l, Request{Tenant: "shop"})
		out := make(chan result, 1000)
		come := func(tenant string, n int) map[string]int {
			for i := range n {
				queueUp(background, l, fmt.Sprint(tenant, " ", i), Request{Tenant: tenant}, out)
				synctest.Wait()
			}
			got := map[string]int{}
			for len(out) > 0 {
				r := <-out
				got[fmt.Sprint(strings.Fields(r.name)[0], " ", r.d.Reason)]++
			}
			return got
		}
		assert.Equal(t, map[string]int{"shop queue-full": 20}, come("shop", 120))
		queueUp(background, l, "blog", Request{Tenant: "blog"}, out)
		synctest.Wait()
		newest := <-out
		assert.Equal(t, "shop 99", newest.name)
		assert.Equal(t, TenantQueueFull, newest.d.Reason)
		assert.Equal(t, time.Second, newest.d.RetryAfter)
		assert.Equal(t, map[string]int{"shop tenant-queue-full": 49, "blog queue-full": 11}, come("blog", 60))
		assert.Equal(t, map[string]int{"shop queue-full": 10}, come("shop", 10))
		wiki := come("wiki", 40)
		assert.Equal(t, 7, wiki["wiki queue-full"])
		assert.Equal(t, 33, wiki["shop tenant-queue-full"]+wiki["blog tenant-queue-full"])
		assert.InDelta(t, wiki["shop tenant-queue-full"], wiki["blog tenant-queue-full"], 1)
		assert.Equal(t, 3, sum(come("late", 3)))
		assert.Equal(t, 3, l.lines[1].tenants["late"].waiters)
		assert.Equal(t, 100, l.Stats().Waiting)
		p.Release()
		for range 100 {
			(<-out).permit.Release()
		}
		synctest.Wait()
		empty(t, l)
	})
}

// The queue of a route is shared in the same way.
func TestTenantAloneHasTheRoutesQueue(t *testing.T) {
	l := newLimiter(t, Options{Limit: 1, Queue: 100, Routes: []Route{{Name: "a", Queue: 8}}})
	p := mustTry(t, l, Request{})
	var waiting []*waiter
	come := func(tenant string) bool {
		r := Request{Tenant: tenant, Route: 1}
		w, _ := l.lineUp(&r, l.place(&r), l.now(), time.Hour)
		if w != nil {
			waiting = append(waiting, w)
		}
		return w != nil
	}
	got := map[string]int{}
	for _, tenant := range []string{"", "x", "y", "z", "late"} {
		for range 10 {
			if come(tenant) {
				got[tenant]++
			}
		}
	}
	assert.Equal(t, map[string]int{"": 8, "x": 4, "y": 2, "z": 2, "late": 1}, got)
	assert.False(t, waiting[0].settled, "the newest make way")
	assert.Equal(t, 8, l.waiters)
	p.Release()
}

func sum(counts map[string]int) (n int) {
	for _, k := range counts {
		n += k
	}
	return n
}

// However many tenants fill the queue, or a route's, one that comes with little is
// served: whoever has most makes way, a bound of each tenant's own or not.
func TestNewcomerAmongGreedyTenants(t *testing.T) {
	const queue = 100
	for _, greedy := range []int{1, 3, 4, 8, 20, 50} {
		for _, route := range []RouteID{0, 1} {
			for _, bound := range []int{0, min(queue, 1+queue/greedy)} {
				l := newLimiter(t, Options{Limit: 10, Queue: queue + 100*int(route), TenantQueue: bound, Routes: []Route{{Name: "a", Queue: queue}}})
				for range 10 {
					mustTry(t, l, Request{})
				}
				come := func(r Request) bool {
					r.Route = route
					w, _ := l.lineUp(&r, l.place(&r), l.now(), time.Hour)
					return w != nil && !w.settled
				}
				for i := range 10 * queue {
					come(Request{Tenant: fmt.Sprint(i % greedy)})
				}
				require.Equal(t, queue, l.waiters)
				what := fmt.Sprint(greedy, route, bound)
				require.True(t, come(Request{Tenant: "new"}), what)
				require.False(t, come(Request{Tenant: "0", Class: Normal}), what)
				require.True(t, come(Request{Tenant: "important", Class: Critical}), what)
				require.True(t, come(Request{Tenant: "refresh", Class: Background}), what)
				for i := range 10 * queue {
					come(Request{Tenant: fmt.Sprint(i % greedy), Class: Background})
				}
				require.Equal(t, 1, l.lines[0].waiters, "nobody makes way for a less important class")
				require.Equal(t, queue, l.lines[1].waiters)
				if part := queue / (greedy + 1); bound == 0 {
					for range queue {
						come(Request{Tenant: "new"})
					}
					require.GreaterOrEqual(t, l.lines[1].tenants["new"].waiters, part, what)
				}
			}
		}
	}
}

// One whose time is over leaves its place to the one that comes, and nobody else has
// to make way.
func TestOverdueMakeWayFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Options{Limit: 1, Queue: 4})
		mustTry(t, l, Request{})
		come := func(tenant string, timeout time.Duration) *waiter {
			r := Request{Tenant: tenant}
			w, _ := l.lineUp(&r, l.place(&r), l.now(), timeout)
			return w
		}
		first := come("a", time.Millisecond)
		others := []*waiter{come("a", time.Hour), come("a", time.Hour), come("a", time.Hour)}
		time.Sleep(2 * time.Millisecond)
		w := come("b", time.Hour)
		require.NotNil(t, w)
		assert.False(t, w.settled)
		assert.Equal(t, QueueTimeout, first.outcome.Reason)
		for _, w := range others {
			assert.False(t, w.settled)
		}
	})
}

// However many tenants come and go, only so many are remembered.
func TestIdleTenantsAreBounded(t *testing.T) {
	l := newLimiter(t, Options{Limit: 1, Queue: 4})
	p := mustTry(t, l, Request{})
	for i := range 3 * keepIdle {
		r := Request{Tenant: fmt.Sprint(i)}
		w := l.enqueue(&r, l.place(&r), l.now(), time.Hour)
		p.Release()
		<-w.wake
		p, _ = l.recycle(w)
	}
	assert.LessOrEqual(t, len(l.lines[1].tenants), keepIdle)
	assert.LessOrEqual(t, len(l.lines[1].spareTenants), 4)
}

// As long as critical requests want no more than is reserved for them, they
// neither wait nor are refused, whatever the others do.
func TestReserveIsKept(t *testing.T) {
	for seed := range 20 {
		rng := rand.New(rand.NewPCG(uint64(seed), 4))
		l := newLimiter(t, Options{Limit: 20, ReserveCritical: 6, ReserveNormal: 5, Routes: []Route{{Name: "a", Limit: 9}}})
		var critical, others []Permit
		var waiting []*waiter
		for range 1000 {
			switch rng.IntN(4) {
			case 0:
				if len(critical) < 6 {
					critical = append(critical, mustTry(t, l, Request{Class: Critical}))
				}
			case 1:
				if len(critical) > 0 {
					critical[0].Release()
					critical = critical[1:]
				}
			case 2:
				r := Request{Class: []Class{Normal, Background}[rng.IntN(2)], Cost: 1 + rng.IntN(9), Route: RouteID(rng.IntN(2))}
				if len(waiting) < 50 {
					waiting = append(waiting, l.enqueue(&r, l.place(&r), l.now(), time.Hour))
				}
			default:
				if len(others) > 0 {
					others[0].Release()
					others = others[1:]
				}
			}
			rest := waiting[:0]
			for _, w := range waiting {
				if !w.settled {
					rest = append(rest, w)
					continue
				}
				<-w.wake
				if p, d := l.recycle(w); d.OK() {
					others = append(others, p)
				}
			}
			waiting = rest
		}
	}
}
