package lb

import (
	"math"
	"time"
)

// watchSteps is how often an exchange is looked at within its shortest limit. So
// silence is noticed up to two of these late.
const watchSteps = 8

const never = time.Duration(math.MaxInt64)

// watchEvery returns the time between two looks, 0 for none.
func (o *TransportOptions) watchEvery() time.Duration {
	limit := o.HeadTimeout
	if limit < 0 || o.BodyIdle > 0 && o.BodyIdle < limit {
		limit = o.BodyIdle
	}
	if limit < 0 {
		return 0
	}
	return max(limit/watchSteps, 1)
}

// watch begins to look after x. An HTTP/1 connection has one timer for all its
// exchanges, which goes to sleep when there was none: most requests are over
// before the first look, and cost a few atomic operations only.
func (x *exchange) watch() {
	every := x.t.pool.watchEvery
	if every == 0 {
		if !x.c.http2() {
			x.c.current.Store(x)
		}
		return
	}
	if x.c.http2() {
		x.timer = time.AfterFunc(never, func() { x.look(every) })
		x.timer.Reset(every) // now that the callback can see it
		return
	}
	x.c.current.Store(x)
	x.c.arm(every)
}

// arm starts the connection's timer unless it runs.
func (c *conn) arm(every time.Duration) {
	if !c.armed.CompareAndSwap(false, true) {
		return
	}
	if c.timer == nil { // the connection is ours alone here
		c.timer = time.AfterFunc(never, func() { c.look(every) })
	}
	c.timer.Reset(every)
}

// look is the timer's call on an HTTP/1 connection.
func (c *conn) look(every time.Duration) {
	x := c.current.Load()
	if x == nil {
		c.armed.Store(false)
		if c.current.Load() != nil {
			c.arm(every) // a request that came in between saw it armed
		}
		return
	}
	if f := x.judge(time.Now()); f == FailureNone {
		c.timer.Reset(every)
	} else if c.current.CompareAndSwap(x, nil) {
		x.expired.Store(uint32(f))
		c.cc.Close()
	} else {
		c.timer.Reset(every)
	}
}

// look is the timer's call for an exchange over HTTP/2.
func (x *exchange) look(every time.Duration) {
	if x.done.Load() {
		return
	}
	if f := x.judge(time.Now()); f != FailureNone {
		x.expired.Store(uint32(f))
		x.cancel(errExpired)
		return
	}
	x.timer.Reset(every)
}

// judge looks at an exchange and returns what the origin has failed at.
func (x *exchange) judge(now time.Time) Failure {
	flags := x.flags.And(^progress)
	limit, failure := x.t.o.limit(flags)
	if flags&progress != 0 || limit <= 0 || x.seen.IsZero() {
		x.seen = now
		return FailureNone
	}
	if now.Sub(x.seen) < limit {
		return FailureNone
	}
	return failure
}

// limit returns how long the origin may be silent in a state, and what it is
// blamed for then. 0 means that it isn't the origin which is waited for.
func (o *TransportOptions) limit(flags uint32) (time.Duration, Failure) {
	switch {
	case flags&head != 0 && flags&reading != 0 && flags&clientRead == 0:
		return o.BodyIdle, FailureBodyTimeout
	case flags&(head|clientRead) != 0:
		return 0, FailureNone
	case flags&sent != 0:
		return o.HeadTimeout, FailureHeadTimeout
	}
	return o.BodyIdle, FailureSendTimeout
}
