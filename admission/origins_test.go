package admission

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// scene is an origin that an adaptive ceiling has to find its way with.
type scene struct {
	name     string
	capacity float64       // that it serves at once; the ceiling may be ten times that
	base     time.Duration // that an answer takes on average
	noise    float64       // standard deviation of the logarithm of that; 0: from half to one and a half times
	tail     bool          // one answer in fifty waits for something else, twenty times as long
	dip      bool          // for a third of the time it can do half
	offered  float64       // in parts of what it can serve
	length   time.Duration
	least    float64 // of the best fixed ceiling's goodput; 0: nine tenths
}

var scenes = []scene{
	{name: "100 at once, 100 ms", capacity: 100, base: 100 * time.Millisecond, offered: 2, length: 60 * time.Second},
	{name: "fast: 10 at once, 1 ms", capacity: 10, base: time.Millisecond, offered: 2, length: 6 * time.Second, least: 0.85},
	{name: "small: 4 at once, 500 ms", capacity: 4, base: 500 * time.Millisecond, offered: 2, length: 300 * time.Second, least: 0.7},
	{name: "slow: 50 at once, 2 s", capacity: 50, base: 2 * time.Second, offered: 2, length: 300 * time.Second},
	{name: "heavy tail: one in fifty takes 20 times as long", capacity: 50, base: 50 * time.Millisecond, tail: true, offered: 2, length: 60 * time.Second},
	{name: "noisy: times differ by a factor of 1.6", capacity: 50, base: 50 * time.Millisecond, noise: 0.5, offered: 2, length: 60 * time.Second},
	{name: "very noisy: by a factor of 2.7", capacity: 50, base: 50 * time.Millisecond, noise: 1, offered: 2, length: 60 * time.Second},
	{name: "half of it for a third of the time", capacity: 100, base: 100 * time.Millisecond, dip: true, offered: 2, length: 90 * time.Second},
	{name: "little load", capacity: 100, base: 100 * time.Millisecond, offered: 0.05, length: 120 * time.Second},
}

// outcome is what came of one.
type outcome struct {
	good     float64       // answered in time after the first third, a second
	low      int           // lowest ceiling after that
	high     int           // and highest
	recovery time.Duration // until the ceiling was back after a dip
}

func (s *scene) run(t *testing.T, o Options) (out outcome) {
	synctest.Test(t, func(t *testing.T) {
		patience := max(time.Second, 10*s.base)
		o.QueueTimeout = patience / 4
		l := newLimiter(t, o)
		w := newWorld(l, 9)
		w.patience, w.noise = patience, s.noise
		w.origin.capacity, w.origin.base = s.capacity, s.base
		if s.tail {
			w.extra = func() time.Duration {
				if w.rng.IntN(50) == 0 {
					return 20 * s.base
				}
				return 0
			}
		}
		capacity := func(part float64) { w.advance(); w.origin.capacity = part * s.capacity; w.plan() }
		if s.dip {
			w.at(s.length/3, func() { capacity(0.5) })
			w.at(2*s.length/3, func() { capacity(1) })
		}
		out = outcome{low: o.Limit, recovery: -1}
		w.watchCeiling(s.length/300, s.length, func(now time.Duration, limit int) {
			if now >= s.length/3 {
				out.low, out.high = min(out.low, limit), max(out.high, limit)
			}
			if now >= 2*s.length/3 && out.recovery < 0 && limit >= int(0.9*s.capacity) {
				out.recovery = now - 2*s.length/3
			}
		})
		w.offer("", Request{}, s.offered*s.capacity/s.base.Seconds(), 0, s.length)
		w.run(s.length + 2*patience + 40*s.base)
		_, good, _ := w.among("", s.length/3, s.length)
		out.good = float64(good) / (2 * s.length / 3).Seconds()
		empty(t, l)
	})
	return out
}

// An adaptive ceiling that may be ten times too high, or too low, comes close to what
// the best fixed one does, with origins of all kinds.
func TestAdaptiveWithOriginsOfAllKinds(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString("| origin | offered | best fixed ceiling | adaptive | of that | ceiling |\n|---|--:|--:|--:|--:|--:|\n")
	for _, s := range scenes {
		var best outcome
		steady := s
		if s.offered*s.capacity/s.base.Seconds() >= 500 {
			steady.length /= 3 // a fixed ceiling has nothing to find
		}
		for _, part := range []float64{0.5, 1, 1.5} {
			if got := steady.run(t, Options{Limit: int(part * s.capacity)}); got.good > best.good {
				best = got
			}
		}
		least := max(int(s.capacity/10), 1)
		got := s.run(t, Options{Limit: int(10 * s.capacity), Adaptive: &Adaptive{Min: least}})
		part := got.good / best.good
		fmt.Fprintf(&table, "| %s | %g × | %.0f/s | %.0f/s | %.0f %% | %d to %d |\n", s.name, s.offered, best.good, got.good, 100*part, got.low, got.high)
		t.Logf("%-50s best %v got %v part %.2f", s.name, best, got, part)
		assert.GreaterOrEqual(t, part, cmp.Or(s.least, 0.9), s.name)
		floor := s.capacity / 2
		if s.dip {
			floor /= 2
			assert.True(t, 0 <= got.recovery && got.recovery <= 10*time.Second, "%v", got.recovery)
		}
		assert.GreaterOrEqual(t, got.low, int(floor), s.name)
	}
	documented(t, "origins", table.String())
}
