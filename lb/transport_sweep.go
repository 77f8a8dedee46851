package lb

import "time"

// sweepSteps is how often the pool looks for connections that are too old within
// the shortest of its times.
const sweepSteps = 4

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
		if !c.until.IsZero() && !now.Before(c.until) || c.displaced(now) {
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
