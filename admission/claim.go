package admission

import "context"

// Claim is a request for a permit that can become more important while it waits:
// when somebody more important wants the same. It is used for one Acquire. Its
// methods may be called by many goroutines; it must not be copied once they are.
type Claim struct {
	l *Limiter

	// Under the limiter's lock.
	request Request
	waiter  *waiter // while it's queued
}

// Claim returns a claim of a permit for r. It takes nothing yet.
func (l *Limiter) Claim(r Request) Claim { return Claim{l: l, request: r} }

// Acquire is [Limiter.Acquire] for the claim's request, in the most important
// class that it was raised to. It may be called once.
func (c *Claim) Acquire(ctx context.Context) (Permit, Decision) {
	gone := ctx.Err() != nil
	l := c.l
	l.mu.Lock()
	p := l.place(&c.request)
	if l.waiters == 0 && !gone && l.fits(p) {
		permit := l.pass(p)
		l.mu.Unlock()
		return permit, Decision{}
	}
	return l.acquire(ctx, c.request, p, gone, c)
}

// Raise makes the claim as important as a class, if that is more than it was. While
// it waits it takes the last place among those of its tenant and the class, whose
// reserve is for it then; how long it may wait stays the same, and so does its cost.
// If as many of the class wait as may, it stays where it is, unless it can go on at
// once; it may be raised again later. Before Acquire the claim asks in the class from
// the start; after it nothing happens. It never blocks, and costs nothing unless it
// is called.
func (c *Claim) Raise(to Class) {
	l := c.l
	l.mu.Lock()
	if to.Outranks(c.request.Class) && (c.waiter == nil || l.raise(c, to.rank(), l.now())) {
		c.request.Class = to
	}
	l.mu.Unlock()
}

// raise moves a claim's waiter to the line of a more important class, and reports
// whether there was a place for it.
func (l *Limiter) raise(c *Claim, rank int, now int64) bool {
	w := c.waiter
	from := w.flow.queue
	p := place{rank, from.route, w.cost}
	room := l.overflow(&c.request, p, 0) == Admitted || l.unopposed(p, now)
	if room {
		l.lines[from.rank].pull(w)
		n := &l.lines[rank]
		l.seq++
		w.since = now
		n.push(n.tenant(c.request.Tenant), &n.queues[p.route], w, l.seq)
	}
	l.handOver(now)
	return room
}

// unopposed reports whether a request would be admitted at once if it queued: all
// who wait and are no less important wait for routes that have no room.
func (l *Limiter) unopposed(p place, now int64) bool {
	if !l.fits(p) || l.outranked(p.rank, p.route) || p.route > 0 && l.lines[p.rank].queues[p.route].waiters > 0 {
		return false
	}
	for rank := range p.rank + 1 {
		if l.next(rank, now) != nil {
			return false
		}
	}
	return true
}
