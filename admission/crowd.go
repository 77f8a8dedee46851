package admission

// Tenants share the queue: as long as there is room anyone may have it, and when
// there is none whoever has most makes way for those who have less. So each has its
// equal part for sure, however many they are.

// holding is what a tenant, or one of its flows, has in a queue.
type holding[T any] struct {
	waiters     int
	who         *T
	left, right *holding[T] // those with as many
}

// crowds finds who has most waiters. Each change is one step.
type crowds[T any] struct {
	having []*holding[T] // by how many they have; any one of them
	most   int
}

// grow notes that h has one more.
func (c *crowds[T]) grow(h *holding[T]) {
	c.leave(h)
	h.waiters++
	c.join(h)
	c.most = max(c.most, h.waiters)
}

// shrink notes that h has one less.
func (c *crowds[T]) shrink(h *holding[T]) {
	c.leave(h)
	h.waiters--
	c.join(h)
	if c.having[c.most] == nil {
		c.most-- // where h is now
	}
}

func (c *crowds[T]) join(h *holding[T]) {
	for len(c.having) <= h.waiters {
		c.having = append(c.having, nil)
	}
	if h.waiters == 0 {
		return
	}
	h.right = c.having[h.waiters]
	if h.right != nil {
		h.right.left = h
	}
	c.having[h.waiters] = h
}

func (c *crowds[T]) leave(h *holding[T]) {
	if h.waiters == 0 {
		return
	}
	if h.left == nil {
		c.having[h.waiters] = h.right
	} else {
		h.left.right = h.right
	}
	if h.right != nil {
		h.right.left = h.left
	}
	h.left, h.right = nil, nil
}

// above returns who has most, if that's at least two more than n: else taking one
// from it would only turn the two round. Nil if nobody has.
func (c *crowds[T]) above(n int) *T {
	if c.most < n+2 {
		return nil
	}
	return c.having[c.most].who
}

// yielding returns the waiter that makes way for a request in a full queue: the
// newest of the tenant that has most of it. Nil if the one that comes has as many, or
// one less. in is 1 if the request itself is in the queue already.
func (l *Limiter) yielding(name string, p place, in int) *waiter {
	n := &l.lines[p.rank]
	q := &n.queues[p.route]
	queue := l.config.routes[p.route].queue
	if queue == 0 {
		return nil
	}
	own, here := 0, 0
	if t := n.tenants[name]; t != nil {
		own = t.waiters - in
		if f := t.in(q); f != nil {
			here = f.waiters - in
		}
	}
	if l.config.tenantQueue > 0 && name != "" && own >= l.config.tenantQueue {
		return nil
	}
	var crowd *tenant
	if n.waiters-in >= l.config.queue {
		if crowd = n.crowds.above(own); crowd == nil {
			return nil
		}
	}
	if q.waiters-in >= queue {
		if f := q.crowds.above(here); f != nil {
			return f.newest
		}
		return nil
	}
	if crowd == nil {
		return nil
	}
	return crowd.newest()
}

// newest returns the one of a tenant's waiters that came last.
func (t *tenant) newest() (newest *waiter) {
	for f := t.flows; f != nil; f = f.sibling {
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
