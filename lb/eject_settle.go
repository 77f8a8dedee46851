package lb

import (
	"fmt"
	"log/slog"
	"time"
)

// lookAgainAfter is how long nothing is ejected after it turned out that the pool
// can't spare the origin: in an outage every request would ask again.
const lookAgainAfter = 100 * time.Millisecond

// settle takes a failure in, or any outcome of a probe.
func (h *health) settle(c *condition, t token, o outcome, now time.Duration) {
	h.mu.Lock()
	cfg := h.cfg.Load()
	var ev event
	if !c.removed && c.gen() == t.gen {
		if t.slot != 0 {
			ev = c.settleProbe(t, o, now, cfg)
		} else {
			ev = h.settleFailure(c, o, now, cfg)
		}
	}
	h.mu.Unlock()
	ev.log(cfg)
}

func (c *condition) settleProbe(t token, o outcome, now time.Duration, cfg *healthConfig) (ev event) {
	if c.circuit.give(t.slot, o.kind, now, cfg.breaker) {
		c.renew()
		if c.circuit.phase == circuitOpen {
			ev = c.event(slog.LevelWarn, "origin's circuit open", "a probe failed", cfg.breaker.Open)
		} else {
			c.slow, c.slowFrom = true, now
			ev = c.event(slog.LevelInfo, "origin's circuit closed", "probes succeeded", 0)
		}
	}
	c.publish(now, cfg)
	return ev
}

func (h *health) settleFailure(c *condition, o outcome, now time.Duration, cfg *healthConfig) (ev event) {
	c.fail(now, cfg.ejection.Window)
	r := c.record()
	if ev, ok := h.eject(c, r, o, now, cfg); ok {
		return ev
	}
	if cfg.breaker.on() && r.streak >= uint32(cfg.breaker.Failures) {
		c.circuit.trip(now, cfg.breaker)
		c.renew()
		c.publish(now, cfg)
		return c.event(slog.LevelWarn, "origin's circuit open", fmt.Sprintf("%d requests in a row failed", r.streak), cfg.breaker.Open)
	}
	return ev
}

// eject ejects an origin if it fails so much, or asks for it, and the pool can
// spare it.
func (h *health) eject(c *condition, r record, o outcome, now time.Duration, cfg *healthConfig) (event, bool) {
	e := &cfg.ejection
	asks := o.aside > 0
	if e.Off || !c.inRotation || now < c.lookAgain || !asks && !e.failing(r, now, 1) {
		return event{}, false
	}
	if !h.spares(c, now, e) {
		c.lookAgain = now + lookAgainAfter
		return event{}, false
	}
	reason := ""
	if e.failing(r, now, 1) {
		reason = e.why(r)
		c.ejectedUntil = c.ejections.next(now, *e)
	}
	if asks {
		if reason == "" {
			reason = "it answered 503 with Retry-After"
		}
		c.ejectedUntil = max(c.ejectedUntil, now+min(o.aside, e.MaxRetryAfter))
		c.ejections.until = c.ejectedUntil
	}
	c.slow, c.slowFrom = true, c.ejectedUntil
	c.renew()
	c.publish(now, cfg)
	return c.event(slog.LevelWarn, "origin ejected", reason, c.ejectedUntil-now), true
}

// spares reports whether the pool can do without c.
func (h *health) spares(c *condition, now time.Duration, e *Ejection) bool {
	all, out, better := 0, 0, false
	for _, m := range h.order {
		if !m.inRotation {
			continue
		}
		all++
		if m == c {
			continue
		}
		f := m.facts.Load()
		if s, _ := f.at(now); s != StateHealthy || f.circuit != circuitClosed {
			out++
		} else if !better {
			better = !e.failing(m.record(), now, 2)
		}
	}
	return e.mayEject(all, out, better)
}
