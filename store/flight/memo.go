package flight

import "time"

// memos are the keys that a shard remembers as unshareable, bounded in number:
// those remembered longest ago go first. The zero value is empty.
type memos struct {
	byKey       map[memoKey]*memo
	first, last *memo // in the order of remembering
}

type memoKey struct {
	key  Key
	lane Lane
}

type memo struct {
	memoKey
	until      time.Time
	prev, next *memo
}

// put remembers the key until the given instant.
func (s *memos) put(k memoKey, until time.Time) {
	m := s.byKey[k]
	switch {
	case m != nil:
		s.unlink(m)
	case len(s.byKey) >= maxMemos:
		m = s.first
		s.unlink(m)
		delete(s.byKey, m.memoKey)
	default:
		m = new(memo)
	}
	if s.byKey == nil {
		s.byKey = make(map[memoKey]*memo)
	}
	*m = memo{memoKey: k, until: until, prev: s.last}
	s.byKey[k] = m
	if s.last == nil {
		s.first = m
	} else {
		s.last.next = m
	}
	s.last = m
}

// has reports whether the key is remembered now, and forgets it if it's time.
func (s *memos) has(k memoKey, now time.Time) bool {
	m := s.byKey[k]
	if m == nil {
		return false
	}
	if now.Before(m.until) {
		return true
	}
	s.remove(k)
	return false
}

func (s *memos) remove(k memoKey) {
	if m := s.byKey[k]; m != nil {
		s.unlink(m)
		delete(s.byKey, k)
	}
}

func (s *memos) unlink(m *memo) {
	if m.prev == nil {
		s.first = m.next
	} else {
		m.prev.next = m.next
	}
	if m.next == nil {
		s.last = m.prev
	} else {
		m.next.prev = m.prev
	}
	m.prev, m.next = nil, nil
}
