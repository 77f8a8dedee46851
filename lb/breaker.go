package lb

import (
	"slices"
	"time"
)

// The defaults of [Breaker].
const (
	DefaultBreakerOpen      = 10 * time.Second
	DefaultBreakerProbes    = 1
	DefaultBreakerSuccesses = 2
)

const (
	maxFailures    = 1 << 16
	maxProbes      = 64
	maxBreakerOpen = time.Hour
)

// Breaker configures the circuit breaker that each origin has of its own. When
// Failures requests in a row have failed, the circuit opens: the origin gets
// nothing for Open. Then a few of the visitors' requests are let through as
// probes; if they succeed the circuit closes, and if one fails it opens again. The
// zero value is no breaker.
//
// Unlike an ejection it doesn't ask how the other origins are doing: with all
// circuits open there is no origin. It is for origins that are better left alone
// while they fail, even if that means errors. Failures at or above
// Ejection.Failures makes it the second step, for what may not be ejected.
type Breaker struct {
	// Failures is how many requests in a row must fail, up to 65,536. 0 means no
	// breaker.
	Failures int
	// Open is how long the circuit stays open; up to an hour. A probe that takes
	// longer than that no longer counts. 0 means [DefaultBreakerOpen].
	Open time.Duration
	// Probes is how many may be under way at once, up to 64. 0 means
	// [DefaultBreakerProbes].
	Probes int
	// Successes is how many probes must succeed before the circuit closes, up to
	// 65,536. 0 means [DefaultBreakerSuccesses].
	Successes int
}

func (b Breaker) on() bool { return b.Failures > 0 }

func (b Breaker) withDefaults() Breaker {
	setDefault(&b.Open, DefaultBreakerOpen)
	setDefault(&b.Probes, DefaultBreakerProbes)
	setDefault(&b.Successes, DefaultBreakerSuccesses)
	return b
}

// validate reports all that is wrong; place is such as "Pools[0].Breaker.".
func (b Breaker) validate(place string) []error {
	c := problems{place: place}
	if b.Failures == 0 && b != (Breaker{}) {
		c.bad("Failures", 0, "must be set, since the other settings have no effect without it; 10 is a start")
	}
	c.between("Failures", b.Failures, 0, maxFailures, "leave it 0 for no breaker")
	c.within("Open", b.Open, 0, maxBreakerOpen, "leave it 0 for 10 s")
	c.between("Probes", b.Probes, 0, maxProbes, "leave it 0 for 1")
	c.between("Successes", b.Successes, 0, maxFailures, "leave it 0 for 2")
	return c.list
}

// circuitPhase is what a circuit does with requests.
type circuitPhase uint8

const (
	circuitClosed   circuitPhase = iota // all pass
	circuitOpen                         // none passes
	circuitHalfOpen                     // probes pass
)

// circuit is the state of a breaker. It takes the time as an argument and has no
// lock.
type circuit struct {
	phase     circuitPhase
	until     time.Duration // open: when it turns half-open
	probes    []probe       // half-open: those under way
	successes int           // half-open
	lastSlot  uint32        // numbers are never used twice: a late report finds nothing
}

// probe is a slot that is taken.
type probe struct {
	slot    uint32
	expires time.Duration
}

// trip opens the circuit.
func (c *circuit) trip(now time.Duration, b Breaker) {
	*c = circuit{phase: circuitOpen, until: now + b.Open, lastSlot: c.lastSlot}
}

// close closes it.
func (c *circuit) close() { *c = circuit{lastSlot: c.lastSlot} }

// take lets a request through as a probe, if it may. halved is true if that turned
// the circuit half-open.
func (c *circuit) take(now time.Duration, b Breaker) (slot uint32, halved, ok bool) {
	if c.phase == circuitOpen && now >= c.until {
		*c = circuit{phase: circuitHalfOpen, lastSlot: c.lastSlot}
		halved = true
	}
	if c.phase != circuitHalfOpen {
		return 0, halved, false
	}
	c.probes = slices.DeleteFunc(c.probes, func(p probe) bool { return now >= p.expires })
	if len(c.probes) >= b.Probes {
		return 0, halved, false
	}
	c.lastSlot++
	if c.lastSlot == 0 {
		c.lastSlot = 1 // 0 is no probe
	}
	c.probes = append(c.probes, probe{c.lastSlot, now + b.Open})
	return c.lastSlot, halved, true
}

// give takes a probe's slot back and judges. It does nothing if the slot isn't
// taken by it any more. changed is true if the circuit opened or closed.
func (c *circuit) give(slot uint32, kind outcomeKind, now time.Duration, b Breaker) (changed bool) {
	i := slices.IndexFunc(c.probes, func(p probe) bool { return p.slot == slot })
	if i < 0 {
		return false
	}
	if now >= c.probes[i].expires {
		kind = noOutcome
	}
	c.probes = slices.Delete(c.probes, i, i+1)
	switch kind {
	case failed:
		c.trip(now, b)
		return true
	case succeeded:
		c.successes++
		if c.successes >= b.Successes {
			c.close()
			return true
		}
	}
	return false
}

// freeAt is when a probe may be let through: 0 if at once.
func (c *circuit) freeAt(b Breaker) time.Duration {
	switch {
	case c.phase == circuitOpen:
		return c.until
	case c.phase == circuitClosed || len(c.probes) < b.Probes:
		return 0
	}
	// Slots are given back in any order, but they expire in the order in which
	// they were taken, as long as Breaker.Open stays the same.
	at := c.probes[0].expires
	for _, p := range c.probes {
		at = min(at, p.expires)
	}
	return at
}
