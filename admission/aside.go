package admission

import "time"

// aside tells permits whose work may still be the origin's from those that only wait
// for a client: idle event streams, WebSockets, long transfers. The latter tell nothing
// more, so an adaptive ceiling that they filled would never move again. A while after
// it told what became of it, a permit is set aside: it counts against the hard ceiling
// only. Time is cut into turns, and those that told in one are set aside together.
type aside struct {
	turn   uint32
	since  int64    // when the turn began
	recent [2]int64 // cost of the permits out that told in this turn and in the last one
}

// A turn is this many times the typical time to the first byte, within bounds.
const (
	asideTimes = 10
	asideLeast = time.Second
	asideMost  = time.Minute
)

// told notes that a permit told something, and returns the turn.
func (a *aside) told(cost int64) uint32 {
	a.recent[a.turn%2] += cost
	return a.turn
}

// settle sets aside what told before the last turn.
func (a *adaptive) settle(c *ceilings, now int64) {
	length := int64(max(float64(asideLeast), min(asideTimes*a.last, float64(asideMost))))
	for range 2 {
		if now-a.aside.since < length {
			return
		}
		a.aside.turn++
		old := &a.aside.recent[a.aside.turn%2]
		c.aside += *old
		*old = 0
		a.aside.since += length
	}
	a.aside.since = now
}

// back takes a permit that is given back out of what is known about it.
func (a *adaptive) back(c *ceilings, slot uint32, cost int64) {
	m := &a.marks[slot]
	if m.started >= 0 {
		return
	}
	if a.aside.turn-m.turn < 2 {
		a.aside.recent[m.turn%2] -= cost
	} else {
		c.aside -= cost
	}
}
