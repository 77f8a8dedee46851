package lb

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	ewmaWindow     = 10 * time.Second
	failurePenalty = 5 * time.Second // what a failure counts as
	maxPenalty     = 5 * time.Minute
)

// ewma is a moving average of latency that rises at once and falls slowly (peak
// EWMA), and falls also while nothing is measured, so that an origin that was slow
// is tried again. The zero value has seen nothing. Microseconds are in the upper
// half, milliseconds of the clock when they were measured in the lower. Of two
// measurements at the same instant one may be lost.
type ewma struct{ packed atomic.Uint64 }

// stamp is the clock in milliseconds; it overflows after 49 days, which is as if
// measured just now.
func stamp(now time.Time) uint32 { return uint32(now.UnixMilli()) }

func decayed(value, since, now uint32) float64 {
	age := max(int32(now-since), 0) // another request's clock may be ahead
	if age == 0 {
		return float64(value)
	}
	return float64(value) * math.Exp(-float64(age)/float64(ewmaWindow.Milliseconds()))
}

// observe adds a measurement.
func (e *ewma) observe(d time.Duration, now time.Time) {
	d = min(max(d, time.Microsecond), maxPenalty)
	us, at := float64(d.Microseconds()), stamp(now)
	old := e.packed.Load()
	if v := decayed(uint32(old>>32), uint32(old), at); us < v {
		// v has decayed by the weight of the time since; what is missing to one is
		// the new measurement's.
		rest := v / float64(uint32(old>>32))
		us = v + us*(1-rest)
	}
	e.packed.CompareAndSwap(old, uint64(us)<<32|uint64(at))
}

// estimate is the average in microseconds, 0 if nothing was measured.
func (e *ewma) estimate(now uint32) uint64 {
	p := e.packed.Load()
	if p == 0 {
		return 0
	}
	return uint64(max(decayed(uint32(p>>32), uint32(p), now), 1))
}
