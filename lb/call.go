package lb

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"time"
)

// call is one request on its way through its host's pools.
type call struct {
	b      *Balancer
	req    *http.Request
	host   string
	bodies bodies
	notes  notes
	plan   plan
	left   atomic.Bool // done was called

	first    *group // whose rules count
	last     *lease
	attempts int     // as an origin may have seen them
	tried    []place // as many as there were leases
	full     bool    // an eligible origin had no room

	replacements int // how often an update took an attempt's connections away

	triedBuf [DefaultRetryAttempts + 1]place // of tried
}

// maxReplacements is how many updates a request that waits for a connection
// survives.
const maxReplacements = 100

// place is an origin, whatever updates have done to it meanwhile.
type place struct{ pool, key string }

// repeatable are the methods whose requests may be sent again (RFC 9110 §9.2.2),
// CONNECT and those unknown excepted.
func repeatable(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// run makes attempts until one succeeds or no other is allowed.
func (c *call) run() (*http.Response, error) {
	l, err := c.start()
	if err != nil {
		c.giveUp()
		return nil, err
	}
	var held *lease // an answer that counts as failed, in case there is no better one
	for {
		l.send()
		if !l.failed {
			return c.deliver(l, held), nil
		}
		next, why := c.another(l)
		c.notes.failed(l, why)
		if next != nil {
			if l.res != nil {
				drop(held)
				held = l
			} else if next != l {
				l.drop()
			}
			l = next
			continue
		}
		if l.res != nil {
			return c.deliver(l, held), nil
		}
		err := l.err
		l.drop()
		if held != nil {
			return c.deliver(held, nil), nil
		}
		c.giveUp()
		return nil, err
	}
}

// giveUp closes the request's body.
func (c *call) giveUp() {
	if c.first != nil {
		c.bodies.finish(false)
	} else if c.req.Body != nil {
		c.req.Body.Close()
	}
}

func drop(l *lease) {
	if l != nil {
		l.drop()
	}
}

// deliver passes l's response on and lets another one go.
func (c *call) deliver(l, other *lease) *http.Response {
	drop(other)
	c.bodies.finish(c.last == l)
	c.notes.delivered(l)
	return l.deliver()
}

// start finds the first origin.
func (c *call) start() (*lease, error) {
	// States may change between looking and reserving; then it is looked again.
	for look := range 2 {
		v := c.b.view.Load()
		groups := v.groupsFor(c.host)
		if len(groups) == 0 {
			return nil, &NoOriginError{Host: c.host, UnknownHost: true}
		}
		c.plan.begin(v, groups, c.req, c.b.clock(), look > 0)
		c.notes.planned(c.host, &c.plan)
		c.full = false
		if l := c.lease(); l != nil {
			c.begin(l)
			return l, nil
		}
		if c.full {
			break
		}
	}
	return nil, &NoOriginError{Host: c.host, AtCapacity: c.full}
}

// begin fixes the rules with the first lease.
func (c *call) begin(l *lease) {
	if c.first != nil {
		return
	}
	c.first = l.group
	c.first.shared.budget.request(l.start)
	keep := c.first.retry.bodyBytes
	if !repeatable(c.req.Method) || c.first.retry.attempts == 1 {
		keep = 0
	}
	c.bodies = newBodies(c.req, keep)
}

// lease reserves a place at the next origin of the plan that has one.
func (c *call) lease() *lease {
	for {
		s, ok := c.plan.next()
		if !ok {
			return nil
		}
		if slices.Contains(c.tried, place{c.plan.cur.Name, s.key}) {
			continue // after a new plan
		}
		now := c.b.clock()
		state, _ := s.state(now)
		if state != StateHealthy && !c.plan.panicking() {
			c.skip(s, state)
			continue
		}
		if !s.entry.load.reserve(s.limit) {
			c.full = true
			c.notes.skipped(c.plan.cur, s, StateAtCapacity)
			continue
		}
		l := &lease{call: c, group: c.plan.cur, server: s, began: now, start: time.Now()}
		if !c.plan.panicking() {
			if l.token, state = s.cond.begin(now); state != StateHealthy {
				s.entry.load.release()
				c.skip(s, state)
				continue
			}
		}
		c.tried = append(c.tried, place{l.group.Name, s.key})
		c.attempts++
		c.last = l
		c.notes.attempt(l, &c.plan)
		return l
	}
}

// skip passes over an origin whose state has just changed.
func (c *call) skip(s *server, state State) {
	c.plan.cur.stale.Store(true)
	c.notes.skipped(c.plan.cur, s, state)
}

// What a trail says about a failed attempt: why another one followed, or none.
const (
	nextOrigin   = "next origin"
	nextFresh    = "same origin, new connection: the kept one was closed"
	nextStream   = "same origin, new connection: this one took no more requests"
	nextReplaced = "next origin: this one's connections were just taken out"
	noneGone     = "none: the client is gone"
	noneLate     = "none: the request's time is over"
	noneRequest  = "none: the request itself failed"
	noneAttempts = "none: no attempts left"
	noneMethod   = "none: the method is never repeated"
	noneBody     = "none: the body can't be sent again"
	noneTime     = "none: too little time is left"
	noneBudget   = "none: the retry budget is used up"
	noneOrigin   = "none: no other origin"
	noneOff      = "none: retries are off"
)

// another decides what follows a failed attempt. It returns l itself if it is
// to be made again.
func (c *call) another(l *lease) (*lease, string) {
	te, unseen := (*TransportError)(nil), false
	if l.err != nil {
		te, unseen = retryable(l.err)
	}
	if why := c.forbidden(l, te, unseen); why != "" {
		return nil, why
	}
	if te != nil && !l.fresh {
		stale := te.Stale()
		if stale && !c.pay(true) || te.Failure == FailureRejected && !c.pay(isGoaway(te)) {
			return nil, noneBudget
		}
		if stale {
			return c.again(l), nextFresh
		}
		if te.Failure == FailureRejected {
			return c.again(l), nextStream
		}
	}
	if te != nil && te.Failure == FailureShutdown {
		if next := c.replaced(l); next != nil {
			return next, nextReplaced
		}
		return nil, noneOrigin
	}
	next := c.lease()
	if next == nil {
		return nil, noneOrigin
	}
	if !c.pay(te != nil && te.unreached()) {
		next.cancel()
		c.last = l
		return nil, noneBudget
	}
	return next, nextOrigin
}

// pay takes a repetition from the retry budget, or from that for what is no load.
func (c *call) pay(free bool) bool {
	if free {
		return c.first.shared.budget.takeFree(time.Now())
	}
	return c.first.shared.budget.take(time.Now(), c.first.retry.percent, c.first.retry.floor)
}

// replaced finds another place for an attempt whose connections were shut down
// under it. That is our own doing, and no attempt.
func (c *call) replaced(l *lease) *lease {
	c.attempts--
	if c.replacements++; c.replacements > maxReplacements {
		return nil
	}
	l.end(l.err) // its place may be the only one
	// The same origin may go on with other connections. After Close it has the old
	// ones.
	if v := c.b.view.Load(); v.linkOf(l.group.Name, l.server.key) != l.server.link {
		at := place{l.group.Name, l.server.key}
		c.tried = slices.DeleteFunc(c.tried, func(p place) bool { return p == at })
	}
	// The old plan is only for hosts that are served no more.
	if next, err := c.start(); err == nil {
		return next
	}
	return c.lease()
}

// forbidden says why no other attempt may follow, or "".
func (c *call) forbidden(l *lease, te *TransportError, unseen bool) string {
	rules := &c.first.retry
	ours := te != nil && te.Failure == FailureShutdown
	switch {
	case te != nil && te.Failure == FailureUpload && c.bodies.interrupted():
		return noneBody
	case errors.Is(c.req.Context().Err(), context.Canceled):
		return noneGone
	case c.req.Context().Err() != nil:
		return noneLate
	case te != nil && te.Failure == FailureRequest:
		return noneRequest
	case rules.attempts == 1 && !ours:
		return noneOff
	case c.attempts >= rules.attempts && !ours:
		return noneAttempts
	case !repeatable(c.req.Method) && !(unseen && (rules.unsent || ours)):
		return noneMethod
	case !c.bodies.again():
		return noneBody
	}
	if deadline, ok := c.req.Context().Deadline(); ok && time.Until(deadline) < c.b.clock()-l.began {
		return noneTime
	}
	return ""
}

// lastAttempt reports whether no origin can come after the current one. That there
// is none left that is well isn't looked for.
func (c *call) lastAttempt() bool {
	return c.attempts >= c.first.retry.attempts || len(c.tried) >= c.plan.origins()
}

// again makes the same attempt anew, on a new connection. Its place is kept, and
// the origin isn't blamed for closing a connection that nobody used.
func (c *call) again(l *lease) *lease {
	l.reported.Do(func() { l.server.cond.report(l.token, outcome{}, c.b.clock()) })
	n := &lease{call: c, group: l.group, server: l.server, began: c.b.clock(), start: time.Now(), fresh: true}
	n.token, _ = l.server.cond.begin(n.began)
	c.attempts++
	c.last = n
	l.ended.Store(true) // n holds the place now
	c.notes.attempt(n, &c.plan)
	return n
}

// cancel gives a place back that wasn't used.
func (l *lease) cancel() {
	c := l.call
	c.attempts--
	l.ended.Store(true)
	l.reported.Do(func() { l.server.cond.report(l.token, outcome{}, c.b.clock()) })
	l.server.entry.load.release()
	c.notes.cancelled(l)
}

// done is called once, when the request is over.
func (c *call) done() {
	if c.left.CompareAndSwap(false, true) {
		c.b.leave()
		c.notes.done()
	}
}
