package admission

import (
	"context"
	"time"
)

// overflow says why a request can't queue, or Admitted if it can. in is 1 if it is in
// the queue already.
func (l *Limiter) overflow(r *Request, p place, in int) Reason {
	config := &l.config.routes[p.route]
	n := &l.lines[p.rank]
	if config.queue == 0 {
		return l.full(p)
	}
	if n.waiters-in >= l.config.queue || n.queues[p.route].waiters-in >= config.queue {
		return QueueFull
	}
	if r.Tenant != "" && l.config.tenantQueue > 0 {
		if t := n.tenants[r.Tenant]; t != nil && t.waiters-in >= l.config.tenantQueue {
			return TenantQueueFull
		}
	}
	return Admitted
}

// full says which ceiling is in the way.
func (l *Limiter) full(p place) Reason {
	if !l.counts.fitsRoute(p.route, p.cost) && p.route != 0 {
		return RouteFull
	}
	return LimitFull
}

// enqueue queues a request and lets all who fit pass, itself perhaps. A request
// that doesn't have to wait goes this way too if others wait, so that one rule
// says whose turn it is.
func (l *Limiter) enqueue(r *Request, p place, now int64, timeout time.Duration) *waiter {
	w := l.pool.Get().(*waiter)
	w.cost, w.came, w.since, w.deadline = p.cost, now, now, now+max(int64(timeout), 1)
	w.weight = uint64(min(max(r.Weight, 1), MaxWeight))
	w.settled = false
	n := &l.lines[p.rank]
	l.seq++
	n.push(n.tenant(r.Tenant), &n.queues[p.route], w, l.seq)
	l.handOver(now)
	return w
}

// withdraw refuses a waiter. It may have been in others' way.
func (l *Limiter) withdraw(w *waiter, why Reason, now int64) {
	l.turnAway(w, why, now)
	l.handOver(now)
}

// handOver dispatches, and counts who is left.
func (l *Limiter) handOver(now int64) {
	if l.adaptive != nil {
		l.adaptive.settle(&l.counts, now)
	}
	l.dispatch(now)
	l.waiters, l.idle = 0, 0
	for i := range l.lines {
		l.waiters += l.lines[i].waiters
		l.idle += l.lines[i].idle
	}
}

// wait sleeps until w is settled, its time is over or its client gone.
func (l *Limiter) wait(ctx context.Context, w *waiter, timeout time.Duration) (Permit, Decision) {
	w.timer.Reset(timeout)
	var why Reason
	select {
	case <-w.wake:
		w.timer.Stop()
		return l.recycle(w)
	case <-w.timer.C:
		why = QueueTimeout
	case <-ctx.Done():
		why = ClientGone
	}
	l.mu.Lock()
	if !w.settled {
		l.withdraw(w, why, l.now())
	}
	l.mu.Unlock()
	w.timer.Stop()
	<-w.wake
	permit, d := l.recycle(w)
	if why == ClientGone && d.OK() {
		// It was admitted just before. Nobody would use the permit.
		permit.Release()
		return Permit{}, Decision{Reason: ClientGone, Wait: d.Wait}
	}
	return permit, d
}

// recycle returns what became of w and keeps w for the next request. The token
// must have been taken out of it.
func (l *Limiter) recycle(w *waiter) (Permit, Decision) {
	permit, d := w.permit, w.outcome
	w.permit, w.outcome = Permit{}, Decision{}
	l.pool.Put(w)
	return permit, d
}

// waited is how long w was queued, in whichever class.
func (w *waiter) waited(now int64) time.Duration { return time.Duration(now - w.came) }

// refuse counts a refusal; w is nil if the request didn't queue.
func (l *Limiter) refuse(why Reason, w *waiter, now int64) Decision {
	l.refused[why]++
	d := Decision{Reason: why}
	if w != nil {
		d.Wait = w.waited(now)
	}
	if why != ClientGone {
		d.RetryAfter = l.retry.refuse(now)
	}
	return d
}

// refuseNow counts a refusal of a request that didn't queue.
func (l *Limiter) refuseNow(why Reason) Decision {
	advice, ok := l.retry.sparse()
	if !ok {
		return l.refuse(why, nil, l.now())
	}
	l.refused[why]++
	return Decision{Reason: why, RetryAfter: advice}
}
