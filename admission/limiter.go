package admission

import (
	"context"
	"math"
	"sync"
	"time"
)

// Limiter bounds how much runs at once. Its methods may be called by many
// goroutines. It has no goroutines of its own and needs no closing.
type Limiter struct {
	config resolved
	epoch  time.Time
	pool   sync.Pool // of *waiter

	mu       sync.Mutex
	counts   ceilings
	permits  slots[taken]
	adaptive *adaptive     // nil if the ceiling is fixed
	lines    [classes]line // by rank
	waiters  int           // in all lines, as of the last change
	idle     int           // tenants that the lines remember without waiters
	seq      uint64
	retry    retryAfter
	admitted uint64
	refused  [lastReason]uint64
}

// New returns a limiter, or all that is wrong with the options: joined
// *[ConfigError] values.
func New(o Options) (*Limiter, error) {
	r, err := o.resolve()
	if err != nil {
		return nil, err
	}
	l := &Limiter{config: r, epoch: time.Now()}
	l.pool.New = newWaiter
	l.counts = ceilings{hard: r.limit, limit: r.limit, reserve: r.reserve}
	if r.adaptive != nil {
		l.adaptive = &adaptive{adapting: *r.adaptive}
		l.counts.limit = int64(r.adaptive.limit)
	}
	for _, route := range r.routes {
		// A ceiling that isn't lower than the global one must never be what is in
		// the way, or others would overtake who waits for room in all.
		if route.limit == r.limit {
			route.limit = math.MaxInt32
		}
		l.counts.routes = append(l.counts.routes, routeCount{limit: route.limit, fee: route.defaultFee})
	}
	for rank := range l.lines {
		n := &l.lines[rank]
		n.tenants = map[string]*tenant{}
		n.queues = make([]queue, len(r.routes))
		for i := range n.queues {
			n.queues[i] = queue{rank: rank, route: i}
		}
	}
	return l, nil
}

// now is the time since the limiter was made; it never goes back.
func (l *Limiter) now() int64 { return int64(time.Since(l.epoch)) }

// Route returns the ID of the route with a name; not ok if there is none.
func (l *Limiter) Route(name string) (id RouteID, ok bool) {
	for i, n := range l.config.names {
		if i > 0 && n == name {
			return RouteID(i), true
		}
	}
	return 0, false
}

// place is where a request counts.
type place struct {
	rank, route int
	cost        int64
}

func (l *Limiter) place(r *Request) place {
	p := place{rank: r.Class.rank(), cost: int64(r.Cost)}
	if uint(r.Route) < uint(len(l.counts.routes)) {
		p.route = int(r.Route)
	}
	if p.cost != 1 {
		p.cost = l.fee(p)
	}
	return p
}

// fee is what a request costs that doesn't say 1.
func (l *Limiter) fee(p place) int64 {
	cost := p.cost
	if cost <= 0 {
		cost = l.counts.routes[p.route].fee
	}
	if cost > 1 {
		cost = min(cost, l.counts.most(p.rank, p.route))
	}
	return cost
}

func (l *Limiter) fits(p place) bool {
	return l.counts.fitsAll(p.rank, p.cost) && l.counts.fitsRoute(p.route, p.cost)
}

// TryAcquire returns a permit if there is room now and nobody waits whose turn
// it is before. It doesn't queue. The permit must be released.
func (l *Limiter) TryAcquire(r Request) (Permit, Decision) {
	l.mu.Lock()
	p := l.place(&r)
	fits := l.fits(p)
	if l.waiters == 0 && fits {
		permit := l.pass(p)
		l.mu.Unlock()
		return permit, Decision{}
	}
	if !fits && l.adaptive != nil {
		l.want(p, l.now())
		fits = l.fits(p)
	}
	if !fits {
		d := l.refuseNow(l.full(p))
		l.mu.Unlock()
		return Permit{}, d
	}
	now := l.now()
	w := l.enqueue(&r, p, now, l.config.routes[p.route].timeout)
	if !w.settled {
		l.withdraw(w, l.full(p), now)
	}
	l.mu.Unlock()
	<-w.wake
	return l.recycle(w)
}

// Acquire returns a permit, for which it may have to queue. It gives up when the
// queue is full, the time to wait is over, or ctx ends. The permit must be
// released.
func (l *Limiter) Acquire(ctx context.Context, r Request) (Permit, Decision) {
	gone := ctx.Err() != nil
	l.mu.Lock()
	p := l.place(&r)
	if l.waiters == 0 && !gone && l.fits(p) {
		permit := l.pass(p)
		l.mu.Unlock()
		return permit, Decision{}
	}
	return l.acquire(ctx, r, p, gone, nil)
}

// acquire goes on with a request that isn't admitted at once, under the lock, which
// it gives back. c is its claim, if it has one.
func (l *Limiter) acquire(ctx context.Context, r Request, p place, gone bool, c *Claim) (Permit, Decision) {
	now := l.now()
	if gone {
		d := l.refuse(ClientGone, nil, now)
		l.mu.Unlock()
		return Permit{}, d
	}
	timeout := l.config.routes[p.route].timeout
	if until, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(until)/4)
	}
	w, d := l.lineUp(&r, p, now, timeout)
	settled := w != nil && w.settled
	if c != nil && w != nil && !settled {
		c.waiter, w.claim = w, c
	}
	l.mu.Unlock()
	switch {
	case w == nil:
		return Permit{}, d
	case settled:
		<-w.wake
		return l.recycle(w)
	}
	return l.wait(ctx, w, timeout)
}

// lineUp queues a request, or refuses it, then without a waiter.
func (l *Limiter) lineUp(r *Request, p place, now int64, timeout time.Duration) (*waiter, Decision) {
	l.want(p, now)
	over := l.overflow(r, p, 0)
	if over != Admitted && !l.fits(p) && l.yielding(r.Tenant, p, 0) == nil {
		return nil, l.refuse(over, nil, now)
	}
	w := l.enqueue(r, p, now, timeout)
	if w.settled || over == Admitted {
		return w, Decision{}
	}
	// Those whose time was over may have been refused meanwhile.
	if over = l.overflow(r, p, 1); over == Admitted {
		return w, Decision{}
	}
	if other := l.yielding(r.Tenant, p, 1); other != nil {
		l.withdraw(other, TenantQueueFull, now)
	} else {
		l.withdraw(w, over, now)
	}
	return w, Decision{}
}

// pass admits a request that nobody waits before.
func (l *Limiter) pass(p place) Permit {
	if l.idle > 0 {
		l.calm()
	}
	return l.issue(p.rank, p.route, p.cost)
}

// calm forgets what tenants are owed.
func (l *Limiter) calm() {
	for i := range l.lines {
		l.lines[i].calm()
	}
	l.idle = 0
}

func (l *Limiter) issue(rank, route int, cost int64) Permit {
	l.counts.add(rank, route, cost)
	l.admitted++
	i, gen := l.permits.issue(taken{int32(cost), uint16(route), uint16(rank)})
	if l.adaptive != nil {
		l.adaptive.issued(&l.counts, i, l.now())
	}
	return Permit{l: l, slot: i, gen: gen, cost: int32(cost)}
}

func (l *Limiter) release(p Permit) {
	l.mu.Lock()
	if s := l.permits.retire(p.slot, p.gen); s != nil {
		l.counts.add(int(s.rank), int(s.route), -int64(s.cost))
		if l.adaptive != nil {
			l.adaptive.back(&l.counts, p.slot, int64(s.cost))
		}
		if l.waiters > 0 {
			l.handOver(l.now())
		}
	}
	l.mu.Unlock()
}
