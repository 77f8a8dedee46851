package purge

// maxZones bounds how many zones have a floor or a purge of their own. Beyond it
// the oldest of these become a floor for everything.
const maxZones = 16384

// overflow makes room if there is none, and reports whether Options.Oldest has to
// be asked first. The lock is held.
func (l *List) overflow() (ask bool) {
	most := l.opt.MaxTombstones
	if l.single.n <= most && l.zones.n <= maxZones {
		return false
	}
	// While somebody asks, the list may grow a little.
	if l.opt.Oldest != nil && l.single.n <= most+most/4+MaxSelectors && l.zones.n <= maxZones+maxZones/4 {
		if l.folding {
			return false
		}
		l.folding = true
		return true
	}
	l.makeRoom(nil)
	return false
}

// foldAsking makes room with what the application says about the age of what is
// stored. No lock is held while it is asked.
func (l *List) foldAsking() {
	l.mu.Lock()
	ask := map[string]bool{}
	for _, e := range l.victims() {
		ask[e.sel.Zone] = true
	}
	l.mu.Unlock()
	oldest := make(map[string]uint64, len(ask))
	// A panic of the application's must not end folding for good.
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.folding = false
		l.makeRoom(oldest)
	}()
	for zone := range ask {
		// Fetches that begin after the answer get this number or a higher one.
		before := l.now.Load()
		if seq, any := l.opt.Oldest(zone); any {
			before = min(before, seq)
		}
		oldest[zone] = before
	}
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

// makeRoom forgets the oldest purges: those that nothing stored is old enough for,
// those that a floor covers, and the rest by raising the zone's floor. oldest
// holds the lowest number stored in the zones that were asked about.
func (l *List) makeRoom(oldest map[string]uint64) {
	if l.single.n <= l.opt.MaxTombstones && l.zones.n <= maxZones {
		return
	}
	for range 2 { // folding single purges may make too many zones
		for _, e := range l.victims() {
			l.forget(e)
			if seq, asked := oldest[e.sel.Zone]; asked && max(e.hard, e.soft) <= seq {
				l.counts.dropped++
				continue
			}
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

// raiseFloor notes what is folded into a floor. Unlike note it doesn't make the
// zone's purge a recent one.
func (l *List) raiseFloor(floor Selector, hard, soft uint64) {
	merged := l.counts.merged
	e := l.remember(floor)
	l.counts.merged = merged
	e.hard, e.soft = max(e.hard, hard), max(e.soft, soft)
}
