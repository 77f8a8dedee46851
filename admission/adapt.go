package admission

import "math"

// adaptive is the part of a limiter that adapts, under its lock.
type adaptive struct {
	adapting
	window  window
	started []int64 // by slot of the permit; negative once it told something
}

// issued notes when a permit was issued.
func (a *adaptive) issued(slot uint32, now, used int64) {
	for int(slot) >= len(a.started) {
		a.started = append(a.started, 0)
	}
	a.started[slot] = now
	w := &a.window
	if !w.begun {
		w.since, w.begun = now, true
	}
	w.peak = max(w.peak, used)
}

// FirstByte tells that the origin has begun to answer, for a limiter with
// [Options.Adaptive]: that is how fast it is, whereas the end of the response also
// depends on the client. Only the first call of this or Failed on a permit or any
// copy of it does something, and only before it is released. It never blocks.
func (p Permit) FirstByte() { p.tell(false) }

// Failed tells that the origin failed as one does that has too much to do: it
// didn't answer in time, didn't accept the connection or said that it is
// overloaded. See FirstByte. A client that went away is no failure.
func (p Permit) Failed() { p.tell(true) }

func (p Permit) tell(failed bool) {
	if p.l == nil || p.l.config.adaptive == nil {
		return
	}
	l := p.l
	now := l.now()
	l.mu.Lock()
	if l.permits.out(p.slot, p.gen) {
		l.learn(p.slot, failed, now)
	}
	l.mu.Unlock()
}

// learn takes into account what became of a permit's work.
func (l *Limiter) learn(slot uint32, failed bool, now int64) {
	a := l.adaptive
	started := a.started[slot]
	if started < 0 {
		return
	}
	a.started[slot] = -1
	w := &a.window
	if started >= w.after {
		if failed {
			w.failed++
		} else {
			w.add(now - started)
		}
	}
	over, tells := a.ripe(w, now)
	if !over {
		return
	}
	if tells {
		before := a.limit
		a.adapting = a.step(w)
		if a.limit < before {
			w.after = now
		}
		l.counts.limit = int64(math.Round(a.limit))
	}
	w.restart(now, l.counts.used)
	if l.waiters > 0 {
		l.handOver(now)
	}
}
