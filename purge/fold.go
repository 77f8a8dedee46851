package purge

// maxZones bounds how many zones have a floor or a purge of their own. Beyond it
// the oldest of these become a floor for everything.
const maxZones = 16384

// makeRoom forgets the oldest purges if there are too many, so many that a quarter
// is free afterwards, and raises the floors of their zones instead. It needn't be
// known how old what is stored is: a floor no higher than all of it purges nothing.
// The lock is held.
func (l *List) makeRoom() {
	if l.single.n <= l.opt.MaxTombstones && l.zones.n <= maxZones {
		return
	}
	for range 2 { // folding single purges may make too many zones
		for _, e := range l.victims() {
			l.forget(e)
			floor := Selector{Kind: Everything}
			if e.sel.Kind != Zone {
				floor = Selector{Kind: Zone, Zone: e.sel.Zone}
			}
			l.raiseFloor(floor, e.hard, e.soft)
			l.counts.folded++
		}
	}
	l.rebuild()
}

// victims returns the entries that don't fit, so many that a quarter is free
// afterwards.
func (l *List) victims() []*entry {
	var out []*entry
	take := func(r *ring, most int) {
		if r.n <= most {
			return
		}
		e := r.first
		for range r.n - (most - most/4) {
			out = append(out, e)
			e = e.next
		}
	}
	take(&l.single, l.opt.MaxTombstones)
	take(&l.zones, maxZones)
	return out
}

// raiseFloor notes what is folded into a floor. Unlike note it doesn't make the
// zone's purge a recent one.
func (l *List) raiseFloor(floor Selector, hard, soft uint64) {
	merged := l.counts.merged
	e := l.remember(floor)
	l.counts.merged = merged
	e.hard, e.soft = max(e.hard, hard), max(e.soft, soft)
}
