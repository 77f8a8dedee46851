package lb

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
)

// order is how a policy orders, as a number.
type order uint8

const (
	inTurns   order = iota // the set's table in turn
	atRandom               // the set's table at random
	leastBusy              // fewest in flight for the weight
	betterOfTwo
	soonerOfTwo // by expected latency
	byKey       // rendezvous hashing
	inOrder
)

// orderOf translates a policy. Hash policies need a key, without one it is random.
func (p Policy) orderOf(hasKey bool) order {
	switch p {
	case Random:
		return atRandom
	case LeastConnections:
		return leastBusy
	case TwoChoices:
		return betterOfTwo
	case Latency:
		return soonerOfTwo
	case Failover:
		return inOrder
	case HashClient, HashPath, HashKey, HashHeader, HashCookie:
		if hasKey {
			return byKey
		}
		return atRandom
	}
	return inTurns
}

// sequence is a set's origins in the order in which one request tries them, each
// exactly once. It is worked out step by step, since the first is enough as a
// rule. Who comes after the first is independent of the first where the policy
// allows it, so that the load of a dead origin falls on all others and not on its
// neighbour. Steps depend on nothing but the fields, the set and the counters that
// these point to; they allocate nothing.
type sequence struct {
	set    *set
	order  order
	turn   *atomic.Uint64 // of inTurns: the pool's
	random uint64         // state of the generator; 0: not yet seeded
	key    uint64         // of byKey
	bound  int            // of byKey: percent, 0 for none
	now    uint32         // of soonerOfTwo: the clock's stamp

	tried   indices
	count   int // of tried
	loser   int // of betterOfTwo and soonerOfTwo, +1; 0: none
	crowded int // of byKey: who comes first but for the bound, +1; 0: none
}

// next returns the index in set.entries of the next to try, or false if all were.
func (s *sequence) next() (int, bool) {
	var i int
	switch {
	case s.count == len(s.set.entries):
		return 0, false
	case s.count > 0:
		i = s.following(&s.tried)
	case s.order == inTurns && !s.set.slow:
		i = s.inTurn()
	default:
		i = s.first()
	}
	s.tried.add(i)
	s.count++
	return i, true
}

// first is the policy's choice, unless an origin in slow start passes its turn on.
func (s *sequence) first() int {
	i := s.choice()
	if !s.set.slow {
		return i
	}
	var passed indices
	for n := len(s.set.entries); n > 1; n-- {
		e := &s.set.entries[i]
		if e.share >= fullShare || s.takesTurn(e) {
			return i
		}
		passed.add(i)
		i = s.following(&passed)
	}
	return i
}

// takesTurn is the key's own affair under byKey: as an origin's share grows, more
// keys come to it, and none leaves.
func (s *sequence) takesTurn(e *entry) bool {
	if s.order == byKey {
		return int(mix(s.key+e.seed)%fullShare) < int(e.share)
	}
	return e.slowTurn()
}

func (s *sequence) choice() int {
	switch s.order {
	case inTurns:
		return s.inTurn()
	case leastBusy:
		return s.leastInTurn()
	case betterOfTwo, soonerOfTwo:
		return s.ofTwo()
	}
	return s.following(&s.tried) // none yet
}

// leastInTurn chooses the one with the fewest in flight for its weight. If the one whose
// turn it is is as good as any it is that one, so that origins that are as good share as
// they should, and nobody else is looked at if it is idle. Of several others it is one
// drawn by weight: if it were the next in line, the turns of one that is busy would all
// fall on its neighbour.
func (s *sequence) leastInTurn() int {
	i, entries := s.inTurn(), s.set.entries
	n, w := entries[i].busy()
	if n == 0 {
		return i
	}
	best, tied := i, w // the weight of all that are as good as the best
	for j := range entries {
		m, v := entries[j].busy()
		switch d := m*w - n*v; {
		case d < 0:
			best, tied, n, w = j, v, m, v
		case d == 0:
			tied += v
		}
	}
	if best == i || tied == w {
		return best
	}
	k := int64(s.below(int(tied)))
	for j := best; j < len(entries); j++ { // those before aren't as good
		if m, v := entries[j].busy(); m*w == n*v {
			if k -= v; k < 0 {
				return j
			}
		}
	}
	return best // the counts have changed meanwhile
}

func (s *sequence) inTurn() int {
	return int(s.set.table[uint32(s.turn.Add(1))%uint32(len(s.set.table))])
}

// following is the policy's choice among those that aren't in out.
func (s *sequence) following(out *indices) int {
	switch s.order {
	case leastBusy:
		return s.least(out)
	case byKey:
		return s.top(out)
	case inOrder:
		i := 0
		for out.has(i) {
			i++
		}
		return i
	}
	if i := s.loser - 1; i >= 0 && !out.has(i) {
		return i
	}
	return s.draw(out)
}

// draw chooses in proportion to weight.
func (s *sequence) draw(out *indices) int {
	for range 4 {
		if i := int(s.set.table[s.below(s.set.total)]); !out.has(i) {
			return i
		}
	}
	// The rest is heavy in what is out: the same distribution, by counting.
	left := 0
	for i, e := range s.set.entries {
		if !out.has(i) {
			left += int(e.weight)
		}
	}
	n := s.below(left)
	for i, e := range s.set.entries {
		if out.has(i) {
			continue
		}
		if n -= int(e.weight); n < 0 {
			return i
		}
	}
	panic("lb: drew from nothing") // left is what the loop takes away
}

// below returns a random number from 0 to n-1.
func (s *sequence) below(n int) int {
	if s.random == 0 {
		s.random = rand.Uint64() | 1
	}
	s.random += golden
	high, _ := bits.Mul64(mix(s.random), uint64(n))
	return int(high)
}

// least is leastInTurn for those after the first, which aren't in out.
func (s *sequence) least(out *indices) int {
	var ties indices // those from since on are as good as the best
	since, tied, best, bestWeight := 0, 0, int64(math.MaxInt32)+1, int64(1)
	for i := range s.set.entries {
		e := &s.set.entries[i]
		n, w := e.busy()
		d := n*bestWeight - best*w
		if d > 0 || out.has(i) {
			continue
		}
		if d < 0 {
			since, tied, best, bestWeight = i, 0, n, w
		}
		tied += int(w)
		ties.add(i)
	}
	n := s.below(tied)
	for i := since; ; {
		word := ties[i>>6] >> (i & 63)
		for ; word != 0; word &= word - 1 {
			i := i + bits.TrailingZeros64(word)
			if n -= int(s.set.entries[i].weight); n < 0 {
				return i
			}
		}
		i = (i | 63) + 1 // tied is what the loop takes away, so there is one
	}
}

// ofTwo draws two and chooses the better; the first one if they are as good.
func (s *sequence) ofTwo() int {
	var out indices
	a := s.draw(&out)
	if len(s.set.entries) == 1 {
		return a
	}
	out.add(a)
	b := s.draw(&out)
	if s.better(&s.set.entries[b], &s.set.entries[a]) {
		a, b = b, a
	}
	s.loser = b + 1
	return a
}

func (s *sequence) better(a, b *entry) bool {
	na, nb := uint64(a.load.inFlight.Load()), uint64(b.load.inFlight.Load())
	if s.order == soonerOfTwo {
		la, lb := a.load.latency.estimate(s.now), b.load.latency.estimate(s.now)
		// Who was never measured is taken to be like the other: neither a magnet
		// nor shunned.
		if la != 0 && lb != 0 {
			return la*(na+1)*uint64(b.weight) < lb*(nb+1)*uint64(a.weight)
		}
	}
	return na*uint64(b.weight) < nb*uint64(a.weight)
}

// top chooses the highest score, of those below their bound if there are any.
func (s *sequence) top(out *indices) int {
	all := int64(1) // in flight, with the request to come
	if s.bound > 0 {
		for i := range s.set.entries {
			all += int64(s.set.entries[i].load.inFlight.Load())
		}
	}
	free, best := -1, -1
	var freeScore, bestScore uint64
	for i := range s.set.entries {
		if out.has(i) {
			continue
		}
		e := &s.set.entries[i]
		sc := score(s.key, e.seed, int(e.weight))
		if best < 0 || s.before(sc, i, bestScore, best) {
			best, bestScore = i, sc
		}
		if s.bound > 0 && (free < 0 || s.before(sc, i, freeScore, free)) && !s.aboveBound(e, all) {
			free, freeScore = i, sc
		}
	}
	if free >= 0 && free != best {
		if s.count == 0 && s.crowded == 0 {
			s.crowded = best + 1
		}
		return free
	}
	return best
}

// before compares scores; equal ones by the origins' digests, since the order of
// configuration may differ between nodes.
func (s *sequence) before(sc uint64, i int, than uint64, j int) bool {
	return sc > than || sc == than && s.set.entries[i].seed < s.set.entries[j].seed
}

// roomFor is how many in flight for each unit of weight are never above the bound:
// with few requests, the bound would say no to the second one.
const roomFor = 8

// aboveBound reports whether one more would be more than bound percent of the
// origin's share of all.
func (s *sequence) aboveBound(e *entry, all int64) bool {
	n, w := e.busy()
	return n+1 > roomFor*w && n*100*int64(s.set.total) >= int64(s.bound)*all*w
}
