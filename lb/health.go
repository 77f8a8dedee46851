package lb

import (
	"context"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// health knows how the origins of one pool are: by active checks, by what becomes
// of visitors' requests, and by warm-ups. One lock guards all of it, since an
// ejection needs the whole pool in sight; requests take it only when they fail or
// are a circuit's probe.
type health struct {
	now  func() time.Duration
	cfg  atomic.Pointer[healthConfig]
	seed uint64

	mu      sync.Mutex
	members map[string]*condition // nil until the first update
	order   []*condition

	checker checker
}

// healthConfig is a pool's settings, valid but not yet with their defaults.
type healthConfig struct {
	check     HealthCheck
	ejection  Ejection
	breaker   Breaker
	warmUp    WarmUp
	slowStart time.Duration

	pool  string       // its name, for logs
	hosts []string     // the pool's exact host names, for checks and warm-ups
	log   *slog.Logger // nil means slog.Default()
}

// member is one origin of the pool.
type member struct {
	id string // its identity: the condition stays as long as it is in the pool
	// inRotation is false for what is disabled, in maintenance or drained. It is
	// checked all the same, but not warmed up, and isn't part of the pool when it
	// is decided whether another can be ejected. Coming back counts as a start.
	inRotation bool
	base       *url.URL // scheme and authority of checks and warm-ups
	host       string   // the Host it is always sent, "" if it is the visitor's
	// send sends a check or a warm-up request, to the port of its URL. It must end
	// when the request's context does, and must follow no redirect.
	send func(*http.Request) (*http.Response, error)
	// given is the number of the update that it is from; the checker's own.
	given uint64
}

// newClock returns a clock that begins now.
func newClock() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// newHealth returns the health of a pool without origins.
func newHealth(now func() time.Duration) *health {
	h := &health{now: now, seed: rand.Uint64()}
	h.cfg.Store(&healthConfig{log: slog.Default()})
	h.checker.init(h)
	return h
}

func (c healthConfig) withDefaults() *healthConfig {
	c.check, c.ejection = c.check.withDefaults(), c.ejection.withDefaults()
	c.breaker, c.warmUp = c.breaker.withDefaults(), c.warmUp.withDefaults()
	if c.log == nil {
		c.log = slog.Default()
	}
	return &c
}

// update replaces settings and members, and returns the members' conditions in
// the same order. Those of members that stay, by id, are kept with all they know.
// Members of the first update are there from the start: they have no slow start.
// Calls must not overlap.
func (h *health) update(settings healthConfig, members []member) []*condition {
	cfg, now := settings.withDefaults(), h.now()
	h.mu.Lock()
	first, before := h.members == nil, h.members
	old := h.cfg.Load()
	h.cfg.Store(cfg)
	h.members = make(map[string]*condition, len(members))
	h.order = make([]*condition, 0, len(members))
	for _, m := range members {
		c := before[m.id]
		switch {
		case c == nil:
			c = &condition{pool: h, id: m.id, tally: tally{up: !cfg.check.on() || !cfg.check.Pessimistic}}
			c.restart(now, cfg)
			c.slow = !first
		case m.inRotation && !c.inRotation:
			c.restart(now, cfg)
			c.ejections = ejections{}
		}
		c.inRotation = m.inRotation
		c.adapt(old, cfg)
		c.publish(now, cfg)
		h.members[m.id] = c
		h.order = append(h.order, c)
	}
	for id, c := range before {
		c.removed = h.members[id] != c
	}
	conditions := h.order
	h.mu.Unlock()
	h.checker.update(cfg, members, conditions)
	return conditions
}

// adapt drops what the new settings no longer know.
func (c *condition) adapt(old, cfg *healthConfig) {
	switch {
	case !cfg.check.on():
		c.tally = tally{up: true}
	case !old.check.on() && c.facts.Load() != nil:
		// It has been in use: a first result mustn't decide alone.
		c.tally.known = true
	}
	if !cfg.warmUp.on() {
		c.warming = warming{}
	}
	if cfg.ejection.Off {
		c.ejectedUntil = 0
	}
	if cfg.breaker != old.breaker && c.circuit.phase != circuitClosed {
		c.circuit.close()
		c.renew()
	}
}

// close ends all checks and warm-ups, and waits for them until ctx ends.
func (h *health) close(ctx context.Context) error { return h.checker.close(ctx) }

// outcome is Ejection.outcomeOf with the settings of now.
func (h *health) outcome(status int, aside time.Duration, err error, clientGone bool) outcome {
	return h.cfg.Load().ejection.outcomeOf(status, aside, err, clientGone)
}

// beginProbe is begin for an origin whose circuit isn't closed.
func (h *health) beginProbe(c *condition, now time.Duration) (token, State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	cfg := h.cfg.Load()
	if s, _ := c.facts.Load().at(now); s != StateHealthy {
		return token{}, s
	}
	if c.circuit.phase == circuitClosed {
		return token{gen: c.gen()}, StateHealthy
	}
	slot, halved, ok := c.circuit.take(now, cfg.breaker)
	if halved {
		c.renew()
	}
	c.publish(now, cfg)
	if !ok {
		return token{}, StateCircuitOpen
	}
	return token{c.gen(), slot}, StateHealthy
}

// checked takes the result of an active check in; problem is "" if it passed. It
// returns whether the origin is healthy now.
func (h *health) checked(c *condition, problem string, now time.Duration) (up bool) {
	h.mu.Lock()
	cfg := h.cfg.Load()
	var ev event
	if c.removed || !cfg.check.on() {
		h.mu.Unlock()
		return false
	}
	if c.tally.note(problem == "", cfg.check.Rise, cfg.check.Fall) {
		c.restart(now, cfg)
		if c.tally.up {
			ev = c.event(slog.LevelInfo, "origin healthy", "its health checks pass", 0)
		} else {
			ev = c.event(slog.LevelWarn, "origin unhealthy", problem, 0)
		}
		c.publish(now, cfg)
	} else if !c.facts.Load().plain {
		c.publish(now, cfg)
	}
	up = c.tally.up
	h.mu.Unlock()
	ev.log(cfg)
	return up
}

// checkSoon reports whether the next check should come after the fast interval.
func (h *health) checkSoon(c *condition) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return c.tally.turning()
}

// beginWarmUp reports whether a warm-up must begin now, and the generation that it
// is for; or after how long it will have to.
func (h *health) beginWarmUp(c *condition, now time.Duration) (gen uint32, later time.Duration, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	checked := c.tally.up && (c.tally.known || !h.cfg.Load().check.on())
	if c.removed || !c.inRotation || !checked || !c.warming.pending || c.warming.running {
		return 0, 0, false
	}
	if now < c.warming.notBefore {
		return 0, c.warming.notBefore - now, false
	}
	c.warming.running = true
	return c.gen(), 0, true
}

// endWarmUp takes the result of a warm-up in, and returns after how long another
// is due; 0 if none is. A cancelled one has no result.
func (h *health) endWarmUp(c *condition, gen uint32, err error, cancelled bool, now time.Duration) (again time.Duration) {
	h.mu.Lock()
	cfg := h.cfg.Load()
	if c.removed || c.gen() != gen || !c.warming.running {
		h.mu.Unlock()
		return 0
	}
	var ev event
	switch {
	case cancelled:
		c.warming.running = false
	case err != nil:
		c.warming.end(false, now)
		again = c.warming.notBefore - now
		ev = c.event(slog.LevelWarn, "origin's warm-up failed", clipped(err.Error()), again)
	default:
		c.warming.end(true, now)
		c.renew()
		c.slowFrom = now
		ev = c.event(slog.LevelInfo, "origin warmed up", "all paths were answered", 0)
	}
	c.publish(now, cfg)
	h.mu.Unlock()
	ev.log(cfg)
	return again
}

// seedOf is the origin's own part of what is random.
func (h *health) seedOf(id string) uint64 {
	sum := fnv.New64a()
	sum.Write([]byte(id))
	return h.seed ^ sum.Sum64()
}
