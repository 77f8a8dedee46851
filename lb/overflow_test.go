package lb

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Origins without a limit may have more requests in flight than 32 bits can weigh.
func TestLoadsAreWeighedWithoutOverflow(t *testing.T) {
	es := entries(8, 1, 8)
	for i, n := range []int32{1 << 30, 1 << 29, math.MaxInt32} { // for their weights 1, 4 and 2
		es[i].load.inFlight.Store(n)
	}
	s := newSet(es)
	r := rand.New(rand.NewPCG(8, 8))
	turn := new(atomic.Uint64)
	for range 50 {
		seq := dice(&s, leastBusy, turn, r)
		var got []int
		for i, ok := seq.next(); ok; i, ok = seq.next() {
			got = append(got, i)
		}
		assert.Equal(t, []int{0, 2, 1}, got)
	}
	seq := sequence{set: &s, bound: 125}
	all := int64(1<<30+1<<29+math.MaxInt32) + 1
	assert.Equal(t, []bool{false, true, false}, []bool{seq.aboveBound(&es[0], all), seq.aboveBound(&es[1], all), seq.aboveBound(&es[2], all)})

	// The sum of those in flight, too: nobody is above what all have.
	top := sequence{set: &s, bound: 125, order: byKey}
	for key := range uint64(50) {
		top.key = key
		var out indices
		assert.NotEqual(t, 1, top.top(&out), "the only one above its share")
	}
}
