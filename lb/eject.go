package lb

import (
	"fmt"
	"slices"
	"time"
)

// The defaults of [Ejection].
const (
	DefaultEjectionFailures    = 5
	DefaultEjectionRate        = 50 // percent
	DefaultEjectionRequests    = 20
	DefaultEjectionWindow      = 10 * time.Second
	DefaultEjectionDuration    = 30 * time.Second
	DefaultEjectionMaxDuration = 5 * time.Minute
	DefaultEjectionMaxPercent  = 50
)

const (
	maxEjectionTime = 24 * time.Hour
	maxVolume       = 1 << 30
)

// Ejection configures passive health: what visitors' requests tell. An origin
// whose requests fail is ejected, that is left alone for Duration, the second time
// for twice that, and so on. The zero value ejects with the defaults.
//
// Failures are attempts that got no response, or a broken one, and those answered
// with one of Statuses. A visitor that went away never counts, nor a kept connection
// that was closed, nor a request that an HTTP/2 origin calls malformed. The origin is
// ejected only if another eligible origin of the pool isn't failing itself, so the
// last one never is, and as long as no more than MaxPercent of the pool is out:
// when all origins fail, ejecting some would only put their load on the others.
type Ejection struct {
	// Off ejects nothing, whatever else is set.
	Off bool
	// Failures is how many requests in a row must fail, up to 65,536. 0 means
	// [DefaultEjectionFailures]; negative means that it doesn't matter how many.
	Failures int
	// Rate is the percentage of the requests of Window that must fail; they must be
	// at least Requests. The window begins with a failure. 0 means
	// [DefaultEjectionRate] and [DefaultEjectionRequests]; a negative Rate means
	// that it doesn't matter how many.
	Rate, Requests int
	// Window is up to a day. 0 means [DefaultEjectionWindow].
	Window time.Duration
	// Duration is how long the first ejection lasts. Each Duration that an origin
	// then goes without another makes the next one shorter by one. 0 means
	// [DefaultEjectionDuration].
	Duration time.Duration
	// MaxDuration is how long an ejection lasts at most; up to a day. 0 means
	// [DefaultEjectionMaxDuration], or Duration if that is longer.
	MaxDuration time.Duration
	// MaxPercent is how much of the pool's origins may be out, by ejection or any
	// other state, when one is ejected; what is disabled, drained or in maintenance
	// isn't part of the pool here. One may be in any case, if there are others. 0
	// means [DefaultEjectionMaxPercent].
	MaxPercent int
	// Statuses are the answers that count as failures, also for the circuit
	// breaker; from 500 to 599. Nil means 502, 503 and 504, since a 500 as a rule
	// is the page's fault; empty but not nil means none.
	Statuses []int
	// MaxRetryAfter lets a 503 with Retry-After eject the origin at once, for as
	// long as it says but no longer than this; up to a day. 0 means that
	// Retry-After doesn't matter: a single page could switch an origin off.
	MaxRetryAfter time.Duration
}

var defaultStatuses = []int{502, 503, 504}

func (e Ejection) withDefaults() Ejection {
	setDefault(&e.Failures, DefaultEjectionFailures)
	setDefault(&e.Rate, DefaultEjectionRate)
	setDefault(&e.Requests, DefaultEjectionRequests)
	setDefault(&e.Window, DefaultEjectionWindow)
	setDefault(&e.Duration, DefaultEjectionDuration)
	setDefault(&e.MaxDuration, max(DefaultEjectionMaxDuration, e.Duration))
	setDefault(&e.MaxPercent, DefaultEjectionMaxPercent)
	if e.Statuses == nil {
		e.Statuses = defaultStatuses
	}
	e.Statuses = slices.Clone(e.Statuses)
	return e
}

// validate reports all that is wrong; place is such as "Pools[0].Ejection.".
func (e Ejection) validate(place string) []error {
	c := problems{place: place}
	if e.Failures > maxFailures {
		c.bad("Failures", e.Failures, fmt.Sprintf("must be %d at most; leave it 0 for 5, or let it be negative if it doesn't matter", maxFailures))
	}
	if e.Rate > 100 {
		c.bad("Rate", e.Rate, "must be a percentage, 100 at most; leave it 0 for 50, or let it be negative if it doesn't matter")
	}
	c.between("Requests", e.Requests, 0, maxVolume, "leave it 0 for 20")
	c.within("Window", e.Window, 0, maxEjectionTime, "leave it 0 for 10 s")
	c.within("Duration", e.Duration, 0, maxEjectionTime, "leave it 0 for 30 s")
	c.within("MaxDuration", e.MaxDuration, 0, maxEjectionTime, "leave it 0 for 5 min")
	if e.MaxDuration > 0 && e.MaxDuration < e.Duration {
		c.bad("MaxDuration", e.MaxDuration, fmt.Sprintf("must not be below Duration (%v); raise it, or leave it 0", e.Duration))
	}
	c.between("MaxPercent", e.MaxPercent, 0, 100, "leave it 0 for 50, or set Off")
	c.within("MaxRetryAfter", e.MaxRetryAfter, 0, maxEjectionTime, "leave it 0 if Retry-After doesn't matter")
	for i, s := range e.Statuses {
		if s < 500 || s > 599 {
			c.bad(fmt.Sprintf("Statuses[%d]", i), s, "must be from 500 to 599, since others don't tell that the origin is unwell; leave Statuses nil for 502, 503 and 504")
		}
	}
	return c.list
}

// counts reports whether a status is a failure.
func (e Ejection) counts(status int) bool { return slices.Contains(e.Statuses, status) }
