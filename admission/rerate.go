package admission

import "errors"

// Change is a new rate for a bucket, or for all buckets of a table of addresses.
type Change struct {
	Bucket    *Bucket
	Addresses *Addresses // instead of a bucket
	Rate      Rate
}

// Rerate changes the rates of buckets, all at once or none. What a bucket has left
// stays, at most the new burst, and grows at the new rate from now on: so a change
// neither gives anything back nor locks anyone out for longer than it takes to fill
// a bucket. An address that isn't in its table has a full bucket of the new rate.
//
// It refuses, with a *[ConfigError] each, what [Buckets.Bucket] refuses of the
// changed buckets, seen with all changes made. Rates of one bucket given twice are
// refused too. Children that aren't changed aren't looked at: one that is above its
// parent now is still bounded by it. It takes some nanoseconds for each address
// that is remembered, during which debits wait.
func (s *Buckets) Rerate(changes ...Change) error {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	next := make(map[*Bucket]*Bucket, len(changes)) // with the new rates
	var bad []error
	for _, c := range changes {
		b := c.Bucket
		if c.Addresses != nil {
			b = &c.Addresses.sample
		}
		interval, full, err := c.Rate.resolve()
		switch {
		case b == nil || b.set != s:
			err = &ConfigError{"Bucket", b, "is of another set, or none; name one of this set"}
		case next[b] != nil:
			err = &ConfigError{"Bucket", c.Rate, "is changed twice; give one rate for each bucket"}
		case err == nil:
			next[b] = &Bucket{interval: interval, full: full, most: full / interval}
			continue
		}
		bad = append(bad, err)
	}
	for b, n := range next {
		if b.parent == nil {
			continue
		}
		p := next[b.parent]
		if p == nil {
			p = b.parent
		}
		if err := n.within(p); err != nil {
			bad = append(bad, err)
		}
	}
	if len(bad) > 0 {
		return errors.Join(bad...)
	}
	for _, c := range changes {
		if a := c.Addresses; a != nil {
			a.rerate(now, next[&a.sample])
		} else {
			c.Bucket.rerate(now, next[c.Bucket])
		}
	}
	return nil
}

// rerate changes the rate of b and keeps what it has left.
func (b *Bucket) rerate(now int64, to *Bucket) {
	if b.interval == to.interval && b.full == to.full {
		return
	}
	// In units it has left/b.interval; the floor of it never gives more.
	left := max(0, b.full-max(0, b.filled-now))
	whole, part := left/b.interval, left%b.interval
	left = min(to.full, mulCapped(whole, to.interval)+int64(float64(part)/float64(b.interval)*float64(to.interval)))
	b.interval, b.full, b.most = to.interval, to.full, to.most
	b.filled = now + to.full - left
}

// mulCapped is a*b, at most 1<<62.
func mulCapped(a, b int64) int64 {
	if a > 0 && b > (1<<62)/a {
		return 1 << 62
	}
	return a * b
}

func (a *Addresses) rerate(now int64, to *Bucket) {
	a.sample.interval, a.sample.full, a.sample.most = to.interval, to.full, to.most
	a.shared.rerate(now, to)
	for i := range a.slots {
		a.slots[i].bucket.rerate(now, to)
	}
}

// Left returns how much can be debited from a bucket now, its parents aside.
func (s *Buckets) Left(b *Bucket) float64 {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(b.full-max(0, b.filled-now)) / float64(b.interval)
}

// Full reports whether a bucket has all it can hold, so that forgetting it changes
// nothing.
func (s *Buckets) Full(b *Bucket) bool {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	return b.filled <= now
}
