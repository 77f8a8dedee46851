package purge

// Stats is the state of a list at an instant.
type Stats struct {
	Now        uint64       // the newest number
	Tombstones int          // purges remembered one by one
	Kinds      map[Kind]int // remembered selectors by kind; of Zone and Everything, floors too
	Everything uint64       // what was fetched before this number is purged in all zones

	Added  uint64 // selectors applied since the start
	Merged uint64 // of these, merged with an earlier one
	Folded uint64 // purges that became part of a floor

	Invalidated uint64 // targets of List.Invalidate since the start
	Targets     int    // URLs and keys of these and earlier processes', remembered one by one
	Groups      int    // groups of these, and one more for each of their zones
	Forgotten   uint64 // given up, each with a small part of what is older

	Queued  int            // selectors that wait for their budget
	Backlog map[string]int // the same by zone, where not 0

	Journaled     bool  // there is a journal
	JournalBytes  int64 // its size
	JournalFailed bool  // it can't be written at the moment
	Lost          bool  // as List.Lost
}

// Stats returns the current state. It holds up purges, but not checks, for a
// moment.
func (l *List) Stats() Stats {
	s := Stats{Kinds: map[Kind]int{}, Lost: l.lost.Load()}
	s.Backlog, s.Queued = l.queues.backlog()
	if j := l.journal; j != nil {
		s.Journaled = true
		s.JournalBytes = j.stats.bytes.Load()
		s.JournalFailed = j.stats.failing.Load()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Now = l.now.Load()
	s.Tombstones = l.single.n
	for k, n := range l.kinds {
		if n > 0 {
			s.Kinds[Kind(k)] = n
		}
	}
	if e := l.live[everythingID]; e != nil {
		s.Everything = e.hard
	}
	s.Added, s.Merged, s.Folded, s.Invalidated = l.counts.added, l.counts.merged, l.counts.folded, l.counts.invalidated
	for i, n := range [tables]*int{ofURLs: &s.Targets, ofGroups: &s.Groups} {
		if p := l.places[i].Load(); p != nil {
			*n, s.Forgotten = p.used, s.Forgotten+p.forgotten
		}
	}
	return s
}
