package admission

// dispatch admits whoever waits and fits. It runs in the same critical section
// as every change that can make room, so a permit that fits a waiter whose turn
// it is never lies idle. The rules of whose turn it is:
//
//   - Less important classes don't overtake more important ones, on a route or
//     in all.
//   - A request that its route has no room for lets other routes pass.
//   - A request that the global ceiling has no room for holds up what comes
//     after it, else cheaper ones could keep an expensive one out for ever.
func (l *Limiter) dispatch(now int64) {
	for rank := range l.lines {
		n := &l.lines[rank]
		for n.waiters > 0 {
			w := l.next(rank, now)
			if w == nil {
				break
			}
			if !l.counts.fitsAll(rank, w.cost) {
				if l.adaptive != nil {
					l.adaptive.window.wanted = true
				}
				return
			}
			l.serve(n, w, now)
		}
	}
}

// next returns the waiter of a rank whose turn it is among those whose route has
// room, or nil. What is past its deadline is refused on the way. It costs a step
// for each route with waiters.
func (l *Limiter) next(rank int, now int64) *waiter {
	n := &l.lines[rank]
	var best *waiter
	for i := 0; i < len(n.active); {
		q := n.active[i]
		w := l.front(q, now)
		if w == nil {
			continue // q is empty now, and another one took its place in the list
		}
		i++
		if l.outranked(rank, q.route) || !l.counts.fitsRoute(q.route, w.cost) {
			continue
		}
		if best == nil || w.flow.precedes(best.flow) {
			best = w
		}
	}
	return best
}

// outranked reports whether a more important request waits for the same route.
// Requests of no route don't share one.
func (l *Limiter) outranked(rank, route int) bool {
	if route == 0 {
		return false
	}
	for j := range rank {
		if l.lines[j].queues[route].waiters > 0 {
			return true
		}
	}
	return false
}

// front returns the waiter of q whose turn it is. It refuses what it finds past
// its deadline; nil means that q is empty after that.
func (l *Limiter) front(q *queue, now int64) *waiter {
	for q.waiters > 0 {
		f := q.heap[0]
		w := f.oldest
		if q.standing(now, l.config.routes[q.route].standingAfter) {
			w = f.newest
		}
		if now < w.deadline {
			return w
		}
		l.turnAway(w, QueueTimeout, now)
	}
	return nil
}

// serve admits w. If the queue is standing, it then refuses those of w's tenant
// that are too old: not before, since nobody is turned away while there is room.
func (l *Limiter) serve(n *line, w *waiter, now int64) {
	f, q := w.flow, w.flow.queue
	config := &l.config.routes[q.route]
	late := q.standing(now, config.standingAfter)
	n.charge(w)
	others := f.oldest != f.newest
	n.pull(w)
	w.permit = l.issue(q.rank, q.route, w.cost)
	w.settle(Decision{Wait: w.waited(now)})
	for late && others && now-f.oldest.since >= int64(config.standingTimeout) {
		others = f.oldest != f.newest
		l.turnAway(f.oldest, QueueOverdue, now)
	}
}

// turnAway takes w out of its queue and refuses it.
func (l *Limiter) turnAway(w *waiter, why Reason, now int64) {
	l.lines[w.flow.queue.rank].pull(w)
	w.settle(l.refuse(why, w, now))
}

// settle tells w's goroutine. w must be out of its queue.
func (w *waiter) settle(d Decision) {
	w.outcome, w.settled = d, true
	if w.claim != nil {
		w.claim.waiter, w.claim = nil, nil
	}
	w.wake <- struct{}{} // there is room: it's sent once for each wait
}
