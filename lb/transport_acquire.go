package lb

import (
	"container/list"
	"context"
	"errors"
	"slices"
)

// maxRefused is how many new HTTP/2 connections may refuse a request's stream at
// once before that is a failure.
const maxRefused = 3

var errNoStreams = errors.New("new connections take no streams")

// want is a request without a connection.
type want struct {
	fresh  bool // a connection that had a request before won't do
	failed bool // a dial has failed since; under the pool's lock
	got    chan gotConn
}

// gotConn is what a want gets.
type gotConn struct {
	c      *conn
	reused bool
	err    error
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
			if fresh {
				p.fresh++
			}
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

// unwantLocked takes a want off the list.
func (p *pool) unwantLocked(e *list.Element) *want {
	w := p.wants.Remove(e).(*want)
	if w.fresh {
		p.fresh--
	}
	return w
}

// promisedLocked returns how many wants a connection that settles is for.
func (p *pool) promisedLocked() int { return min(p.settle, p.wants.Len()-p.fresh) }

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
		p.unwantLocked(e)
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
			p.unwantLocked(e)
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
