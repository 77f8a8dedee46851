package flight

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// Verdict is what a flight decided.
type Verdict uint8

const (
	// Shared: everyone attached gets the value.
	Shared Verdict = iota + 1
	// Released: the value is the leader's alone; waiters go their own way.
	Released
)

// Keep says whether a flight goes on when nobody is attached any more.
type Keep uint8

const (
	KeepUnknown  Keep = iota // the head isn't known: go on
	KeepStorable             // the response may be stored: go on
	KeepNot                  // only its clients want it: cancel
)

// Flight is one fetch and those attached to it. Safe for concurrent use.
type Flight[T any] struct {
	g    *Group[T]
	key  Key
	lane Lane

	place  int // in the shard's list, or -1; under the shard's lock
	doomed atomic.Bool

	decided chan struct{} // closed by Decide

	mu       sync.Mutex
	closed   bool // takes no further waiters
	verdict  Verdict
	value    T
	attached int
	pending  int    // attached and not arrived yet
	arrived  func() // what to do when pending is zero
	keep     Keep
	cancel   context.CancelCauseFunc
	finished bool
	level    uint8  // how urgent the fetch is; without a raiser, those attached
	raiser   Raiser // nil unless the fetch can be raised

	background bool // nobody was ever to wait for it
	orphan     bool // counted in the group's orphans
}

// ErrAbandoned is the cause of the cancellation of a fetch whose clients have
// all left and whose response isn't to be stored.
var ErrAbandoned = errors.New("flight: every client has left")

func (g *Group[T]) newFlight(k Key, lane Lane) *Flight[T] {
	return &Flight[T]{g: g, key: k, lane: lane, place: -1, decided: make(chan struct{}), attached: 1}
}

// join attaches a further request, under the shard's lock.
func (f *Flight[T]) join() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.finished || f.verdict == Released {
		return false
	}
	f.adopted()
	f.attached++
	if f.verdict != 0 {
		f.pending++
	}
	return true
}

// Key returns the key that was claimed.
func (f *Flight[T]) Key() Key { return f.key }

// Lane returns the lane in which the leader claimed the key.
func (f *Flight[T]) Lane() Lane { return f.lane }

// Doomed reports whether the key was purged since the flight began: what it
// fetched must not be stored.
func (f *Flight[T]) Doomed() bool { return f.doomed.Load() }

// OnAbandon sets the function that cancels the fetch, and calls it if the
// flight has been abandoned already. The leader calls it before the fetch
// starts.
func (f *Flight[T]) OnAbandon(cancel context.CancelCauseFunc) {
	f.mu.Lock()
	f.cancel = cancel
	cancel = f.toCancel()
	f.mu.Unlock()
	if cancel != nil {
		cancel(ErrAbandoned)
	}
}

// Raiser is a fetch that can be made more urgent while it waits for its turn.
type Raiser interface{ Raise(level uint8) }

// OnRaise says how urgent the fetch is, and what makes it more so: it's called, for
// each who is, until the flight has ended, and at once if one has come already. It
// may be called by many goroutines, and with what it knows.
func (f *Flight[T]) OnRaise(level uint8, r Raiser) {
	f.mu.Lock()
	before := f.level
	f.level, f.raiser = level, r
	f.mu.Unlock()
	if before > level {
		r.Raise(before)
	}
}

// Raise says how urgent it is for the caller, who is attached: 0, or more.
func (f *Flight[T]) Raise(level uint8) {
	f.mu.Lock()
	r := f.raiser
	more := level > f.level
	if r == nil {
		f.level = max(f.level, level)
	}
	f.mu.Unlock()
	if more && r != nil {
		r.Raise(level)
	}
}

// Decide publishes the verdict and the value. Only the first call counts; it
// reports whether it was the one. A released flight takes no more waiters, but
// Forget finds it until it has finished. allArrived, which may be nil, is
// called once when all who are attached, those who join meanwhile included,
// have called Arrive or left: until then the body must be kept from its
// beginning.
func (f *Flight[T]) Decide(v Verdict, value T, allArrived func()) bool {
	f.mu.Lock()
	if f.verdict != 0 {
		f.mu.Unlock()
		return false
	}
	f.verdict, f.value = v, value
	f.pending, f.arrived = f.attached, allArrived
	call := f.takeArrived()
	f.mu.Unlock()
	close(f.decided)
	call()
	return true
}

// takeArrived returns what is to be called without the lock if nobody is
// pending.
func (f *Flight[T]) takeArrived() func() {
	if f.pending > 0 || f.arrived == nil {
		return func() {}
	}
	call := f.arrived
	f.arrived = nil
	return call
}

// Arrive says that the caller, who is attached, has what it needs of the
// decision: its own reader of the body, say. Called at most once, after Decided.
func (f *Flight[T]) Arrive() {
	f.mu.Lock()
	f.pending--
	call := f.takeArrived()
	f.mu.Unlock()
	call()
}

// CloseToWaiters lets nobody join any more: late comers couldn't get the body
// from its first byte.
func (f *Flight[T]) CloseToWaiters() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
}

// SetKeep says whether the fetch goes on without clients, and cancels it if
// it shouldn't and none is left.
func (f *Flight[T]) SetKeep(k Keep) {
	f.mu.Lock()
	f.keep = k
	cancel := f.toCancel()
	f.mu.Unlock()
	if cancel != nil {
		cancel(ErrAbandoned)
	}
}

// Leave detaches the caller. Each Leader and Waiter calls it once, and says
// whether it has called Arrive.
func (f *Flight[T]) Leave(arrived bool) {
	f.mu.Lock()
	f.attached--
	call := func() {}
	if f.verdict != 0 && !arrived {
		f.pending--
		call = f.takeArrived()
	}
	cancel := f.toCancel()
	if cancel == nil && !f.mayBeOrphan() {
		f.closed, cancel = true, f.cancel
	}
	f.mu.Unlock()
	call()
	if cancel != nil {
		cancel(ErrAbandoned)
	}
}

// Background says that nobody waits for the flight: it's a refresh, and goes on
// without clients whatever their number.
func (f *Flight[T]) Background() {
	f.mu.Lock()
	f.background = true
	f.mu.Unlock()
}

// mayBeOrphan reports whether the flight may go on, and counts it if nobody is
// attached any more.
func (f *Flight[T]) mayBeOrphan() bool {
	if f.attached > 0 || f.finished || f.background || f.orphan {
		return true
	}
	if f.g.orphans.Add(1) > MaxOrphans {
		f.g.orphans.Add(-1)
		return false
	}
	f.orphan = true
	return true
}

// adopted takes back mayBeOrphan.
func (f *Flight[T]) adopted() {
	if f.orphan {
		f.orphan = false
		f.g.orphans.Add(-1)
	}
}

// toCancel returns the function to cancel the fetch with, if it's time to,
// and closes the flight to newcomers.
func (f *Flight[T]) toCancel() context.CancelCauseFunc {
	if f.attached > 0 || f.keep != KeepNot || f.finished {
		return nil
	}
	f.closed = true
	return f.cancel
}

// Attached returns the number of clients attached now.
func (f *Flight[T]) Attached() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.attached
}

// Decided is closed once there's a verdict.
func (f *Flight[T]) Decided() <-chan struct{} { return f.decided }

// Result returns the verdict and the value. It may be called only after
// Decided is closed.
func (f *Flight[T]) Result() (Verdict, T) {
	return f.verdict, f.value // published by the close of decided
}

// Finish ends the flight: the fetch is over, and what it fetched has been
// stored or not. Later requests find it in the store or lead anew. A flight
// that hasn't decided yet releases its waiters with the value.
func (f *Flight[T]) Finish(value T) {
	f.Decide(Released, value, nil)
	f.mu.Lock()
	f.adopted()
	f.finished = true
	f.mu.Unlock()
	f.g.unlist(f)
}
