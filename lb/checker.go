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

// update follows an update of the pool's health.
func (k *checker) update(cfg *healthConfig, members []member, conditions []*condition) {
	// TODO
}

// close stops all checks and warm-ups, and waits until they have ended or ctx has.
func (k *checker) close(ctx context.Context) error { return nil }
