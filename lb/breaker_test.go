package lb

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var testBreaker = Breaker{Failures: 3, Open: 10 * time.Second, Probes: 2, Successes: 3}

func TestCircuitTurnsHalfOpenAndCloses(t *testing.T) {
	const s = time.Second
	var c circuit
	_, _, ok := c.take(0, testBreaker)
	assert.False(t, ok, "closed: there are no probes")

	c.trip(5*s, testBreaker)
	assert.Equal(t, 15*s, c.freeAt(testBreaker))
	_, halved, ok := c.take(15*s-1, testBreaker)
	assert.False(t, halved || ok)

	first, halved, ok := c.take(15*s, testBreaker)
	assert.True(t, halved && ok)
	second, halved, ok := c.take(16*s, testBreaker)
	assert.True(t, !halved && ok)
	_, _, ok = c.take(17*s, testBreaker)
	assert.False(t, ok, "both slots are taken")
	assert.Equal(t, 25*s, c.freeAt(testBreaker), "when the first slot expires")

	assert.False(t, c.give(first, succeeded, 17*s, testBreaker))
	assert.False(t, c.give(first, succeeded, 17*s, testBreaker), "a slot is given back once")
	assert.Zero(t, c.freeAt(testBreaker))
	assert.False(t, c.give(second, succeeded, 17*s, testBreaker))
	third, _, ok := c.take(18*s, testBreaker)
	require.True(t, ok)
	assert.True(t, c.give(third, succeeded, 18*s, testBreaker))
	assert.Equal(t, circuitClosed, c.phase)
	assert.Zero(t, c.freeAt(testBreaker))
}

func TestCircuitOpensAgainOnAFailedProbe(t *testing.T) {
	const s = time.Second
	var c circuit
	c.trip(0, testBreaker)
	first, _, _ := c.take(10*s, testBreaker)
	second, _, _ := c.take(10*s, testBreaker)
	assert.True(t, c.give(first, failed, 11*s, testBreaker))
	assert.Equal(t, 21*s, c.freeAt(testBreaker))
	assert.False(t, c.give(second, succeeded, 11*s, testBreaker), "of the time before it opened again")
	third, halved, ok := c.take(21*s, testBreaker)
	assert.True(t, halved && ok)
	assert.False(t, c.give(first, failed, 21*s, testBreaker), "a late report")
	assert.NotContains(t, []uint32{first, second}, third)
	assert.Equal(t, circuitHalfOpen, c.phase)
	assert.Zero(t, c.successes)
}

func TestCircuitProbeThatIsCancelledOnlyFreesItsSlot(t *testing.T) {
	var c circuit
	c.trip(0, testBreaker)
	for now := 10 * time.Second; now < 20*time.Second; now += time.Second / 10 {
		slot, _, ok := c.take(now, testBreaker)
		require.True(t, ok)
		require.False(t, c.give(slot, noOutcome, now, testBreaker))
	}
	assert.Equal(t, circuitHalfOpen, c.phase)
	assert.Zero(t, c.successes)
	assert.Empty(t, c.probes)
}

// Whoever took a slot may never come back.
func TestCircuitProbeExpires(t *testing.T) {
	const s = time.Second
	var c circuit
	c.trip(0, testBreaker)
	lost, _, _ := c.take(10*s, testBreaker)
	c.take(12*s, testBreaker)
	_, _, ok := c.take(20*s-1, testBreaker)
	assert.False(t, ok)
	slot, _, ok := c.take(20*s, testBreaker)
	assert.True(t, ok)
	assert.False(t, c.give(lost, failed, 20*s, testBreaker), "too late to count")
	assert.Equal(t, circuitHalfOpen, c.phase)
	assert.False(t, c.give(slot, failed, 30*s, testBreaker), "expired, though nobody took the slot since")
	assert.Equal(t, circuitHalfOpen, c.phase)
}

func TestCircuitSlotNumbersSkipZero(t *testing.T) {
	c := circuit{lastSlot: 1<<32 - 2}
	c.trip(0, testBreaker)
	a, _, _ := c.take(10*time.Second, testBreaker)
	b, _, ok := c.take(10*time.Second, testBreaker)
	assert.True(t, ok)
	assert.Equal(t, []uint32{1<<32 - 1, 1}, []uint32{a, b})
}

// A circuit against a plain count of what must hold, under random programs.
func TestCircuitModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 500 {
		b := Breaker{Failures: 1, Open: time.Duration(1+rng.IntN(5)) * time.Second, Probes: 1 + rng.IntN(3), Successes: 1 + rng.IntN(3)}
		type held struct {
			slot  uint32
			until time.Duration
		}
		var c circuit
		var now, opened time.Duration
		var current, old []held // slots of this half-open phase, and of phases before
		successes := 0
		reopen := func() {
			opened, successes = now, 0
			old, current = append(old, current...), nil
		}
		c.trip(now, b)
		for range 200 {
			now += time.Duration(rng.IntN(1000)) * time.Millisecond
			alive := 0
			for _, h := range current {
				if now < h.until {
					alive++
				}
			}
			switch n := rng.IntN(10); {
			case n < 5:
				slot, _, ok := c.take(now, b)
				want := c.phase != circuitClosed && now >= opened+b.Open && alive < b.Probes
				require.Equal(t, want, ok)
				if ok {
					current = append(current, held{slot, now + b.Open})
				}
			case n < 9 && len(current) > 0:
				i := rng.IntN(len(current))
				h := current[i]
				current = append(current[:i:i], current[i+1:]...)
				kind := outcomeKind(rng.IntN(3))
				changed := c.give(h.slot, kind, now, b)
				counts := now < h.until
				switch {
				case counts && kind == failed:
					require.True(t, changed)
					require.Equal(t, circuitOpen, c.phase)
					reopen()
				case counts && kind == succeeded:
					successes++
					require.Equal(t, successes == b.Successes, changed)
					if changed {
						require.Equal(t, circuitClosed, c.phase)
						c.trip(now, b)
						reopen()
					}
				default:
					require.False(t, changed)
				}
			case len(old) > 0:
				before := c
				require.False(t, c.give(old[rng.IntN(len(old))].slot, outcomeKind(rng.IntN(3)), now, b))
				require.Equal(t, before, c)
			}
		}
	}
}
