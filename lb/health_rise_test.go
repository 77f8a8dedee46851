package lb

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// playChecks notes a result for each letter ("+" passed, "-" failed) and writes
// the state after it ("U" up, "d" down).
func playChecks(t *tally, results string, rise, fall int) string {
	var out strings.Builder
	for _, r := range results {
		t.note(r == '+', rise, fall)
		if t.up {
			out.WriteByte('U')
		} else {
			out.WriteByte('d')
		}
	}
	return out.String()
}

func TestRiseAndFallCountConsecutiveResults(t *testing.T) {
	for _, tt := range []struct {
		name       string
		from       tally
		rise, fall int
		results    string
		want       string
	}{
		{"first pass", tally{up: true}, 2, 3, "+", "U"},
		{"first failure decides at once", tally{up: true}, 2, 3, "-", "d"},
		{"first pass of a pessimist decides at once", tally{}, 2, 3, "+", "U"},
		{"first failure of a pessimist", tally{}, 2, 3, "-", "d"},
		{"a pessimist's second result isn't the first", tally{}, 2, 3, "-+-+", "dddd"},
		{"fall", tally{up: true, known: true}, 2, 3, "---", "UUd"},
		{"one failure in a hundred", tally{up: true, known: true}, 2, 3, "++-++++", "UUUUUUU"},
		{"a pass resets the failures", tally{up: true, known: true}, 2, 3, "--+--+--", "UUUUUUUU"},
		{"rise", tally{known: true}, 2, 3, "++", "dU"},
		{"a failure resets the passes", tally{known: true}, 3, 2, "++-++-+++", "ddddddddU"},
		{"alternating checks don't flap up", tally{up: true, known: true}, 2, 2, "-+-+-+-+", "UUUUUUUU"},
		{"nor down", tally{known: true}, 2, 2, "+-+-+-+-", "dddddddd"},
		{"fresh counting after a fall", tally{up: true, known: true}, 2, 3, "---++--+---", "UUddUUUUUUd"},
		{"one and one", tally{up: true, known: true}, 1, 1, "-+-", "dUd"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			state := tt.from
			assert.Equal(t, tt.want, playChecks(&state, tt.results, tt.rise, tt.fall))
		})
	}
}

// The plain meaning: the state is what the last run of equal results made it that
// was long enough.
func TestRiseAndFallAgreeWithThePlainMeaning(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		rise, fall := 1+rng.IntN(4), 1+rng.IntN(4)
		state := tally{up: true, known: true}
		up, run, last := true, 0, false
		for i := range 60 {
			passed := rng.IntN(2) == 0
			if i > 0 && passed == last {
				run++
			} else {
				run = 1
			}
			last = passed
			before := up
			if passed && run >= rise {
				up = true
			} else if !passed && run >= fall {
				up = false
			}
			changed := state.note(passed, rise, fall)
			assert.Equal(t, up, state.up)
			assert.Equal(t, up != before, changed)
			assert.Equal(t, passed != up, state.turning())
		}
	}
}
