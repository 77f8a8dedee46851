package admission

import (
	"fmt"
	"math"
	"sync"
	"time"
)

// Rate is how much may happen over time.
type Rate struct {
	// PerSecond is in units of cost: above 0, at most a million. Less than one a
	// second is a fraction.
	PerSecond float64 `json:"per_second"`
	// Burst is how much may happen at once after a pause, up to a million. 0
	// means two seconds of the rate, at least 1 and at most a million.
	Burst float64 `json:"burst,omitempty"`
}

// Check returns nil if the rate can be a bucket's, else a *[ConfigError].
func (r Rate) Check() error {
	_, _, err := r.resolve()
	return err
}

// CheckWithin returns nil if a bucket of this rate can have a parent of the other,
// else a *[ConfigError]: neither rate nor burst may be above the parent's.
func (r Rate) CheckWithin(parent Rate) error {
	interval, full, err := r.resolve()
	if err != nil {
		return err
	}
	above, fullAbove, err := parent.resolve()
	if err != nil {
		return err
	}
	return (&Bucket{interval: interval, full: full}).within(&Bucket{interval: above, full: fullAbove})
}

// Fits reports whether a full bucket of this rate has enough for a cost.
func (r Rate) Fits(cost int) bool {
	interval, full, err := r.resolve()
	return err == nil && int64(cost) <= full/interval
}

// resolve returns the time that a cost of 1 takes, in nanoseconds, and the time
// to fill an empty bucket. Roundings make the rate lower, never higher.
func (r Rate) resolve() (interval, full int64, err error) {
	const million = 1e6
	if !(r.PerSecond >= 1e-6 && r.PerSecond <= million) {
		return 0, 0, &ConfigError{"PerSecond", r.PerSecond, "must be between 0.000001 and 1000000; to have no limit, use no bucket"}
	}
	if r.Burst == 0 {
		r.Burst = min(max(2*r.PerSecond, 1), million)
	}
	if !(r.Burst >= 1 && r.Burst <= million) {
		return 0, 0, &ConfigError{"Burst", r.Burst, "must be between 1 and 1000000; leave it 0 for two seconds of the rate"}
	}
	interval = int64(math.Ceil(1e9 / r.PerSecond))
	if r.Burst*float64(interval) > math.MaxInt64/4 {
		return 0, 0, &ConfigError{"Burst", r.Burst, fmt.Sprintf("takes too long to fill at %g a second; lower it or raise PerSecond", r.PerSecond)}
	}
	return interval, int64(r.Burst * float64(interval)), nil
}

// Buckets is a set of token buckets that can be debited together. The zero value
// is an empty set. Its methods may be called by many goroutines.
type Buckets struct {
	mu    sync.Mutex
	once  sync.Once
	epoch time.Time
}

// Bucket is a token bucket of a set.
type Bucket struct {
	parent   *Bucket
	set      *Buckets
	interval int64
	full     int64
	most     int64 // cost that ever fits
	// filled is the instant at which the bucket will be full again (the theoretical
	// arrival time of GCRA). Not later than now means that it is full.
	filled int64
}

const maxDepth = 8

// Bucket makes a full bucket. Debiting it debits its parent too; nil is none. A
// bucket can only be stricter than its parent: a rate or burst above the parent's
// is refused with a *[ConfigError], as is a chain of more than eight.
func (s *Buckets) Bucket(r Rate, parent *Bucket) (*Bucket, error) {
	interval, full, err := r.resolve()
	if err != nil {
		return nil, err
	}
	b := &Bucket{parent: parent, set: s, interval: interval, full: full, most: full / interval}
	if parent == nil {
		return b, nil
	}
	if parent.set != s {
		return nil, &ConfigError{"parent", parent, "is of another set; make both with the same Buckets"}
	}
	if err := b.within(parent); err != nil {
		return nil, err
	}
	depth := 1
	for p := parent; p != nil; p = p.parent {
		depth++
	}
	if depth > maxDepth {
		return nil, &ConfigError{"parent", depth, "makes a chain of more than 8; leave a level out"}
	}
	return b, nil
}

// within reports a rate or burst above the parent's.
func (b *Bucket) within(parent *Bucket) error {
	if b.interval < parent.interval {
		return &ConfigError{"PerSecond", 1e9 / float64(b.interval), fmt.Sprintf("is above its parent's (%g); lower it", 1e9/float64(parent.interval))}
	}
	if b.burst() > parent.burst()+burstError(b, parent) {
		return &ConfigError{"Burst", b.burst(), fmt.Sprintf("is above its parent's (%g); lower it", parent.burst())}
	}
	return nil
}

// burstError is what rounding may make of two equal bursts.
func burstError(a, b *Bucket) float64 {
	return 1/float64(a.interval) + 1/float64(b.interval)
}

func (b *Bucket) burst() float64 { return float64(b.full) / float64(b.interval) }

// Take debits all buckets, and all their parents, or none of them. A bucket that
// is reached in several ways is debited once. Nil ones don't count. wait is how
// long to stay away until all had enough, if nobody else came; 0 if ok. A cost
// above a burst never fits; wait is then the time to fill that bucket. A cost
// below 1 is taken as 1. With more than 16 buckets in all, or one of another set,
// it fails.
func (s *Buckets) Take(cost int, buckets ...*Bucket) (ok bool, wait time.Duration) {
	ok, _, wait = s.Debit(cost, buckets...)
	return ok, wait
}

// Debit is [Buckets.Take] that also says which bucket refused: the one that takes
// longest to have enough. It is nil if ok, and if the buckets can't be debited
// together.
func (s *Buckets) Debit(cost int, buckets ...*Bucket) (ok bool, refused *Bucket, wait time.Duration) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.take(now, cost, buckets...)
}

// now is the time since the set was first used; it never goes back.
func (s *Buckets) now() int64 {
	s.once.Do(func() { s.epoch = time.Now() })
	return int64(time.Since(s.epoch))
}

func (s *Buckets) take(now int64, cost int, buckets ...*Bucket) (bool, *Bucket, time.Duration) {
	var all [16]*Bucket
	n := 0
	units := int64(min(max(cost, 1), 1<<20))
	var wait int64
	var refused *Bucket
	for _, b := range buckets {
	chain:
		for ; b != nil; b = b.parent {
			for _, have := range all[:n] {
				if have == b {
					break chain // and its parents with it
				}
			}
			if n == len(all) || b.set != s {
				return false, nil, time.Second
			}
			all[n] = b
			n++
			if w := b.wait(now, units); w > wait {
				wait, refused = w, b
			}
		}
	}
	if wait > 0 {
		return false, refused, time.Duration(wait)
	}
	for _, b := range all[:n] {
		b.filled = max(b.filled, now) + units*b.interval
	}
	return true, nil, 0
}

// wait is how long it takes until the bucket has units.
func (b *Bucket) wait(now, units int64) int64 {
	if units > b.most {
		return max(b.full, 1)
	}
	return max(0, max(b.filled, now)+units*b.interval-b.full-now)
}
