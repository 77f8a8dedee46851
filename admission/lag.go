package admission

import (
	"math"
	"time"
)

// How a window of scheduling lag is judged.
const (
	lagQuantile = 0.9
	// With fewer samples than these a window is continued, up to four times its
	// length. The runtime samples one in eight starts of a goroutine.
	enoughSamples = 50
	// With fewer than these even then, nothing is known and so nothing is shed. A
	// CPU on which each goroutine works until it's preempted, after 10 ms or more,
	// has four to twelve a second.
	leastSamples = 3
	// How many standard deviations a rank in few samples is lowered.
	lagDoubt = 1.645
)

// lagOf returns the lag between two readings, and of how many samples. If they are
// few it's the lower bound of the lag at a confidence of 95 %: single late
// goroutines don't count, but if most are late that is believed.
func lagOf(before, after []uint64, bounds []float64) (lag time.Duration, samples uint64) {
	lag, samples = quantile(before, after, bounds, lagQuantile)
	if samples < leastSamples {
		return 0, samples
	}
	if samples < enoughSamples {
		lag, _ = quantile(before, after, bounds, surely(samples))
	}
	return lag, samples
}

// surely is the quantile of n samples that is below the lagQuantile of what they
// were taken from, in 95 of 100 cases.
func surely(n uint64) float64 {
	all := float64(n)
	return math.Floor(lagQuantile*all-lagDoubt*math.Sqrt(lagQuantile*(1-lagQuantile)*all)) / all
}

// quantile returns the q-quantile of what was added to a histogram of seconds
// between two readings, and how many samples that were. Within a bucket it
// interpolates. Readings that don't belong together have no samples.
func quantile(before, after []uint64, bounds []float64, q float64) (lag time.Duration, samples uint64) {
	if len(before) != len(after) || len(bounds) != len(after)+1 {
		return 0, 0
	}
	for i := range after {
		samples += added(before[i], after[i])
	}
	if samples == 0 {
		return 0, 0
	}
	rank := max(math.Ceil(q*float64(samples)), 1)
	var below float64
	for i := range after {
		n := float64(added(before[i], after[i]))
		if n > 0 && below+n >= rank {
			return between(bounds[i], bounds[i+1], (rank-below)/n), samples
		}
		below += n
	}
	return 0, samples
}

func added(before, after uint64) uint64 {
	if after < before {
		return 0
	}
	return after - before
}

// between interpolates between the bounds of a bucket, of which the first and
// the last are open.
func between(low, high, part float64) time.Duration {
	if !(low > 0) { // so is NaN
		low = 0
	}
	seconds := low
	if high > low && !math.IsInf(high, 1) {
		seconds += part * (high - low)
	}
	return time.Duration(min(seconds, maxLag.Seconds()) * float64(time.Second))
}

// ripe reports whether a window can be judged.
func ripe(elapsed, window time.Duration, samples uint64) bool {
	return samples >= enoughSamples || elapsed >= 4*window
}

// Level is how far overload has gone.
type Level uint8

// The levels.
const (
	Calm       Level = iota // everything passes
	Busy                    // tenants above their share and unknown hosts are shed
	Recovering              // as Busy; of the tenants' clients a growing part is let in again
	Shedding                // all tenants are shed
)

// String returns the level in lower case.
func (l Level) String() string {
	switch l {
	case Calm:
		return "calm"
	case Busy:
		return "busy"
	case Recovering:
		return "recovering"
	case Shedding:
		return "shedding"
	}
	return "unknown"
}

// lagState is what the windows of scheduling lag so far amount to. Lag tells what
// was, not what is: so it takes two windows to act, less than what made it act to
// stop, and between the two the part that is let in changes in steps, down fast
// and up slowly.
type lagState struct {
	level Level
	lag   time.Duration // in the last window
	// open is the part of whatever is scaled that is let in, of openAll. In Busy
	// that is the shares of tenants, in Recovering their clients as well.
	open uint32
	// Windows in a row above LagLimit, above LagKnee, and not above half of each.
	high, mid, belowHigh, belowMid uint8
}

const (
	openAll   = 1024
	openFirst = openAll / 4  // after shedding all
	openLeast = openAll / 16 // a trickle, by which to notice that it's over
	openStep  = openAll / 10
)

// step takes the lag of another window into account.
func (s lagState) step(lag, knee, limit time.Duration) lagState {
	s.lag = lag
	s.high = run(s.high, lag > limit)
	s.mid = run(s.mid, lag > knee)
	s.belowHigh = run(s.belowHigh, lag <= limit/2)
	s.belowMid = run(s.belowMid, lag <= knee/2)
	if s.high >= 2 {
		s.level, s.open = Shedding, 0
		return s
	}
	switch s.level {
	case Calm:
		s.open = openAll
		if s.mid >= 2 {
			s.level = Busy
			s.move(false)
		}
	case Busy, Recovering:
		s.move(lag <= knee)
		if s.open < openAll {
			break
		}
		s.level = Busy
		if s.belowMid >= 2 {
			s.level = Calm
		}
	case Shedding:
		if s.belowHigh >= 2 {
			s.level, s.open = Recovering, openFirst
		}
	}
	return s
}

// move opens by a tenth of all, or closes by three tenths of what is open.
func (s *lagState) move(up bool) {
	if up {
		s.open = min(s.open+openStep, openAll)
	} else {
		s.open = max(s.open*7/10, openLeast)
	}
}

// run counts how often in a row something was so.
func run(n uint8, so bool) uint8 {
	if !so {
		return 0
	}
	return min(n+1, 3)
}
