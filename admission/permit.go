package admission

// Permit is the right to do the admitted work. Pass it by value. The zero value
// is none.
type Permit struct {
	l    *Limiter
	slot uint32
	gen  uint32
	cost int32
}

// Cost returns what the permit takes of the ceilings, 0 if it is none. It is
// less than was asked for if that was more than could ever fit.
func (p Permit) Cost() int { return int(p.cost) }

// Release gives the permit back, and hands what becomes free to those who wait.
// Only the first call on a permit or any copy of it does something, so it can be
// deferred besides being called early. Call it when the work has ended: for a
// response, when its body has. It never blocks.
func (p Permit) Release() {
	if p.l != nil {
		p.l.release(p)
	}
}

// taken is what a permit took.
type taken struct {
	cost  int32
	route uint16
	rank  uint16
}
