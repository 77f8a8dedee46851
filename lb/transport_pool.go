package lb

import (
	"container/list"
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// pool holds an origin's connections.
type pool struct {
	t          *transport
	watchEvery time.Duration
	sweepEvery time.Duration // 0: never

	ctx    context.Context // of dials; ends with close
	cancel context.CancelFunc

	mu     sync.Mutex
	all    map[*conn]struct{}
	idle   []*conn   // HTTP/1 without a request, the last used at the end
	shared []*conn   // HTTP/2
	wants  list.List // of *want, in order of arrival
	fresh  int       // how many of them want a new connection
	settle int       // the connections that settle
	dials  int       // under way
	http2  bool      // the last connection was one
	closed bool
	timer  *time.Timer
	armed  bool
	sweeps int
}

func (p *pool) init(t *transport) {
	p.t = t
	p.watchEvery = t.o.watchEvery()
	p.all = map[*conn]struct{}{}
	p.http2 = t.o.Protocol == ProtocolHTTP2
	p.ctx, p.cancel = context.WithCancel(context.Background())
	shortest := t.o.IdleTimeout
	if d := t.o.ConnLifetime; t.target.name != "" && d > 0 && (shortest < 0 || d < shortest) {
		shortest = d
	}
	if shortest > 0 {
		p.sweepEvery = max(shortest/sweepSteps, 1)
	}
}

// addLocked takes in a new connection.
func (p *pool) addLocked(c *conn) {
	c.idleAt = p.now()
	if c.cc.Err() != nil { // it has died already, and may have said so
		c.gone = true
		return
	}
	p.all[c] = struct{}{}
	p.armLocked()
}

// release takes a connection back after a request. broken is as in exchange.finish.
func (p *pool) release(c *conn, broken bool) {
	var closing []*conn
	p.mu.Lock()
	if c.http2() {
		c.streams--
		c.full = false
		tired := broken && c.resets.Add(1) == maxResets
		c.retired = c.retired || tired
		if !c.gone && !c.retired && c.streams == 0 {
			c.idleAt = p.now()
		}
		p.giveLocked(c)
		if tired {
			p.dialLocked() // for who was to have it
		}
		if c.streams == 0 && (c.retired || p.closed) {
			closing = p.dropLocked(c, closing)
		}
	} else {
		rest := unfit
		if !broken && p.usableLocked(c) {
			rest = c.raw.socket.rest()
		}
		if rest == notYet {
			c.settles = true
			p.settle++
		} else {
			closing = p.restedLocked(c, rest, closing)
		}
	}
	p.mu.Unlock()
	shut(closing)
}

// usableLocked reports whether an HTTP/1 connection could have another request.
func (p *pool) usableLocked(c *conn) bool {
	return !c.retired && !p.closed && !c.gone && c.cc.Available() > 0
}

// restedLocked gives an HTTP/1 connection to who waits for one, puts it by, or
// drops it.
func (p *pool) restedLocked(c *conn, rest rested, closing []*conn) []*conn {
	c.busy = false
	switch {
	case rest == unfit || !p.usableLocked(c):
		return p.dropLocked(c, closing)
	case !p.giveLocked(c):
		return p.keepLocked(c, closing)
	}
	return closing
}

// settled is called when c has nothing left to read after a request.
func (p *pool) settled(c *conn) {
	var closing []*conn
	p.mu.Lock()
	if c.settles {
		p.unsettleLocked(c)
		closing = p.restedLocked(c, ready, closing)
		p.dialLocked()
	}
	p.mu.Unlock()
	if len(closing) > 0 {
		go shut(closing) // it may be this one, which is being read
	}
}

func (p *pool) unsettleLocked(c *conn) {
	if c.settles {
		c.settles = false
		p.settle--
	}
}

// keepLocked puts an HTTP/1 connection by.
func (p *pool) keepLocked(c *conn, closing []*conn) []*conn {
	if p.t.o.IdleConnections < 0 {
		return p.dropLocked(c, closing)
	}
	c.idleAt = p.now()
	p.idle = append(p.idle, c)
	if len(p.idle) > p.t.o.IdleConnections {
		closing = p.dropLocked(p.idle[0], closing)
	}
	return closing
}

// dropLocked takes c out of the pool.
func (p *pool) dropLocked(c *conn, closing []*conn) []*conn {
	if !c.gone {
		c.gone = true
		p.unsettleLocked(c)
		delete(p.all, c)
		if i := slices.Index(p.idle, c); i >= 0 {
			p.idle = slices.Delete(p.idle, i, i+1)
		}
		if i := slices.Index(p.shared, c); i >= 0 {
			p.shared = slices.Delete(p.shared, i, i+1)
		}
	}
	return append(closing, c)
}

// died is called when a connection has ended by itself.
func (p *pool) died(c *conn) {
	p.mu.Lock()
	p.dropLocked(c, nil)
	p.dialLocked() // for who was to have it
	p.mu.Unlock()
}

// shut closes connections. That calls back, so no lock may be held.
func shut(conns []*conn) {
	for _, c := range conns {
		if !c.tunnel.Load() {
			c.cc.Close()
		}
		if c.timer != nil {
			c.timer.Stop()
		}
	}
}

// close ends the pool. Connections in use end with their requests.
func (p *pool) close() {
	var closing []*conn
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	p.cancel()
	for c := range p.all {
		if !c.busy && c.streams == 0 {
			closing = p.dropLocked(c, closing)
		}
	}
	for e := p.wants.Front(); e != nil; e = e.Next() {
		e.Value.(*want).got <- gotConn{err: errTransportClosed}
	}
	p.wants.Init()
	p.fresh = 0
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Unlock()
	shut(closing)
}

// addressGrace is how long answers may lack an address whose connections are used:
// some name servers give one of several addresses in turn, and connections that each
// answer took out would never be used twice.
const addressGrace = 30 * time.Second

// resolved notes the addresses that the name has. Connections to one that answers
// lack for addressGrace get no more requests.
func (p *pool) resolved(addrs []netip.Addr) {
	var closing []*conn
	now := time.Now()
	p.mu.Lock()
	for c := range p.all {
		switch {
		case slices.Contains(addrs, c.remote.Addr()):
			c.lacking = time.Time{}
			continue
		case c.lacking.IsZero():
			c.lacking = now
		}
		if !c.displaced(now) {
			continue
		}
		c.retired = true
		if !c.busy && c.streams == 0 {
			closing = p.dropLocked(c, closing)
		}
	}
	p.mu.Unlock()
	shut(closing)
}
