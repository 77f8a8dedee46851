package lb

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// sweepSteps is how often the pool looks for connections that are too old within
// the shortest of its times.
const sweepSteps = 4

// maxRefused is how many new HTTP/2 connections may refuse a request's stream at
// once before that is a failure.
const maxRefused = 3

var errNoStreams = errors.New("new connections take no streams")

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
	dials  int       // under way
	http2  bool      // the last connection was one
	closed bool
	timer  *time.Timer
	armed  bool
	sweeps int
}

// want is a request without a connection.
type want struct {
	fresh bool // a connection that had a request before won't do
	got   chan gotConn
}

// gotConn is what a want gets.
type gotConn struct {
	c      *conn
	reused bool
	err    error
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

// acquireHTTP1 is acquire for requests that only HTTP/1 has, which want to take
// the connection over.
func (p *pool) acquireHTTP1(ctx context.Context, fresh bool) (*conn, bool, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, false, errTransportClosed
	}
	if n := len(p.idle); n > 0 && !fresh {
		c, reused := p.takeIdleLocked(n - 1)
		p.mu.Unlock()
		return c, reused, nil
	}
	p.mu.Unlock()
	c, err := p.t.connect(ctx, true)
	if err != nil {
		return nil, false, err
	}
	p.mu.Lock()
	if p.closed {
		c.gone = true
		p.mu.Unlock()
		shut([]*conn{c})
		return nil, false, errTransportClosed
	}
	c.busy, c.used = true, true
	p.addLocked(c)
	p.mu.Unlock()
	return c, false, nil
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

// acquire returns a connection for one request and whether it had one before. It
// waits for the first that is to be had: a new one, or one that comes free.
func (p *pool) acquire(ctx context.Context, fresh bool) (*conn, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	for refused := 0; ; {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return nil, false, errTransportClosed
		}
		var c *conn
		var reused bool
		if !fresh {
			c, reused = p.takeLocked()
		}
		if c == nil {
			w := &want{fresh: fresh, got: make(chan gotConn, 1)}
			e := p.wants.PushBack(w)
			p.dialLocked()
			p.mu.Unlock()
			var err error
			if c, reused, err = p.wait(ctx, e, w); err != nil {
				return nil, false, err
			}
		} else {
			p.mu.Unlock()
		}
		if !c.http2() || c.cc.Reserve() == nil {
			return c, reused, nil
		}
		if p.full(c); !reused {
			if refused++; refused == maxRefused {
				return nil, false, &dialError{FailureRejected, errNoStreams}
			}
		}
	}
}

// takeLocked returns a connection that is ready, or nil, and whether it had a
// request before.
func (p *pool) takeLocked() (c *conn, reused bool) {
	for _, c := range p.shared {
		if c.takes() {
			c.streams++
			reused, c.used = c.used, true
			return c, reused
		}
	}
	if n := len(p.idle); n > 0 {
		return p.takeIdleLocked(n - 1)
	}
	return nil, false
}

// takeIdleLocked takes the i-th of the idle connections.
func (p *pool) takeIdleLocked(i int) (c *conn, reused bool) {
	c = p.idle[i]
	p.idle = slices.Delete(p.idle, i, i+1)
	c.busy = true
	reused, c.used = c.used, true
	return c, reused
}

// wait waits for what w gets.
func (p *pool) wait(ctx context.Context, e *list.Element, w *want) (*conn, bool, error) {
	select {
	case g := <-w.got:
		return g.c, g.reused, g.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	select {
	case g := <-w.got: // it came at the same time
		p.mu.Unlock()
		if g.c != nil {
			p.release(g.c, false)
		}
	default:
		p.wants.Remove(e)
		p.mu.Unlock()
	}
	return nil, false, ctx.Err()
}

// full notes that c takes no more streams for now, or for ever.
func (p *pool) full(c *conn) {
	var closing []*conn
	p.mu.Lock()
	c.streams--
	c.full = true
	if c.streams == 0 { // it refuses even one: it is on its way out
		c.retired = true
		closing = p.dropLocked(c, closing)
	}
	p.mu.Unlock()
	shut(closing)
}

// release takes a connection back after a request.
func (p *pool) release(c *conn, broken bool) {
	var closing []*conn
	p.mu.Lock()
	if c.http2() {
		c.streams--
		c.full = false
		if !c.gone && !c.retired && c.streams == 0 {
			c.idleAt = p.now()
		}
		p.giveLocked(c)
		if c.streams == 0 && (c.retired || p.closed) {
			closing = p.dropLocked(c, closing)
		}
	} else {
		c.busy = false
		if broken || c.retired || p.closed || c.gone || c.cc.Available() == 0 {
			closing = p.dropLocked(c, closing)
		} else if !p.giveLocked(c) {
			closing = p.keepLocked(c, closing)
		}
	}
	p.mu.Unlock()
	shut(closing)
}

// giveLocked lets those who wait have c, as far as it goes.
func (p *pool) giveLocked(c *conn) bool {
	given := false
	for e := p.wants.Front(); e != nil; {
		next := e.Next()
		w := e.Value.(*want)
		if c.gone || p.closed || c.http2() && !c.takes() || c.retired {
			break
		}
		if !w.fresh || !c.used {
			p.wants.Remove(e)
			reused := c.used
			c.used = true
			given = true
			w.got <- gotConn{c: c, reused: reused}
			if !c.http2() {
				c.busy = true
				break
			}
			c.streams++
		}
		e = next
	}
	return given
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
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Unlock()
	shut(closing)
}

// now is the pool's clock: the number of sweeps. Time itself would cost more than
// the rest.
func (p *pool) now() int { return p.sweeps }

// sweep closes what has been idle or alive for too long.
func (p *pool) sweep() {
	var closing []*conn
	now := time.Now()
	p.mu.Lock()
	p.sweeps++
	for c := range p.all {
		if !c.until.IsZero() && !now.Before(c.until) {
			c.retired = true
		}
		if c.busy || c.streams > 0 {
			continue
		}
		if c.retired || p.idleTooLong(c) {
			closing = p.dropLocked(c, closing)
		}
	}
	if p.armed = len(p.all) > 0 && !p.closed; p.armed {
		p.timer.Reset(p.sweepEvery)
	}
	p.mu.Unlock()
	shut(closing)
}

// idleTooLong reports whether c has had no request for the idle timeout. It is
// noticed up to a sweep late.
func (p *pool) idleTooLong(c *conn) bool {
	limit := p.t.o.IdleTimeout
	if limit < 0 {
		return false
	}
	return time.Duration(p.sweeps-c.idleAt-1)*p.sweepEvery >= limit
}

// armLocked starts the sweeps.
func (p *pool) armLocked() {
	if p.sweepEvery == 0 || p.armed || p.closed {
		return
	}
	p.armed = true
	if p.timer == nil {
		p.timer = time.AfterFunc(p.sweepEvery, p.sweep)
		return
	}
	p.timer.Reset(p.sweepEvery)
}
