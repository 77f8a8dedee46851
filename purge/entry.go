package purge

// entry is a purge as the writer knows it: all purges by the same selector.
type entry struct {
	id, zone   uint64
	sel        Selector // canonical; Soft means nothing here
	hard, soft uint64   // newest numbers, 0 for none

	ring       *ring
	prev, next *entry
}

// ring is a list of entries, oldest purge first.
type ring struct {
	first, last *entry
	n           int
}

func (r *ring) push(e *entry) {
	e.ring, e.prev, e.next = r, r.last, nil
	if r.last != nil {
		r.last.next = e
	} else {
		r.first = e
	}
	r.last = e
	r.n++
}

func (r *ring) remove(e *entry) {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		r.first = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		r.last = e.prev
	}
	e.prev, e.next = nil, nil
	r.n--
}

// note remembers a purge by a canonical selector and shows it to readers. The
// number must not be lower than those noted before it.
func (l *List) note(s Selector, seq uint64) {
	e := l.remember(s)
	if s.Soft {
		e.soft = max(e.soft, seq)
	} else {
		e.hard = max(e.hard, seq)
	}
	if e.ring != nil {
		e.ring.remove(e)
		e.ring.push(e)
	}
	l.show(e)
}

// remember returns the entry of a selector, which is a new one if need be.
func (l *List) remember(s Selector) *entry {
	id, zone := s.id()
	if e := l.live[id]; e != nil {
		l.counts.merged++
		return e
	}
	s.Soft = false
	e := &entry{id: id, zone: zone, sel: s}
	l.live[id] = e
	l.kinds[s.Kind]++
	switch s.Kind {
	case Everything:
	case Zone:
		l.zones.push(e)
	default:
		l.single.push(e)
	}
	return e
}

// forget is the opposite of remember. Readers see the entry until the next
// rebuild.
func (l *List) forget(e *entry) {
	e.ring.remove(e)
	delete(l.live, e.id)
	l.kinds[e.sel.Kind]--
}

// show puts an entry into the readers' table.
func (l *List) show(e *entry) {
	t := l.table.Load()
	// An entry needs three slots at most.
	for 2*(t.used+3) > len(t.slots) {
		t = t.grown()
		l.table.Store(t)
	}
	t.show(e)
}

func (t *table) show(e *entry) {
	t.raise(e.sel.Kind, e.id, e.hard, e.soft)
	switch e.sel.Kind {
	case Tag, Group:
		t.raise(anyTag, anyTagID(e.zone), e.hard, e.soft)
	case Prefix:
		t.mark(hostID(e.zone, e.sel.Host), len(e.sel.Path))
	}
}

// rebuild gives readers a table of what is remembered. Everything forgotten must
// be covered by a floor that is.
func (l *List) rebuild() {
	t := newTable(len(l.live) * 2)
	for _, e := range l.live {
		for 2*(t.used+3) > len(t.slots) {
			t = t.grown()
		}
		t.show(e)
	}
	l.table.Store(t)
}
