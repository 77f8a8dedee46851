package lb

import (
	"context"
	"sync"
	"time"
)

// maxWarming is how many origins of a pool are warmed up at once.
const maxWarming = 64

// checker runs the active checks and warm-ups of a pool. There is a timer for each
// origin, and a goroutine only while its check is under way, so a check that hangs
// delays no other.
type checker struct {
	health *health
	slots  chan struct{} // for warm-ups

	mu      sync.Mutex
	ctx     context.Context // of all checks
	cancel  context.CancelFunc
	watches map[*condition]*watch
	updates uint64
	wg      sync.WaitGroup
	closed  bool
}

// watch is one origin's checks. All but cond is guarded by checker.mu.
type watch struct {
	checker    *checker
	cond       *condition
	member     member
	timer      *time.Timer
	checking   bool // a check is on, by the settings of the last update
	busy       bool // a run is under way
	again      bool // another was asked for meanwhile
	gone       bool
	runs       uint64
	ctx        context.Context
	cancel     context.CancelFunc
	stopWarmUp context.CancelFunc // nil if none runs
}

func (k *checker) init(h *health) {
	k.health = h
	k.slots = make(chan struct{}, maxWarming)
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.watches = map[*condition]*watch{}
}

// update follows an update of the pool's health: checks of members that are gone
// are cancelled, those of new ones begin, spread over the fast interval.
func (k *checker) update(cfg *healthConfig, members []member, conditions []*condition) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.updates++
	before := k.watches
	k.watches = make(map[*condition]*watch, len(members))
	for i, c := range conditions {
		w := before[c]
		if w == nil {
			w = &watch{checker: k, cond: c}
			w.ctx, w.cancel = context.WithCancel(k.ctx)
		}
		k.watches[c] = w
		back := members[i].inRotation && !w.member.inRotation
		begins := cfg.check.on() && !w.checking
		w.member, w.checking = members[i], cfg.check.on()
		w.member.given = k.updates
		if !w.member.inRotation && w.stopWarmUp != nil {
			w.stopWarmUp()
		}
		switch {
		case begins:
			w.arm(spread(k.health.seedOf(c.id), cfg.check.FastInterval))
		case back && cfg.warmUp.on():
			w.arm(0)
		}
	}
	for c, w := range before {
		if k.watches[c] == nil {
			w.end()
		}
	}
}

// close stops all checks and warm-ups, and waits until they have ended or ctx has.
func (k *checker) close(ctx context.Context) error {
	k.mu.Lock()
	k.closed = true
	for _, w := range k.watches {
		w.end()
	}
	k.cancel()
	k.mu.Unlock()
	ended := make(chan struct{})
	go func() { k.wg.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// arm sets the timer of the next run. It needs checker.mu.
func (w *watch) arm(d time.Duration) {
	switch {
	case w.gone || w.checker.closed:
	case w.timer == nil:
		w.timer = time.AfterFunc(d, w.run)
	default:
		w.timer.Reset(d)
	}
}

// end ends the watch for good. It needs checker.mu.
func (w *watch) end() {
	w.gone = true
	w.cancel()
	if w.timer != nil {
		w.timer.Stop()
	}
}

// run is what the timer starts: a check, and a warm-up if one is due after it.
func (w *watch) run() {
	k, h := w.checker, w.checker.health
	k.mu.Lock()
	if w.gone || k.closed || w.busy {
		w.again = w.busy
		k.mu.Unlock()
		return
	}
	w.busy = true
	w.runs++
	m, runs := w.member, w.runs
	k.wg.Add(1)
	k.mu.Unlock()
	defer k.wg.Done()

	cfg, began := h.cfg.Load(), h.now()
	var next time.Duration // 0: none
	if cfg.check.on() {
		next = w.check(cfg, m, began, runs)
	} else {
		next = w.warmUp(cfg, m)
	}

	k.mu.Lock()
	defer k.mu.Unlock()
	w.busy = false
	switch {
	case w.again:
		w.again = false
		w.arm(0)
	case next > 0:
		w.arm(next)
	}
}

// check runs one active check and returns how long to wait for the next.
func (w *watch) check(cfg *healthConfig, m member, began time.Duration, runs uint64) time.Duration {
	h := w.checker.health
	problem, shut := cfg.check.run(w.ctx, m, cfg.hosts)
	switch {
	case w.ctx.Err() != nil:
		return 0 // cancelled: no result, and no next one
	case shut && w.replaced(m):
		return 1
	case shut:
		return cfg.check.FastInterval
	}
	up := h.checked(w.cond, problem, h.now())
	switch {
	case !up:
		w.cancelWarmUp()
	case problem == "":
		w.warmUp(cfg, m)
	}
	interval := cfg.check.Interval
	if h.checkSoon(w.cond) {
		interval = cfg.check.FastInterval
	}
	interval = jittered(h.seedOf(w.cond.id)+runs, interval)
	// One that takes longer than the interval must not be followed by the next
	// without a pause.
	return max(interval-(h.now()-began), interval/10)
}

// replaced reports whether an update has replaced m meanwhile.
func (w *watch) replaced(m member) bool {
	w.checker.mu.Lock()
	defer w.checker.mu.Unlock()
	return w.member.given != m.given
}

// run sends one check and says what is wrong with the origin, or "". If shut is
// true it was our side that shut the connection down, and there is no result.
func (c HealthCheck) run(ctx context.Context, m member, hosts []string) (problem string, shut bool) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	req, err := c.request(ctx, m, hosts)
	if err != nil {
		return clipped(err.Error()), false
	}
	resp, err := m.send(req)
	switch {
	case err == nil:
		return c.judge(resp), false
	case FailureOf(err) == FailureShutdown:
		return "", true
	case ctx.Err() != nil:
		return "no answer within " + c.Timeout.String(), false
	}
	return clipped(err.Error()), false
}

// jittered is d give or take a tenth, the same for the same seed.
func jittered(seed uint64, d time.Duration) time.Duration {
	return d - d/10 + spread(seed, d/5)
}

// spread is something from 0 to d, the same for the same seed.
func spread(seed uint64, d time.Duration) time.Duration {
	// The finalizer of SplitMix64: neighbouring seeds give unrelated values.
	seed += 0x9e3779b97f4a7c15
	seed = (seed ^ seed>>30) * 0xbf58476d1ce4e5b9
	seed = (seed ^ seed>>27) * 0x94d049bb133111eb
	seed ^= seed >> 31
	return time.Duration(seed % uint64(d+1))
}
