package admission

import (
	"math"
	"time"
)

// adaptive is the part of a limiter that adapts, under its lock.
type adaptive struct {
	adapting
	window window
	aside  aside
	marks  []mark // by slot of the permit
}

// mark is what is known of a permit.
type mark struct {
	started int64  // when it was issued; negative once it told something
	turn    uint32 // in which it did
}

// issued notes when a permit was issued.
func (a *adaptive) issued(c *ceilings, slot uint32, now int64) {
	for int(slot) >= len(a.marks) {
		a.marks = append(a.marks, mark{})
	}
	a.marks[slot].started = now
	a.settle(c, now)
	w := &a.window
	if !w.begun {
		w.since, w.begun = now, true
	}
	w.peak = max(w.peak, c.used-c.aside)
}

// told is what a permit tells.
type told uint8

const (
	firstByte told = iota
	answered
	failed
)

// FirstByte tells that the origin has begun to answer, for a limiter with
// [Options.Adaptive]: that is how fast it is, whereas the end of the response also
// depends on the client. Only the first call of this, Answered or Failed on a permit or
// any copy of it does something, and only before it is released. It never blocks.
func (p Permit) FirstByte() { p.tell(firstByte) }

// Answered is FirstByte where how long it took says nothing about the origin: because
// the client was still sending, or has the connection for itself now.
func (p Permit) Answered() { p.tell(answered) }

// Failed tells that the origin failed as one does that has too much to do: it
// didn't answer in time, didn't accept the connection or said that it is
// overloaded. See FirstByte. A client that went away is no failure.
func (p Permit) Failed() { p.tell(failed) }

func (p Permit) tell(what told) {
	if p.l == nil || p.l.config.adaptive == nil {
		return
	}
	l := p.l
	now := l.now()
	l.mu.Lock()
	if l.permits.out(p.slot, p.gen) {
		l.learn(p, what, now)
	}
	l.mu.Unlock()
}

// learn takes into account what became of a permit's work.
func (l *Limiter) learn(p Permit, what told, now int64) {
	a := l.adaptive
	m := &a.marks[p.slot]
	started := m.started
	if started < 0 {
		return
	}
	a.settle(&l.counts, now)
	m.started, m.turn = -1, a.aside.told(int64(p.cost))
	w := &a.window
	if started >= w.after {
		switch what {
		case failed:
			w.failed++
		case answered:
			w.untimed++
		default:
			w.add(now - started)
		}
	}
	l.judge(now)
}

// judge lets the ceiling move if the window is over.
func (l *Limiter) judge(now int64) {
	a := l.adaptive
	w := &a.window
	if !a.ripe(w, now) {
		return
	}
	before := a.limit
	a.adapting = a.step(w)
	if a.limit < before {
		w.after = now
	}
	l.counts.limit = int64(math.Round(a.limit))
	w.restart(now, l.counts.used-l.counts.aside)
	if l.waiters > 0 {
		l.handOver(now)
	}
}

// want is called when a request comes that isn't admitted at once. Where permits that
// tell nothing fill the ceiling, nothing else would ever move it.
func (l *Limiter) want(p place, now int64) {
	if l.adaptive == nil {
		return
	}
	l.adaptive.settle(&l.counts, now)
	if !l.counts.fitsAll(p.rank, p.cost) {
		l.adaptive.window.wanted = true
	}
	if time.Duration(now-l.adaptive.window.since) >= adaptOverdue {
		l.judge(now)
	}
}
