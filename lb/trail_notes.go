package lb

// notes are one call's part in a trail. Its methods note what happens. They do
// nothing without a trail, nor when another call has begun there since.
type notes struct {
	trail *Trail
	turn  uint64 // of the call; 0 until it has a plan
}

// lock locks the trail if it is the call's.
func (n *notes) lock() bool {
	if n.trail == nil {
		return false
	}
	n.trail.mu.Lock()
	if n.trail.turn != n.turn {
		n.trail.mu.Unlock()
		return false
	}
	return true
}

// planned notes a plan's pools and origins, in place of an earlier plan's.
func (n *notes) planned(host string, p *plan) {
	t := n.trail
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	attempts := t.rec.Attempts
	if n.turn == 0 {
		t.turn++
		n.turn, attempts = t.turn, nil // they are another call's
	} else if n.turn != t.turn {
		return
	}
	t.rec = Record{Host: host, Panic: p.mode == modePanic, Attempts: attempts}
	for i, g := range p.groups {
		r := p.rings[i]
		t.rec.Pools = append(t.rec.Pools, PoolStep{g.Name, len(r.well.entries), g.MinimumHealthy})
		for j, s := range g.servers {
			t.rec.Origins = append(t.rec.Origins, OriginStep{Pool: g.Name, Origin: s.id, State: r.states[j]})
		}
	}
}

// origin finds the step of an origin. It needs t.mu.
func (t *Trail) origin(g *group, id string) *OriginStep {
	for i := range t.rec.Origins {
		if o := &t.rec.Origins[i]; o.Origin == id && o.Pool == g.Name {
			return o
		}
	}
	return &OriginStep{} // of an earlier plan
}

func (n *notes) skipped(g *group, s *server, state State) {
	if !n.lock() {
		return
	}
	t := n.trail
	defer t.mu.Unlock()
	t.origin(g, s.id).State = state
}

// attempt notes that one begins.
func (n *notes) attempt(l *lease, p *plan) {
	if !n.lock() {
		return
	}
	t := n.trail
	defer t.mu.Unlock()
	l.step = len(t.rec.Attempts)
	t.rec.Attempts = append(t.rec.Attempts, AttemptStep{Pool: l.group.Name, Origin: l.server.id, Start: l.start})
	t.rec.Pool, t.rec.Policy, t.rec.Origin = l.group.Name, l.group.Policy, l.server.id
	t.rec.Panic, t.rec.NoKey = p.panicking(), p.noKey
	t.origin(l.group, l.server.id).Used = true
	if i := p.seq.crowded - 1; i >= 0 && p.cur == l.group {
		t.origin(l.group, l.group.servers[p.seq.set.entries[i].index].id).AboveBound = true
	}
}

// cancelled takes the last attempt back: it wasn't made.
func (n *notes) cancelled(l *lease) {
	if !n.lock() {
		return
	}
	t := n.trail
	defer t.mu.Unlock()
	t.rec.Attempts = t.rec.Attempts[:min(l.step, len(t.rec.Attempts))]
	t.origin(l.group, l.server.id).Used = false
}

// failed notes why an attempt failed, and what follows.
func (n *notes) failed(l *lease, next string) {
	if !n.lock() {
		return
	}
	t := n.trail
	defer t.mu.Unlock()
	a := t.result(l)
	a.Next = next
	if l.res == nil {
		a.Total = l.headAt - l.began
		a.fail(l.err)
	}
}

func (a *AttemptStep) fail(err error) {
	if err != nil {
		a.Failure, a.Error = FailureOf(err), clipped(err.Error())
	}
}

// step finds an attempt. It needs t.mu.
func (t *Trail) step(l *lease) *AttemptStep {
	if l.step < len(t.rec.Attempts) {
		return &t.rec.Attempts[l.step]
	}
	return &AttemptStep{} // the trail must never cost a request
}

// result notes what is known when a head came, or none. It needs t.mu.
func (t *Trail) result(l *lease) *AttemptStep {
	a := t.step(l)
	a.Remote, a.Reused = l.info.remote(), l.info.Reused
	if l.res != nil {
		a.Status, a.FirstByte = l.res.StatusCode, l.headAt-l.began
	}
	return a
}

// delivered notes whose response is passed on.
func (n *notes) delivered(l *lease) {
	if !n.lock() {
		return
	}
	t := n.trail
	defer t.mu.Unlock()
	t.result(l)
	t.rec.Pool, t.rec.Policy, t.rec.Origin = l.group.Name, l.group.Policy, l.server.id
}

// ended notes the end of an attempt's body.
func (n *notes) ended(l *lease, err error) {
	if !n.lock() {
		return
	}
	t := n.trail
	defer t.mu.Unlock()
	a := t.step(l)
	a.Total = l.call.b.clock() - l.began
	if a.Failure == FailureNone {
		a.fail(err)
	}
}

// done notes that nothing will follow.
func (n *notes) done() {
	if !n.lock() {
		return
	}
	t := n.trail
	defer t.mu.Unlock()
	t.rec.Done = true
}
