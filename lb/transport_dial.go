package lb

import (
	"net"
	"slices"
	"time"
)

// learnFor is how long a new HTTP/2 connection has one request only, unless that is
// answered before. By then the origin has said how many it takes: requests beyond that
// would wait on this connection for one of the others to end, however long it takes.
const learnFor = 50 * time.Millisecond

// learned ends the time in which c has one request only.
func (p *pool) learned(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.learning.Swap(false) && !p.closed {
		p.giveLocked(c)
		p.dialLocked()
	}
}

// dialError is a connection that wasn't made.
type dialError struct {
	failure Failure
	err     error
}

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// dialLocked starts as many dials as there are requests waiting, or a single one
// if the origin takes them all on one connection. Dials don't end with the
// request that they are for: another may use the connection.
func (p *pool) dialLocked() {
	need := p.wants.Len() - p.promisedLocked() // which takes microseconds
	if p.http2 && need > 0 {
		need = 1
		if slices.ContainsFunc(p.shared, func(c *conn) bool { return c.learning.Load() && !c.retired }) {
			need = 0 // in a moment it may take them all
		}
	}
	for p.dials < need {
		p.dials++
		go p.dial()
	}
}

// dial makes a connection and gives it to who waits.
func (p *pool) dial() {
	c, err := p.t.connect(p.ctx, false)
	var closing []*conn
	p.mu.Lock()
	p.dials--
	switch {
	case err != nil:
		p.failLocked(err)
	case p.closed || c.cc.Err() != nil:
		c.gone = true
		closing = append(closing, c)
		p.failLocked(&dialError{FailureClosed, net.ErrClosed})
	default:
		p.addLocked(c)
		p.http2 = c.http2()
		if c.http2() {
			p.shared = append(p.shared, c)
			c.learning.Store(true)
			time.AfterFunc(learnFor, func() { p.learned(c) })
			p.giveLocked(c)
		} else if !p.giveLocked(c) {
			closing = p.keepLocked(c, closing)
		}
	}
	p.dialLocked()
	p.mu.Unlock()
	shut(closing)
}

// failLocked tells those for whom no dial is under way any more: the first of them,
// and who has seen a dial fail before. The others, of which there are some if one
// dial is for all, wait for one more: a single lost packet isn't the failure of them
// all. So nobody waits for more than two that began after they came.
func (p *pool) failLocked(err error) {
	over := p.wants.Len() - p.promisedLocked() - p.dials
	for e, i := p.wants.Front(), 0; i < over; i++ {
		next, w := e.Next(), e.Value.(*want)
		if i == 0 || w.failed {
			p.unwantLocked(e).got <- gotConn{err: err}
		}
		w.failed = true
		e = next
	}
	if p.wants.Len() == 0 && p.http2 && p.t.o.Protocol != ProtocolHTTP2 {
		p.http2 = false // it may have changed
	}
}
