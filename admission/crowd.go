package admission

import "slices"

// Unless Options.TenantQueue bounds them, tenants share the queue: each has a
// quarter for sure, and what is free besides. Whoever has more makes way for those
// who have less. Of such crowds there are a few at most, so they are just searched.

// partOf is how many of a queue's places a tenant has for sure.
func partOf(queue int) int { return max(queue/4, 1) }

// yielding returns the waiter that makes way for a request in a full queue, or nil:
// the newest of the tenant that has the most above its part, if the one that comes
// has less than its own. in is 1 if the request itself is in the queue already.
func (l *Limiter) yielding(tenant string, p place, in int) *waiter {
	n := &l.lines[p.rank]
	q := &n.queues[p.route]
	queue := l.config.routes[p.route].queue
	if l.config.tenantQueue > 0 || queue == 0 {
		return nil
	}
	t := n.tenants[tenant]
	if n.waiters-in >= l.config.queue && t != nil && t.waiters-in >= n.part {
		return nil
	}
	if q.waiters-in < queue {
		return crowdiest(n.crowds)
	}
	if t != nil {
		if f := t.in(q); f != nil && f.waiters-in >= q.part {
			return nil
		}
	}
	most := 0
	var from *flow
	for _, f := range q.crowds {
		if f.waiters > most {
			from, most = f, f.waiters
		}
	}
	if from == nil {
		return nil
	}
	return from.newest
}

// crowdiest returns the newest waiter of the tenant that has most; nil if there is
// none.
func crowdiest(crowds []*tenant) (newest *waiter) {
	most := 0
	var from *tenant
	for _, t := range crowds {
		if t.waiters > most {
			from, most = t, t.waiters
		}
	}
	if from == nil {
		return nil
	}
	for f := from.flows; f != nil; f = f.sibling {
		if newest == nil || f.newest.since > newest.since {
			newest = f.newest
		}
	}
	return newest
}

// in returns the tenant's flow in a queue, or nil.
func (t *tenant) in(q *queue) *flow {
	for f := t.flows; f != nil; f = f.sibling {
		if f.queue == q {
			return f
		}
	}
	return nil
}

// drop takes one out of a list without order.
func drop[T comparable](list []T, one T) []T {
	i, last := slices.Index(list, one), len(list)-1
	list[i] = list[last]
	clear(list[last:])
	return list[:last]
}
