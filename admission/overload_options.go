package admission

import (
	"errors"
	"fmt"
	"time"
)

// The defaults of [OverloadOptions].
const (
	DefaultKnee          = 4096
	DefaultOverloadLimit = 8192
	DefaultOperatorLimit = 16384
	DefaultTenantFloor   = 1024
	DefaultProbeReserve  = 32
	DefaultLagKnee       = 10 * time.Millisecond
	DefaultLagLimit      = 50 * time.Millisecond
	DefaultLagWindow     = 250 * time.Millisecond
)

const (
	minLagWindow = 10 * time.Millisecond
	maxLagWindow = 10 * time.Second
	maxLag       = time.Minute
)

// OverloadOptions configures an [Overload]. The zero value has the defaults
// above.
type OverloadOptions struct {
	// Knee is how many requests may be in flight before anything is shed. 0 means
	// [DefaultKnee], or half of Limit if that is set.
	Knee int
	// Limit is how many may be in flight, of all senders, before all tenants are
	// shed; above Knee, up to 1,048,576. 0 means [DefaultOverloadLimit], or twice
	// Knee if that is set.
	Limit int
	// OperatorLimit is how many may be in flight before the operator's own
	// requests are shed too; Limit at least, up to 2,097,152. 0 means twice Limit:
	// [DefaultOperatorLimit] by default.
	OperatorLimit int
	// TenantFloor is how many requests of a tenant may be in flight before its
	// share matters; up to Limit. 0 means a quarter of Knee, at least 1:
	// [DefaultTenantFloor] by default.
	TenantFloor int
	// ProbeReserve is how many health probes may be in flight whatever else is; up
	// to 1,024. Those above it are shed first, so that who finds out the probe's
	// path gains nothing. 0 means [DefaultProbeReserve].
	ProbeReserve int

	// LagKnee is the scheduling lag, in nine of ten cases, above which requests
	// are shed as above Knee. 0 means [DefaultLagKnee], or a fifth of LagLimit if
	// that is set. Negative turns the signal off: only requests in flight count
	// then, and LagLimit and LagWindow must be 0.
	LagKnee time.Duration
	// LagLimit is the lag above which all tenants are shed; above LagKnee, up to a
	// minute. 0 means five times LagKnee: [DefaultLagLimit] by default.
	LagLimit time.Duration
	// LagWindow is over how long the lag is measured, from 10 ms to 10 s. Two
	// windows in a row have to agree before something changes. 0 means
	// [DefaultLagWindow].
	LagWindow time.Duration
}

// guarding is OverloadOptions with its defaults filled in and checked.
type guarding struct {
	knee, limit, operator, floor, probes int64
	lagKnee, lagLimit, lagWindow         time.Duration // lagKnee < 0: off
}

// resolve fills in the defaults, or reports all problems at once.
func (o OverloadOptions) resolve() (guarding, error) {
	var c checker
	o.counts(&c)
	o.lags(&c)
	return guarding{
		int64(o.Knee), int64(o.Limit), int64(o.OperatorLimit), int64(o.TenantFloor), int64(o.ProbeReserve),
		o.LagKnee, o.LagLimit, o.LagWindow,
	}, errors.Join(c...)
}

// counts resolves what is about requests in flight.
func (o *OverloadOptions) counts(c *checker) {
	switch {
	case o.Knee == 0 && o.Limit > 0:
		o.Knee = max(o.Limit/2, 1)
	case o.Knee == 0:
		o.Knee = DefaultKnee
	}
	fine := c.between("Knee", o.Knee, 1, maxLimit-1, "leave it 0 for 4096")
	if o.Limit == 0 {
		o.Limit = min(2*o.Knee, maxLimit)
	}
	fine = c.between("Limit", o.Limit, 2, maxLimit, "leave it 0 for twice Knee") && fine
	if fine && o.Knee >= o.Limit {
		c.bad("Knee", o.Knee, fmt.Sprintf("must be below Limit (%d), or tenants above their share would never be shed before the others; lower it or raise Limit", o.Limit))
		fine = false
	}
	if o.OperatorLimit == 0 {
		o.OperatorLimit = 2 * o.Limit
	}
	if fine && o.OperatorLimit >= 0 && o.OperatorLimit < o.Limit {
		c.bad("OperatorLimit", o.OperatorLimit, fmt.Sprintf("must not be below Limit (%d), or the operator would be shed before the tenants; raise it or lower Limit", o.Limit))
	} else {
		c.between("OperatorLimit", o.OperatorLimit, 1, 2*maxLimit, "leave it 0 for twice Limit")
	}
	if o.TenantFloor == 0 {
		o.TenantFloor = max(o.Knee/4, 1)
	}
	if fine && o.TenantFloor > o.Limit {
		c.bad("TenantFloor", o.TenantFloor, fmt.Sprintf("is above Limit (%d), so no tenant would ever be shed for its share; lower it", o.Limit))
	} else {
		c.between("TenantFloor", o.TenantFloor, 1, maxLimit, "leave it 0 for a quarter of Knee")
	}
	if o.ProbeReserve == 0 {
		o.ProbeReserve = DefaultProbeReserve
	}
	c.between("ProbeReserve", o.ProbeReserve, 1, 1024, "leave it 0 for 32")
}

// lags resolves what is about the scheduling lag.
func (o *OverloadOptions) lags(c *checker) {
	if o.LagKnee < 0 {
		if o.LagLimit != 0 {
			c.bad("LagLimit", o.LagLimit, "has no effect, since a negative LagKnee turns the lag off; leave it 0, or let LagKnee be 0 or more")
		}
		if o.LagWindow != 0 {
			c.bad("LagWindow", o.LagWindow, "has no effect, since a negative LagKnee turns the lag off; leave it 0, or let LagKnee be 0 or more")
		}
		return
	}
	switch {
	case o.LagKnee == 0 && o.LagLimit > 0:
		o.LagKnee = max(o.LagLimit/5, 1)
	case o.LagKnee == 0:
		o.LagKnee = DefaultLagKnee
	}
	if o.LagLimit == 0 {
		o.LagLimit = min(5*min(o.LagKnee, maxLag), maxLag)
	}
	if o.LagLimit < 0 || o.LagLimit > maxLag {
		c.bad("LagLimit", o.LagLimit, "must be between 0 and a minute; leave it 0 for five times LagKnee")
	} else if o.LagKnee >= o.LagLimit {
		c.bad("LagKnee", o.LagKnee, fmt.Sprintf("must be below LagLimit (%v); lower it or raise LagLimit", o.LagLimit))
	}
	if o.LagWindow == 0 {
		o.LagWindow = DefaultLagWindow
	}
	if o.LagWindow < minLagWindow || o.LagWindow > maxLagWindow {
		c.bad("LagWindow", o.LagWindow, "must be between 10ms and 10s; leave it 0 for 250ms")
	}
}
