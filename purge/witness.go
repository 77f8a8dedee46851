package purge

// Written returns the number up to which all purges are in the journal; 0 without
// one. Whoever keeps responses where they outlive the process keeps it with them, and
// gives it to [List.Witness] when it reads them again. It costs an atomic load.
func (l *List) Written() uint64 { return l.written.Load() }

// Witness tells the list what Written had returned when something was stored that was
// found just now. If the journal that this process read hadn't come so far, it was an
// older one: purges are lost, and all that was fetched so far is purged. This doesn't
// wait for the journal.
//
// Usually the file beside the journal tells as much when the list is made; this is
// for the case that both were put back, and what is stored wasn't.
func (l *List) Witness(written uint64) {
	if written <= l.end || written >= l.first || !l.lost.CompareAndSwap(false, true) {
		return
	}
	_, _, err := l.apply([]Selector{{Kind: Everything}}, nil)
	l.opt.Logger.Error("purge: the journal is older than what is stored; all of that is purged",
		"journal", l.opt.Journal, "error", err)
}
