package middleware

import (
	"sync"
	"time"
)

// slowWatch cuts off a client that keeps the server waiting. Only the time counts
// that a call waits for the client, not what the handler takes between two calls, and
// a client that gets enough done has all the time again. Deadlines of the connection
// can't say that: over HTTP/2 one that passes between two calls ends the stream.
//
// Its calls come from one goroutine; the timer's is another. The zero value watches
// nothing.
type slowWatch struct {
	window time.Duration // in which the client must get enough done; 0: no limit
	enough int64         // bytes
	cut    func()        // makes the call that waits fail

	mu      sync.Mutex
	timer   *time.Timer
	armed   bool      // the timer runs
	since   time.Time // when the call under way began to wait; zero if there is none
	grace   time.Duration
	waited  time.Duration // in this window
	done    int64         // in this window
	expired bool          // the client was cut off
	stopped bool
}

// begin says that a call for n bytes may wait now. A call for many has more time,
// since nobody sees how far it is.
func (w *slowWatch) begin(n int) {
	if w.window <= 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since, w.grace = time.Now(), w.window*time.Duration(n/storedPiece)
	if w.armed || w.expired || w.stopped {
		return
	}
	w.armed = true
	left := w.left(w.since)
	if w.timer == nil {
		w.timer = time.AfterFunc(left, w.fire)
	} else {
		w.timer.Reset(left)
	}
}

// end says that the call has n bytes.
func (w *slowWatch) end(n int) {
	if w.window <= 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waited += time.Since(w.since)
	w.since = time.Time{}
	if w.done += int64(n); w.done >= w.enough {
		w.waited, w.done = 0, 0
	}
}

// left is how long the call under way may still wait.
func (w *slowWatch) left(now time.Time) time.Duration {
	return w.window + w.grace - w.waited - now.Sub(w.since)
}

// fire is the timer's function. The timer runs on over calls that didn't wait: a
// new one for each would cost more than it tells.
func (w *slowWatch) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	switch left := w.left(time.Now()); {
	case w.since.IsZero():
		w.armed = false
	case left > 0:
		w.timer.Reset(left)
	default:
		w.armed, w.expired = false, true
		w.cut()
	}
}

// waits reports whether a call waits for the client.
func (w *slowWatch) waits() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.since.IsZero()
}

// late reports whether the client was cut off.
func (w *slowWatch) late() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.expired
}

// stop ends the watch.
func (w *slowWatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
}
