package admission

// Fairness between the tenants of a class is start-time fair queueing. Each
// tenant has a place in virtual time at which its next request starts; serving
// one moves it on by cost / weight, and the tenant with the earliest start is
// next. A tenant that comes new, or after a pause, starts at the start of the
// request that was served last: what it didn't use is not saved up. Nor is what it
// couldn't use because the routes it waited for were full: when it's served at
// last, it starts there as well.
//
// Those who wait for the same full route compete for that route's room only, while
// others move virtual time on. So each has another start among them, which isn't
// lifted, or they would take turns whatever they weigh and cost. Where no route was
// full both starts are the same.

// costShift is the scale of virtual time: a cost of 1 at a weight of 1.
const costShift = 16

type tenant struct {
	holding[tenant]
	name  string
	start uint64
	flows *flow

	// While it has no waiters but its start is still ahead, it is remembered in
	// the line's list, or it would gain by queueing one request at a time.
	idle           bool
	earlier, later *tenant
}

// line is all that waits in one class.
type line struct {
	virtual uint64 // start of the request that was served last
	waiters int
	tenants map[string]*tenant
	active  []*queue // those that aren't empty
	queues  []queue  // by RouteID
	crowds  crowds[tenant]

	firstIdle, lastIdle *tenant
	idle                int

	// To be used again without allocating. There are never more than were in use
	// at once, which the bounds of the queue limit.
	spareTenants []*tenant
	spareFlows   []*flow
}

func (n *line) tenant(name string) *tenant {
	t := n.tenants[name]
	if t == nil {
		if k := len(n.spareTenants); k > 0 {
			t = n.spareTenants[k-1]
			n.spareTenants = n.spareTenants[:k-1]
		} else {
			t = new(tenant)
		}
		*t = tenant{holding: holding[tenant]{who: t}, name: name, start: n.virtual}
		n.tenants[name] = t
		return t
	}
	if t.idle {
		n.unlist(t)
		if before(t.start, n.virtual) {
			t.start = n.virtual
		}
	}
	return t
}

// flowOf returns the tenant's flow in a queue; it makes one if there is none.
func (n *line) flowOf(t *tenant, q *queue, seq uint64) *flow {
	if f := t.in(q); f != nil {
		return f
	}
	var f *flow
	if k := len(n.spareFlows); k > 0 {
		f = n.spareFlows[k-1]
		n.spareFlows = n.spareFlows[:k-1]
	} else {
		f = new(flow)
	}
	*f = flow{holding: holding[flow]{who: f}, tenant: t, queue: q, seq: seq, start: n.entry(t, q), sibling: t.flows}
	t.flows = f
	q.add(f)
	return f
}

func (n *line) push(t *tenant, q *queue, w *waiter, seq uint64) {
	if q.waiters == 0 {
		q.since, q.active = w.since, len(n.active)
		n.active = append(n.active, q)
	}
	f := n.flowOf(t, q, seq)
	f.push(w)
	q.waiters++
	n.waiters++
	q.crowds.grow(&f.holding)
	n.crowds.grow(&t.holding)
}

// pull takes w out of its queue, and forgets what is of no more use.
func (n *line) pull(w *waiter) {
	f := w.flow
	t, q := f.tenant, f.queue
	f.unlink(w)
	q.waiters--
	n.waiters--
	q.crowds.shrink(&f.holding)
	n.crowds.shrink(&t.holding)
	if f.oldest == nil {
		q.remove(f)
		for at := &t.flows; ; at = &(*at).sibling {
			if *at == f {
				*at = f.sibling
				break
			}
		}
		*f = flow{}
		n.spareFlows = append(n.spareFlows, f)
	}
	if q.waiters == 0 {
		last := len(n.active) - 1
		n.active[q.active] = n.active[last]
		n.active[q.active].active = q.active
		n.active = n.active[:last]
	}
	if t.waiters == 0 {
		n.list(t)
	}
}

// entry is where a tenant that comes to a queue starts there: as far behind the
// first as it is behind the line's virtual time. Only if the queue was held up its
// first flow is earlier than that time.
func (n *line) entry(t *tenant, q *queue) uint64 {
	at := n.virtual
	if len(q.heap) > 0 && before(q.heap[0].start, at) {
		at = q.heap[0].start
	}
	if before(n.virtual, t.start) {
		at += t.start - n.virtual
	}
	return at
}

// charge moves w's tenant on in virtual time because w is about to be served.
func (n *line) charge(w *waiter) {
	t := w.flow.tenant
	if before(n.virtual, t.start) {
		n.virtual = t.start
	} else {
		t.start = n.virtual
	}
	moved := uint64(w.cost) << costShift / w.weight
	t.start += moved
	for f := t.flows; f != nil; f = f.sibling {
		f.start += moved
		// What it's served elsewhere doesn't set it back without end in a queue
		// that is held up.
		if most := n.entry(t, f.queue); f != w.flow && before(most, f.start) {
			f.start = most
		}
		f.queue.fix(f)
	}
}

// list puts a tenant without waiters into the list of those to be remembered,
// which holds no more of them than keepIdle.
func (n *line) list(t *tenant) {
	t.idle, t.earlier, t.later = true, n.lastIdle, nil
	if n.lastIdle == nil {
		n.firstIdle = t
	} else {
		n.lastIdle.later = t
	}
	n.lastIdle = t
	n.idle++
	for n.idle > 0 && (n.idle > keepIdle || !before(n.virtual, n.firstIdle.start)) {
		n.forget(n.firstIdle)
	}
}

// keepIdle is how many tenants without waiters a line remembers. Forgetting one
// too early lets it come round sooner by what its last request cost.
const keepIdle = 4096

func (n *line) unlist(t *tenant) {
	if t.earlier == nil {
		n.firstIdle = t.later
	} else {
		t.earlier.later = t.later
	}
	if t.later == nil {
		n.lastIdle = t.earlier
	} else {
		t.later.earlier = t.earlier
	}
	t.idle, t.earlier, t.later = false, nil, nil
	n.idle--
}

func (n *line) forget(t *tenant) {
	n.unlist(t)
	delete(n.tenants, t.name)
	*t = tenant{}
	n.spareTenants = append(n.spareTenants, t)
}

// calm forgets all tenants: there was room without waiting, so nobody is owed
// anything.
func (n *line) calm() {
	for n.idle > 0 {
		n.forget(n.firstIdle)
	}
}
