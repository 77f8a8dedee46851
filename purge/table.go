package purge

import "sync/atomic"

// table is a hash table with open addressing. One writer at a time adds and
// raises entries; any number of readers look up meanwhile without a lock. Entries
// are never removed: the writer makes a new table instead.
type table struct {
	slots []slot // a power of two, at most half full
	used  int    // the writer's

	// newest holds the newest number of each kind, so that a check skips the kinds
	// in which nothing happened.
	newest [kindMax]atomic.Uint64
}

// slot is free while its id is 0. The id is written last.
type slot struct {
	id   atomic.Uint64
	hard atomic.Uint64 // newest number of a hard purge, or the bits of lengths
	soft atomic.Uint64
}

// newTable has room for n entries.
func newTable(n int) *table {
	size := 64
	for size < 2*n {
		size *= 2
	}
	return &table{slots: make([]slot, size)}
}

// find returns the slot of an id, or nil.
func (t *table) find(id uint64) *slot {
	mask := uint64(len(t.slots) - 1)
	for i := id & mask; ; i = (i + 1) & mask {
		switch t.slots[i].id.Load() {
		case id:
			return &t.slots[i]
		case 0:
			return nil
		}
	}
}

// put returns the slot of an id, the number that must be stored last if the slot
// is new, and whether it is.
func (t *table) put(id uint64) (s *slot, isNew bool) {
	mask := uint64(len(t.slots) - 1)
	for i := id & mask; ; i = (i + 1) & mask {
		switch t.slots[i].id.Load() {
		case id:
			return &t.slots[i], false
		case 0:
			t.used++
			return &t.slots[i], true
		}
	}
}

// raise notes purges of a selector. Numbers only grow; 0 changes nothing.
func (t *table) raise(kind Kind, id, hard, soft uint64) {
	s, isNew := t.put(id)
	raise(&s.hard, hard)
	raise(&s.soft, soft)
	if isNew {
		s.id.Store(id)
	}
	raise(&t.newest[kind], max(hard, soft))
}

// mark sets a bit among the lengths of a host's prefixes.
func (t *table) mark(host uint64, length int) {
	id := lengthsID(host, length/64)
	s, isNew := t.put(id)
	s.hard.Store(s.hard.Load() | 1<<(length%64))
	if isNew {
		s.id.Store(id)
	}
}

// grown returns a copy with twice the room.
func (t *table) grown() *table {
	g := newTable(len(t.slots))
	for i := range t.slots {
		from := &t.slots[i]
		if id := from.id.Load(); id != 0 {
			to, _ := g.put(id)
			to.hard.Store(from.hard.Load())
			to.soft.Store(from.soft.Load())
			to.id.Store(id)
		}
	}
	for k := range t.newest {
		g.newest[k].Store(t.newest[k].Load())
	}
	return g
}

// raise is for the one writer.
func raise(v *atomic.Uint64, to uint64) {
	if to > v.Load() {
		v.Store(to)
	}
}
