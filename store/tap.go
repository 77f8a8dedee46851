package store

// Tap keeps a copy of a body that goes to one client at that client's pace. Its
// memory counts as that of a [Fill], and like one that isn't to be stored it takes
// more only while less than half of the budget is used: clients that stop reading
// must not keep others' responses from being stored. It never waits; a copy that gets
// no room is given up. One goroutine may use it at a time.
type Tap struct {
	budget   *Budget
	limit    int64
	segs     [][]byte
	size     int64
	retained int64
	charged  int64
	ended    bool
}

// NewTap starts a copy of at most limit bytes.
func (s *Store) NewTap(limit int64) *Tap { return &Tap{budget: &s.budget, limit: limit} }

// Append adds p, and reports whether the copy is whole so far. If not it has been
// dropped.
func (t *Tap) Append(p []byte) bool {
	if t.ended || t.size+int64(len(p)) > t.limit {
		t.Drop()
		return false
	}
	for len(p) > 0 {
		last := len(t.segs) - 1
		if last < 0 || len(t.segs[last]) == cap(t.segs[last]) {
			if !t.grow(len(p)) {
				t.Drop()
				return false
			}
			continue
		}
		seg := t.segs[last]
		n := min(len(p), cap(seg)-len(seg))
		t.segs[last] = append(seg, p[:n]...)
		t.size += int64(n)
		p = p[n:]
	}
	return true
}

// grow adds a segment in proportion to what has come, if the budget has it.
func (t *Tap) grow(hint int) bool {
	n := min(max(int64(hint), minSegment, min(t.size, maxSegment)), maxSegment, t.limit-t.size)
	room := footprint(int(n))
	over := max(0, max(0, t.retained+room-freeWindow)-t.charged)
	if !t.budget.take(over, true) {
		return false
	}
	t.charged += over
	t.retained += room
	t.segs = append(t.segs, make([]byte, 0, n))
	return true
}

// Size is the number of bytes so far, 0 if the copy has been dropped.
func (t *Tap) Size() int64 { return t.size }

// Take returns the copy, in one piece without room to spare, and ends it. It returns
// nil if it has been dropped.
func (t *Tap) Take() []byte {
	if t.ended {
		return nil
	}
	var body []byte
	if len(t.segs) == 1 && len(t.segs[0]) == cap(t.segs[0]) {
		body = t.segs[0]
	} else {
		body = make([]byte, 0, t.size)
		for _, seg := range t.segs {
			body = append(body, seg...)
		}
	}
	t.Drop()
	return body
}

// Drop ends the copy and gives its memory back. It may be called again.
func (t *Tap) Drop() {
	t.budget.giveBack(t.charged)
	*t = Tap{budget: t.budget, ended: true}
}
