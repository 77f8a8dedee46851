package lb

import (
	"sync/atomic"
	"time"
)

// condition is how one origin of a pool is. It belongs to the origin's identity
// and outlives every view of the pool. Times are those of the pool's clock, which
// no step of the wall clock moves. All methods may be called from any goroutine.
//
// Every request that is sent takes a token with begin and hands it in with report,
// once, when its response's body has ended. What changes the state (ejection,
// circuit, recovery) begins a new generation; tokens of older ones are ignored, so
// that what was sent to the origin as it was says nothing of it as it is.
type condition struct {
	pool *health
	id   string

	facts atomic.Pointer[facts]
	_     [64]byte // what requests write is apart from what they all read
	// streak holds the generation above and the failures in a row below. A success
	// that finds none of these has nothing to write here.
	streak atomic.Uint64
	passed atomic.Uint64 // successes of all time
	_      [64]byte

	// The rest is guarded by pool.mu.
	removed      bool
	inRotation   bool
	tally        tally
	window       window
	lookAgain    time.Duration // no ejection is considered before
	ejections    ejections
	ejectedUntil time.Duration
	circuit      circuit
	warming      warming
	slow         bool // slow start applies: it wasn't there when the pool began
	slowFrom     time.Duration
	reason       string // of the last change for the worse
}

// facts is what a condition's state depends on besides the time. It is never
// changed, only replaced.
type facts struct {
	gen          uint32
	plain        bool  // healthy with its full share, at any time
	base         State // StateHealthy, StateUnhealthy or StateWarmingUp
	ejectedUntil time.Duration
	circuit      circuitPhase
	circuitFree  time.Duration // when its circuit lets a request through
	slowFrom     time.Duration
	slow         time.Duration // 0: no slow start
}

// at is the state and the share at a time. The share counts only if the state is
// StateHealthy.
func (f *facts) at(now time.Duration) (State, int) {
	switch {
	case f.base == StateUnhealthy:
		return StateUnhealthy, fullShare
	case now < f.ejectedUntil:
		return StateEjected, fullShare
	case now < f.circuitFree:
		return StateCircuitOpen, fullShare
	case f.base == StateWarmingUp:
		return StateWarmingUp, fullShare
	case f.circuit != circuitClosed:
		return StateHealthy, 1 // for probes
	}
	return StateHealthy, slowShare(f.slowFrom, f.slow, now)
}

// token stands for a request that was sent. The zero value is one whose outcome
// doesn't matter: use it for what is sent although the origin isn't eligible.
type token struct {
	gen  uint32 // 0: none
	slot uint32 // of a circuit's probe; 0: none
}

// state returns how the origin stands at a time, and its share in sixteenths of
// its weight, for the policies. It takes no lock. The share is fullShare if the
// origin isn't healthy.
func (c *condition) state(now time.Duration) (State, int) {
	f := c.facts.Load()
	if f.plain {
		return StateHealthy, fullShare
	}
	return f.at(now)
}

// begin asks for a token just before a request is sent. Unless the state it
// returns is StateHealthy the origin must be skipped, and the token is zero. It
// can differ from what state said: another request may have taken the last slot of
// a half-open circuit.
func (c *condition) begin(now time.Duration) (token, State) {
	f := c.facts.Load()
	if f.plain {
		return token{gen: f.gen}, StateHealthy
	}
	s, _ := f.at(now)
	switch {
	case s != StateHealthy:
		return token{}, s
	case f.circuit == circuitClosed:
		return token{gen: f.gen}, s
	}
	return c.pool.beginProbe(c, now)
}

// report hands a token in, with what became of the request. A success costs two
// atomic operations as a rule.
func (c *condition) report(t token, o outcome, now time.Duration) {
	switch {
	case t.gen == 0:
	case t.slot != 0 || o.kind == failed:
		c.pool.settle(c, t, o, now)
	case o.kind == succeeded:
		c.success(t.gen)
	}
}

func (c *condition) success(gen uint32) {
	for {
		word := c.streak.Load()
		if uint32(word>>32) != gen {
			return
		}
		if uint32(word) == 0 || c.streak.CompareAndSwap(word, uint64(gen)<<32) {
			c.passed.Add(1)
			return
		}
	}
}

// trouble returns the reason of the last change for the worse, "" if there was
// none. It is for people.
func (c *condition) trouble() string {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return c.reason
}

// The methods below need pool.mu.

func (c *condition) gen() uint32 { return uint32(c.streak.Load() >> 32) }

// renew begins a new generation: nothing counts yet.
func (c *condition) renew() {
	gen := c.gen() + 1
	if gen == 0 {
		gen = 1 // 0 is no token
	}
	c.streak.Store(uint64(gen) << 32)
	c.window, c.lookAgain = window{}, 0
}

// fail counts a failure.
func (c *condition) fail(now, window time.Duration) {
	c.streak.Add(1)
	c.window.fail(now, c.passed.Load(), window)
}

func (c *condition) record() record {
	return record{uint32(c.streak.Load()), c.window, c.passed.Load()}
}

// restart begins anew after a recovery or a start: with a warm-up, if there is
// one, and then with a small share.
func (c *condition) restart(now time.Duration, cfg *healthConfig) {
	c.renew()
	c.ejectedUntil = 0
	c.circuit.close()
	c.warming.want(cfg.warmUp.on())
	c.slow, c.slowFrom = true, now
}

// publish lets requests see what was decided.
func (c *condition) publish(now time.Duration, cfg *healthConfig) {
	f := &facts{gen: c.gen(), circuit: c.circuit.phase, circuitFree: c.circuit.freeAt(cfg.breaker)}
	switch {
	case !c.tally.up:
		f.base = StateUnhealthy
	case c.warming.pending:
		f.base = StateWarmingUp
	}
	if now < c.ejectedUntil {
		f.ejectedUntil = c.ejectedUntil
	}
	if c.slow && now-c.slowFrom < cfg.slowStart {
		f.slowFrom, f.slow = c.slowFrom, cfg.slowStart
	}
	f.plain = f.base == StateHealthy && f.ejectedUntil == 0 && f.circuit == circuitClosed && f.slow == 0
	c.facts.Store(f)
}
