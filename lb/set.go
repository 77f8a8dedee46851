package lb

import "sync/atomic"

// load is what an origin is doing. It is found by the origin's identity and
// outlives options. The padding keeps two origins' counters off one cache line.
type load struct {
	inFlight atomic.Int32 // requests up to their body's end
	turns    atomic.Uint32
	latency  ewma
	_        [112]byte
}

// reserve counts a request in if that makes no more than limit.
func (l *load) reserve(limit int32) bool {
	for {
		n := l.inFlight.Load()
		if n >= limit {
			return false
		}
		if l.inFlight.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (l *load) release() { l.inFlight.Add(-1) }

// entry is an origin as policies see it.
type entry struct {
	load   *load
	seed   uint64 // digest of the origin's ID
	index  uint16 // among the pool's origins
	weight uint8  // from 1 to MaxWeight
	share  uint8  // of its turns in slow start, in sixteenths
}

// busy is how many requests are in flight, and the weight. Products of such numbers
// are more than 32 bits hold.
func (e *entry) busy() (n, weight int64) {
	return int64(e.load.inFlight.Load()), int64(e.weight)
}

// set is a group of origins of one pool that policies order. It is immutable; a
// change of an origin's state makes a new one. Its counters are the pool's.
type set struct {
	entries []entry
	// table is a round of the smooth weighted round robin: indices of entries, each
	// as often as its weight, evenly spread.
	table []uint16
	total int  // of the weights
	slow  bool // some are in slow start
}

// newSet returns the set of entries, which must be in the order of configuration.
func newSet(entries []entry) set {
	s := set{entries: entries}
	top := uint8(0)
	for _, e := range entries {
		s.total += int(e.weight)
		top = max(top, e.share)
	}
	for i := range entries {
		// Relative to the furthest: if all start slowly, none has to.
		if entries[i].share = uint8(int(entries[i].share) * fullShare / max(int(top), 1)); entries[i].share < fullShare {
			s.slow = true
		}
	}
	s.table = smooth(entries, s.total)
	return s
}

// smooth is nginx's smooth weighted round robin, written out for one round: each
// turn all gain their weight, and who has most is chosen and loses the total. Of
// the ways to spread a round it has the smallest gaps and deviations.
func smooth(entries []entry, total int) []uint16 {
	table := make([]uint16, total)
	current := make([]int, len(entries))
	for t := range table {
		best := 0
		for i, e := range entries {
			current[i] += int(e.weight)
			if current[i] > current[best] {
				best = i
			}
		}
		current[best] -= total
		table[t] = uint16(best)
	}
	return table
}

// slowTurn reports whether an origin takes a turn that came to it in slow start:
// of sixteen turns as many as its share, evenly spread.
func (e *entry) slowTurn() bool {
	n := int(e.load.turns.Add(1)-1) % fullShare
	return (n+1)*int(e.share)/fullShare > n*int(e.share)/fullShare
}

// indices is a set of indices of entries.
type indices [maxOrigins / 64]uint64

func (m *indices) add(i int)      { m[i>>6] |= 1 << (i & 63) }
func (m *indices) has(i int) bool { return m[i>>6]&(1<<(i&63)) != 0 }
