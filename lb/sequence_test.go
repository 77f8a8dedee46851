package lb

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

var allOrders = []order{inTurns, atRandom, leastBusy, betterOfTwo, soonerOfTwo, byKey, inOrder}

func (o order) String() string {
	return [...]string{"inTurns", "atRandom", "leastBusy", "betterOfTwo", "soonerOfTwo", "byKey", "inOrder"}[o]
}

// entries makes origins named a, b, c... with these weights.
func entries(weights ...int) []entry {
	es := make([]entry, len(weights))
	for i, w := range weights {
		es[i] = entry{&load{}, digestString(fmt.Sprintf("origin-%d", i)), uint16(i), uint8(w), fullShare}
	}
	return es
}

func same(n, weight int) []int {
	ws := make([]int, n)
	for i := range ws {
		ws[i] = weight
	}
	return ws
}

// dice is a sequence of s whose chances come from r.
func dice(s *set, o order, turn *atomic.Uint64, r *rand.Rand) sequence {
	return sequence{set: s, order: o, turn: turn, random: r.Uint64() | 1, key: r.Uint64()}
}

// inProportion checks counts against weights: each within z standard deviations
// of a fair draw.
func inProportion(t *testing.T, weights, counts []int, z float64, msg ...any) {
	t.Helper()
	n, total := 0, 0
	for i := range counts {
		n += counts[i]
		total += weights[i]
	}
	for i, c := range counts {
		p := float64(weights[i]) / float64(total)
		dev := math.Sqrt(float64(n) * p * (1 - p))
		assert.InDelta(t, float64(n)*p, float64(c), z*dev+1, "origin %d of weights %v, counts %v %v", i, weights, counts, msg)
	}
}

func TestEveryOrderNamesEveryOriginOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var turn atomic.Uint64
	for round := range 3000 {
		ws := make([]int, 1+r.IntN(70))
		if round%500 == 0 {
			ws = make([]int, maxOrigins)
		}
		es := entries(ws...)
		for i := range es {
			es[i].weight = uint8(1 + r.IntN(MaxWeight))
			es[i].share = uint8(1 + r.IntN(fullShare))
			es[i].load.inFlight.Store(int32(r.IntN(30)))
			if r.IntN(2) == 0 {
				es[i].load.latency.observe(time.Duration(r.IntN(1e9)), time.Unix(100, 0))
			}
		}
		s := newSet(es)
		for _, o := range allOrders {
			seq := dice(&s, o, &turn, r)
			seq.bound = 125 * r.IntN(2)
			seq.now = stamp(time.Unix(101, 0))
			seen, n := make([]bool, len(es)), 0
			for i, ok := seq.next(); ok; i, ok = seq.next() {
				if seen[i] { // testify would take most of the time
					t.Fatalf("%v named %d twice", o, i)
				}
				seen[i] = true
				n++
			}
			require.Equal(t, len(es), n, "%v", o)
		}
	}
}

func TestFirstChoiceByWeight(t *testing.T) {
	const n = 60_000
	for _, o := range []order{inTurns, atRandom, leastBusy, betterOfTwo, soonerOfTwo, byKey} {
		for _, ws := range [][]int{{1, 1, 1}, {1, 3, 8}, {8, 1}, {2, 2, 3, 1, 5, 8, 1, 1, 1, 4}} {
			r := rand.New(rand.NewPCG(7, uint64(o)))
			s := newSet(entries(ws...))
			var turn atomic.Uint64
			counts := make([]int, len(ws))
			for range n {
				seq := dice(&s, o, &turn, r)
				i, _ := seq.next()
				counts[i]++
			}
			z := 4.5
			if o == inTurns {
				z = 0 // exact
			}
			inProportion(t, ws, counts, z, o)
		}
	}
}

// A dead origin's load falls on all others by weight, not on its neighbour.
func TestSecondChoiceSpreads(t *testing.T) {
	const n = 60_000
	ws := []int{1, 3, 8, 2, 2}
	for _, o := range []order{inTurns, atRandom, leastBusy, betterOfTwo, soonerOfTwo, byKey} {
		for dead := range ws {
			r := rand.New(rand.NewPCG(11, uint64(o)))
			s := newSet(entries(ws...))
			var turn atomic.Uint64
			counts := make([]int, len(ws))
			for range n {
				seq := dice(&s, o, &turn, r)
				if i, _ := seq.next(); i == dead {
					j, _ := seq.next()
					counts[j]++
				}
			}
			others := append([]int(nil), ws...)
			others[dead] = 0
			inProportion(t, others, counts, 4.5, o, "dead", dead)
		}
	}
}

func TestSmoothWeightedRoundRobin(t *testing.T) {
	table := func(ws ...int) string {
		s := newSet(entries(ws...))
		out := ""
		for _, i := range s.table {
			out += string(rune('a' + i))
		}
		return out
	}
	assert.Equal(t, "aabacaa", table(5, 1, 1))
	assert.Equal(t, "abc", table(1, 1, 1))
	assert.Equal(t, "abab", table(2, 2))
	assert.Equal(t, "a", table(1))

	r := rand.New(rand.NewPCG(3, 3))
	for range 2000 {
		ws := make([]int, 1+r.IntN(31))
		total := 0
		for i := range ws {
			ws[i] = 1 + r.IntN(MaxWeight)
			total += ws[i]
		}
		s := newSet(entries(ws...))
		require.Len(t, s.table, total)
		at := make([][]int, len(ws)) // the turns of two rounds
		for turn := range 2 * total {
			i := s.table[turn%total]
			at[i] = append(at[i], turn)
		}
		for i, w := range ws {
			require.Len(t, at[i], 2*w, "as many turns as weight: %v", ws)
			gap := 0
			for k := 1; k < len(at[i]); k++ {
				gap = max(gap, at[i][k]-at[i][k-1])
			}
			require.LessOrEqual(t, float64(gap), 2*float64(total)/float64(w), "gap of %d in %v", i, ws)
		}
	}
}

// Two choices never take the busier of two, nor one origin twice.
func TestTwoChoicesTakeTheLesser(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for range 20_000 {
		es := entries(make([]int, 2+r.IntN(9))...)
		for i := range es {
			es[i].weight = uint8(1 + r.IntN(MaxWeight))
			es[i].load.inFlight.Store(int32(r.IntN(20)))
		}
		s := newSet(es)
		seq := dice(&s, betterOfTwo, nil, r)
		a, _ := seq.next()
		b, _ := seq.next() // the loser
		require.NotEqual(t, a, b)
		assert.LessOrEqual(t, int(es[a].load.inFlight.Load())*int(es[b].weight), int(es[b].load.inFlight.Load())*int(es[a].weight))
	}
	// Of two origins the idle one is always taken.
	es := entries(1, 1)
	es[0].load.inFlight.Store(9)
	es[1].load.inFlight.Store(1)
	s := newSet(es)
	for range 1000 {
		seq := dice(&s, betterOfTwo, nil, r)
		i, _ := seq.next()
		require.Equal(t, 1, i)
	}
}

func TestLeastConnectionsTakesTheLeast(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for range 5000 {
		es := entries(make([]int, 1+r.IntN(20))...)
		for i := range es {
			es[i].weight = uint8(1 + r.IntN(MaxWeight))
			es[i].load.inFlight.Store(int32(r.IntN(20)))
		}
		s := newSet(es)
		seq := dice(&s, leastBusy, new(atomic.Uint64), r)
		last := -1.0
		for i, ok := seq.next(); ok; i, ok = seq.next() {
			l := float64(es[i].load.inFlight.Load()) / float64(es[i].weight)
			require.GreaterOrEqual(t, l, last)
			last = l
		}
	}
}

// Idle origins share as their weights say, to the request; one that is busy is passed
// over as long as another isn't.
func TestLeastConnectionsSharesInTurn(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	es := entries(1, 2, 5)
	s := newSet(es)
	turn := new(atomic.Uint64)
	first := func() []int {
		counts := make([]int, len(es))
		for range 800 {
			seq := dice(&s, leastBusy, turn, r)
			i, _ := seq.next()
			counts[i]++
		}
		return counts
	}
	assert.Equal(t, []int{100, 200, 500}, first())
	es[2].load.inFlight.Store(1)
	assert.Zero(t, first()[2])
}

// Among origins that are as good, idle or not, the turns of busier ones are spread
// evenly: they don't all fall on the next in line.
func TestLeastConnectionsSpreadsTheTurnsOfBusierOnes(t *testing.T) {
	const n = 60_000
	for _, c := range []struct{ weights, inFlight []int }{
		{same(4, 1), []int{1, 0, 0, 0}},
		{same(4, 1), []int{5, 2, 2, 2}},
		{same(5, 1), []int{0, 3, 0, 1, 0}},
		{[]int{1, 2, 5, 8}, []int{0, 0, 0, 1}},
		{[]int{4, 1, 2, 8}, []int{9, 1, 2, 8}},
		{same(70, 1), append([]int{3, 3, 3}, same(67, 2)...)},
	} {
		r := rand.New(rand.NewPCG(9, 9))
		es := entries(c.weights...)
		best := math.Inf(1)
		for i, k := range c.inFlight {
			es[i].load.inFlight.Store(int32(k))
			best = min(best, float64(k)/float64(c.weights[i]))
		}
		s := newSet(es)
		turn := new(atomic.Uint64)
		counts := make([]int, len(es))
		for range n {
			seq := dice(&s, leastBusy, turn, r)
			i, _ := seq.next()
			counts[i]++
		}
		var share, got []int
		for i, k := range c.inFlight {
			if float64(k)/float64(c.weights[i]) > best {
				assert.Zero(t, counts[i], "%v", c)
				continue
			}
			share, got = append(share, c.weights[i]), append(got, counts[i])
		}
		inProportion(t, share, got, 4.5, c)
	}
}

// Latency: the slower one gets nothing while the faster one is idle, failures
// count as slow, and who was never measured is neither magnet nor shunned.
func TestLatencyPrefersTheSooner(t *testing.T) {
	now := time.Unix(1000, 0)
	r := rand.New(rand.NewPCG(8, 8))
	es := entries(1, 1)
	s := newSet(es)
	first := func(at time.Time) []int {
		counts := make([]int, len(es))
		for range 1000 {
			seq := dice(&s, soonerOfTwo, nil, r)
			seq.now = stamp(at)
			i, _ := seq.next()
			counts[i]++
		}
		return counts
	}
	inProportion(t, []int{1, 1}, first(now), 4.5)
	es[0].load.latency.observe(10*time.Millisecond, now)
	inProportion(t, []int{1, 1}, first(now), 4.5, "one was never measured")
	es[1].load.latency.observe(100*time.Millisecond, now)
	assert.Equal(t, []int{1000, 0}, first(now))
	es[0].load.inFlight.Store(10)
	assert.Equal(t, []int{0, 1000}, first(now), "10 ms × 11 is more than 100 ms × 1")
	es[0].load.inFlight.Store(0)
	es[0].load.latency.observe(time.Millisecond, now)
	es[0].load.latency.observe(failurePenalty, now)
	assert.Equal(t, []int{0, 1000}, first(now), "a fast failure doesn't attract")
	// Unmeasured, both fall, but the one who failed long ago is tried again once
	// the other's measurements are fresh.
	later := now.Add(time.Minute)
	es[1].load.latency.observe(100*time.Millisecond, later)
	assert.Equal(t, []int{1000, 0}, first(later))
}

func TestPeakEWMA(t *testing.T) {
	var e ewma
	at := time.Unix(5000, 0)
	assert.Zero(t, e.estimate(stamp(at)))
	e.observe(100*time.Millisecond, at)
	assert.EqualValues(t, 100_000, e.estimate(stamp(at)))
	e.observe(10*time.Millisecond, at)
	assert.EqualValues(t, 100_000, e.estimate(stamp(at)), "no time has passed")
	e.observe(200*time.Millisecond, at)
	assert.EqualValues(t, 200_000, e.estimate(stamp(at)), "up at once")
	at = at.Add(ewmaWindow)
	assert.InDelta(t, 200_000/math.E, float64(e.estimate(stamp(at))), 10, "down by e in a window")
	e.observe(10*time.Millisecond, at)
	assert.InDelta(t, 200_000/math.E+10_000*(1-1/math.E), float64(e.estimate(stamp(at))), 10)
	assert.InDelta(t, 200_000/math.E+10_000*(1-1/math.E), float64(e.estimate(stamp(at.Add(-time.Second)))), 10, "a clock behind")
	e.observe(time.Hour, at)
	assert.EqualValues(t, maxPenalty.Microseconds(), e.estimate(stamp(at)))
	e.observe(-time.Hour, at.Add(time.Hour))
	assert.EqualValues(t, 1, e.estimate(stamp(at.Add(time.Hour))))
}

// In slow start an origin gets its sixteenths of the turns, never none, and the
// others share the rest by weight.
func TestSlowStartShares(t *testing.T) {
	const n = 48_000
	for _, o := range []order{inTurns, atRandom, leastBusy, betterOfTwo, byKey} {
		last := 0
		for _, share := range []int{1, 4, 8, 15, 16} {
			r := rand.New(rand.NewPCG(9, uint64(share)))
			es := entries(1, 1, 1, 1)
			es[2].share = uint8(share)
			s := newSet(es)
			var turn atomic.Uint64
			counts := make([]int, 4)
			for range n {
				seq := dice(&s, o, &turn, r)
				i, _ := seq.next()
				counts[i]++
			}
			part := n / 4 * share / fullShare
			assert.InDelta(t, part, counts[2], 6*math.Sqrt(float64(n/4)), "%v with %d sixteenths", o, share)
			assert.Greater(t, counts[2], last, "%v: monotone", o)
			last = counts[2]
			inProportion(t, []int{1, 1, 0, 1}, []int{counts[0], counts[1], 0, counts[3]}, 5, o)
		}
	}
	// When all start slowly, none does.
	es := entries(1, 1)
	es[0].share, es[1].share = 2, 2
	s := newSet(es)
	assert.False(t, s.slow)
}

func TestFailoverKeepsItsOrder(t *testing.T) {
	s := newSet(entries(1, 1, 1))
	seq := sequence{set: &s, order: inOrder}
	var got []int
	for i, ok := seq.next(); ok; i, ok = seq.next() {
		got = append(got, i)
	}
	assert.Equal(t, []int{0, 1, 2}, got)
}

// Choosing allocates nothing, whatever the policy.
func TestOrdersAllocateNothing(t *testing.T) {
	for _, n := range []int{1, 3, 50} {
		s := newSet(entries(same(n, 2)...))
		var turn atomic.Uint64
		now := time.Now()
		for _, o := range allOrders {
			testnet.Allocs(t, 0, func() {
				seq := sequence{set: &s, order: o, turn: &turn, bound: 125, now: stamp(now), key: digestString("/some/path")}
				for range 3 {
					seq.next()
				}
			}, "%v of %d", o, n)
		}
	}
}

// BenchmarkOrder varies the number of origins: only leastBusy and byKey should
// grow with it. byKey includes the digest of a key of 33 bytes; its mean weight is
// 4.5. In the busy ones no origin is idle and two thirds are as good, so that leastBusy
// has to look at all of them and to draw.
func BenchmarkOrder(b *testing.B) {
	for _, o := range allOrders {
		for _, n := range []int{3, 10, 50, -3, -10, -50} {
			name, busy := fmt.Sprintf("%v/%d", o, n), n < 0
			if n = max(n, -n); busy {
				name = fmt.Sprintf("%v/busy/%d", o, n)
			}
			if busy && o != leastBusy {
				continue
			}
			b.Run(name, func(b *testing.B) {
				ws := same(n, 1)
				for i := range ws {
					if o == byKey || o == inTurns && i%2 == 0 {
						ws[i] = 1 + i%8
					}
				}
				s := newSet(entries(ws...))
				for i := range s.entries {
					if busy {
						s.entries[i].load.inFlight.Store(int32(2 - min(i%3, 1)))
					}
				}
				var turn atomic.Uint64
				now := time.Now()
				key := "/products/shoes/brown-leather-10."[:33]
				b.ReportAllocs()
				for b.Loop() {
					seq := sequence{set: &s, order: o, turn: &turn, now: stamp(now)}
					if o == byKey {
						seq.key = digestString(key)
					}
					seq.next()
				}
			})
		}
	}
}
