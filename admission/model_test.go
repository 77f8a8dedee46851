package admission

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ask is a request that the tests below follow.
type ask struct {
	p      place
	c      *Claim
	w      *waiter // while it waits
	permit Permit  // while it runs
}

// program runs random operations on a limiter, one after another, and checks
// after each that everything is as it must be, by counting and searching plainly.
type program struct {
	t        *testing.T
	l        *Limiter
	rng      *rand.Rand
	waiting  []*ask
	running  []*ask
	finished int
	asked    int
}

func randomOptions(rng *rand.Rand) Options {
	o := Options{Limit: 3 + rng.IntN(12), Queue: 1 + rng.IntN(20), QueueTimeout: 100 * time.Millisecond}
	o.ReserveCritical, o.ReserveNormal = rng.IntN(o.Limit/3+1), rng.IntN(o.Limit/3+1)
	if rng.IntN(2) == 0 {
		o.StandingAfter = -1
	}
	if rng.IntN(3) == 0 {
		o.TenantQueue = 1 + rng.IntN(o.Queue)
	}
	for i := range rng.IntN(4) {
		o.Routes = append(o.Routes, Route{Name: fmt.Sprint(i), Limit: 1 + rng.IntN(o.Limit), Queue: 1 + rng.IntN(o.Queue)})
	}
	return o
}

func randomRequest(rng *rand.Rand) Request {
	return Request{
		Route: RouteID(rng.IntN(5)), Class: Class(rng.IntN(classes)),
		Tenant: string(rune('a' + rng.IntN(4))), Weight: rng.IntN(4),
		Cost: max(0, rng.IntN(8)-3),
	}
}

func (g *program) step() {
	l, rng := g.l, g.rng
	switch n := rng.IntN(11); {
	case n == 10 && len(g.waiting) > 0:
		g.raise(g.waiting[rng.IntN(len(g.waiting))], Class(rng.IntN(classes+1)))
	case n < 5:
		g.ask(randomRequest(rng))
	case n < 7 && len(g.running) > 0:
		a := g.running[rng.IntN(len(g.running))]
		a.permit.Release()
		a.permit.Release()
		g.finished++
		g.running = without(g.running, a)
	case n < 8 && len(g.waiting) > 0:
		a := g.waiting[rng.IntN(len(g.waiting))]
		l.withdraw(a.w, ClientGone, l.now())
	case n < 9:
		p, d := l.TryAcquire(randomRequest(rng))
		g.asked++
		if d.OK() {
			g.running = append(g.running, &ask{permit: p, p: g.placeOf(p)})
		} else {
			g.finished++
		}
	default:
		time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond)
		// What is past its deadline wakes up and leaves.
		for _, a := range g.waiting {
			if !a.w.settled && l.now() >= a.w.deadline {
				l.withdraw(a.w, QueueTimeout, l.now())
			}
		}
		// A queue that came to stand meanwhile has another one in front. Nothing
		// happens at that instant; it shows in the next critical section.
		l.handOver(l.now())
	}
	g.collect()
	g.check()
}

func (g *program) ask(r Request) {
	l := g.l
	p := l.place(&r)
	g.asked++
	over, yielding := l.overflow(&r, p, 0), g.yielding(r.Tenant, p)
	w, _ := l.lineUp(&r, p, l.now(), l.config.routes[p.route].timeout)
	g.yielded(over, yielding, w)
	if w == nil {
		g.finished++
		return
	}
	a := &ask{p: p, c: &Claim{l: l, request: r}, w: w}
	if !a.w.settled {
		a.c.waiter, a.w.claim = a.w, a.c
	}
	g.waiting = append(g.waiting, a)
}

// yielding returns those of whom one makes way for a request that finds the queue
// full: the newest of the tenants that have most, if its own has at least two less.
func (g *program) yielding(tenant string, p place) (out []*ask) {
	config := &g.l.config
	full := func(queue int, same func(*ask) bool) (all bool, by map[string][]*ask, most int) {
		n := 0
		by = map[string][]*ask{}
		for _, a := range g.waiting {
			if a.p.rank == p.rank && same(a) {
				n++
				by[a.c.request.Tenant] = append(by[a.c.request.Tenant], a)
				most = max(most, len(by[a.c.request.Tenant]))
			}
		}
		return n >= queue, by, most
	}
	all, by, most := full(config.queue, func(*ask) bool { return true })
	route, inRoute, routeMost := full(config.routes[p.route].queue, func(a *ask) bool { return a.p.route == p.route })
	if all && most < len(by[tenant])+2 || route && routeMost < len(inRoute[tenant])+2 || config.routes[p.route].queue == 0 ||
		config.tenantQueue > 0 && len(by[tenant]) >= config.tenantQueue {
		return nil
	}
	if route {
		by, most = inRoute, routeMost
	} else if !all {
		return nil
	}
	for _, asks := range by {
		if len(asks) < most {
			continue
		}
		newest := int64(0)
		for _, a := range asks {
			newest = max(newest, a.w.since)
		}
		for _, a := range asks {
			if a.w.since == newest {
				out = append(out, a)
			}
		}
	}
	return out
}

// yielded checks that the one who had to made way for w.
func (g *program) yielded(over Reason, yielding []*ask, w *waiter) {
	made := 0
	for _, a := range g.waiting {
		if a.w.settled && a.w.outcome.Reason == TenantQueueFull {
			require.Contains(g.t, yielding, a)
			made++
		}
	}
	switch {
	case w != nil && w.settled && w.outcome.OK() && made == 0:
	case over == Admitted || len(yielding) == 0:
		require.Zero(g.t, made)
		require.Equal(g.t, over == Admitted, w != nil && (!w.settled || w.outcome.OK()))
	default:
		require.Equal(g.t, 1, made)
		require.True(g.t, !w.settled || w.outcome.OK())
	}
}

// crowds checks who is known to have most.
func (g *program) crowds() {
	for rank := range g.l.lines {
		n := &g.l.lines[rank]
		require.LessOrEqual(g.t, n.waiters, g.l.config.queue)
		most, in := 0, make([]int, len(n.queues))
		for _, t := range n.tenants {
			sum := 0
			for f := t.flows; f != nil; f = f.sibling {
				sum += f.waiters
				in[f.queue.route] = max(in[f.queue.route], f.waiters)
			}
			require.Equal(g.t, sum, t.waiters)
			most = max(most, sum)
		}
		require.Equal(g.t, most, n.crowds.most)
		if most > 0 {
			require.Equal(g.t, most, n.crowds.above(0-2).waiters)
		}
		for i := range n.queues {
			q := &n.queues[i]
			require.LessOrEqual(g.t, q.waiters, g.l.config.routes[i].queue)
			require.Equal(g.t, in[i], q.crowds.most)
			if in[i] > 0 {
				require.Equal(g.t, in[i], q.crowds.above(0-2).waiters)
			}
		}
	}
}

// raise makes a request more important. It moves, or there is no place for it.
func (g *program) raise(a *ask, to Class) {
	n := &g.l.lines[to.rank()]
	full := n.waiters >= g.l.config.queue || n.queues[a.p.route].waiters >= g.l.config.routes[a.p.route].queue ||
		g.l.config.tenantQueue > 0 && n.tenants[a.c.request.Tenant] != nil && n.tenants[a.c.request.Tenant].waiters >= g.l.config.tenantQueue
	before, deadline := a.p.rank, a.w.deadline
	a.c.Raise(to)
	if a.w.settled {
		return
	}
	require.Equal(g.t, deadline, a.w.deadline)
	a.p.rank = a.w.flow.queue.rank
	if to.rank() < before && !full {
		require.Equal(g.t, to.rank(), a.p.rank)
		require.Same(g.t, a.w, a.w.flow.newest)
	} else {
		require.Equal(g.t, before, a.p.rank)
	}
}

func (g *program) placeOf(p Permit) place {
	s := g.l.permits.list[p.slot].took
	return place{int(s.rank), int(s.route), int64(s.cost)}
}

func without(list []*ask, a *ask) (out []*ask) {
	for _, x := range list {
		if x != a {
			out = append(out, x)
		}
	}
	return out
}

// collect moves those that were settled by the last step.
func (g *program) collect() {
	for _, a := range g.waiting {
		if !a.w.settled {
			continue
		}
		g.waiting = without(g.waiting, a)
		deadline := a.w.deadline
		require.Nil(g.t, a.c.waiter, "a raise would hit the next request")
		<-a.w.wake
		require.Empty(g.t, a.w.wake, "told twice")
		permit, d := g.l.recycle(a.w)
		if d.OK() {
			require.Less(g.t, g.l.now(), deadline, "granted after its deadline")
			a.permit, a.p = permit, g.placeOf(permit)
			g.running = append(g.running, a)
		} else {
			require.Zero(g.t, permit)
			g.finished++
		}
	}
}

func (g *program) check() {
	t, l := g.t, g.l
	counts := ceilings{hard: l.counts.hard, limit: l.counts.limit, reserve: l.counts.reserve, routes: make([]routeCount, len(l.counts.routes))}
	for i := range counts.routes {
		counts.routes[i].limit, counts.routes[i].fee = l.counts.routes[i].limit, l.counts.routes[i].fee
	}
	for _, a := range g.running {
		counts.add(a.p.rank, a.p.route, a.p.cost)
	}
	require.Equal(t, counts, l.counts, "the counts are those of the permits")
	require.LessOrEqual(t, counts.used, counts.hard)
	for _, r := range counts.routes {
		require.LessOrEqual(t, r.used, r.limit)
	}
	// What is reserved is taken by those it's for, or free, at least once those
	// that were there before have gone.
	for rank := 1; rank < classes; rank++ {
		lower := int64(0)
		for j := rank; j < classes; j++ {
			lower += counts.classes[j]
		}
		higher := int64(0)
		for j := range rank {
			higher += counts.reserve[j]
		}
		require.LessOrEqual(t, lower, counts.hard-higher, "rank %d took of a reserve", rank)
	}
	require.Equal(t, len(g.waiting), l.waiters)
	g.crowds()
	require.Equal(t, g.asked, g.finished+len(g.running)+len(g.waiting), "nobody is lost")
	g.nobodySleepsInVain()
}

// nobodySleepsInVain searches for a waiter who should have been admitted.
func (g *program) nobodySleepsInVain() {
	l, now := g.l, g.l.now()
	for rank := range classes {
		var best *ask
		for _, a := range g.waiting {
			if a.p.rank != rank || !g.isFront(a, now) || !l.counts.fitsRoute(a.p.route, a.p.cost) {
				continue
			}
			if best == nil || a.w.flow.precedes(best.w.flow) {
				best = a
			}
		}
		if best == nil {
			continue
		}
		require.False(g.t, l.counts.fitsAll(rank, best.p.cost), "a permit fits a waiter whose turn it is")
		return
	}
}

// isFront reports whether it's a's turn among those of its class and route, and
// no more important one waits there.
func (g *program) isFront(a *ask, now int64) bool {
	late := a.w.flow.queue.standing(now, g.l.config.routes[a.p.route].standingAfter)
	for _, b := range g.waiting {
		if a == b || b.p.route != a.p.route {
			continue
		}
		if b.p.rank < a.p.rank && a.p.route != 0 {
			return false
		}
		if b.p.rank != a.p.rank {
			continue
		}
		if a.w.flow == b.w.flow {
			if older(b.w, a.w) != late {
				return false
			}
		} else if b.w.flow.sooner(a.w.flow) {
			return false
		}
	}
	return true
}

// older reports whether a came before b in their flow.
func older(a, b *waiter) bool {
	for x := a.newer; x != nil; x = x.newer {
		if x == b {
			return true
		}
	}
	return false
}

func TestRandomPrograms(t *testing.T) {
	t.Parallel()
	rounds, steps := 200, 300
	if testing.Short() {
		rounds = 30
	}
	for seed := range rounds {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 1))
			g := &program{t: t, l: newLimiter(t, randomOptions(rng)), rng: rng}
			for range steps {
				g.step()
			}
			for len(g.running) > 0 || len(g.waiting) > 0 {
				if len(g.running) == 0 {
					g.l.withdraw(g.waiting[0].w, ClientGone, g.l.now())
				} else {
					g.running[0].permit.Release()
					g.running = g.running[1:]
					g.finished++
				}
				g.collect()
				g.check()
			}
			empty(t, g.l)
		})
	}
}

// Many goroutines acquire, wait, give up and release at once.
func TestConcurrently(t *testing.T) {
	for seed := range 10 {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, randomOptions(rand.New(rand.NewPCG(uint64(seed), 2))))
			var mu sync.Mutex
			running := ceilings{routes: make([]routeCount, len(l.counts.routes))}
			count := func(p place, cost int64) {
				mu.Lock()
				defer mu.Unlock()
				running.add(p.rank, p.route, cost)
				assert.LessOrEqual(t, running.used, l.counts.limit)
				assert.LessOrEqual(t, running.routes[p.route].used, l.counts.routes[p.route].limit)
			}
			var all sync.WaitGroup
			for g := range 24 {
				all.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(seed), uint64(g)))
					for range 60 {
						r := randomRequest(rng)
						ctx, cancel := background, func() {}
						if rng.IntN(2) == 0 {
							ctx, cancel = contextFor(time.Duration(rng.IntN(60)) * time.Millisecond)
						}
						permit, d := l.Acquire(ctx, r)
						cancel()
						if !d.OK() {
							assert.Zero(t, permit)
							continue
						}
						p := l.place(&r)
						count(p, p.cost)
						time.Sleep(time.Duration(rng.IntN(4)) * time.Millisecond)
						count(p, -p.cost)
						go permit.Release()
						permit.Release()
					}
				})
			}
			all.Wait()
			synctest.Wait()
			empty(t, l)
		})
	}
}
