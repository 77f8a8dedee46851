package middleware

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// writeWatch cuts off a client that doesn't take what an exchange writes in one call.
// A write deadline for each would say the same, but it costs a hit too much, and over
// HTTP/2 one that is forgotten resets a stream on which nothing is to be sent.
//
// A write takes no lock and, but for one in each stall timeout, touches no timer: the
// timer goes on over writes that didn't wait, and looks whether one is late when it
// fires. It's the exchange's, so it may outlive a request, and then finds another one's
// write or none. It ends by itself within a stall timeout.
type writeWatch struct {
	cutOff func() bool // makes the write that waits fail; false if it can't

	// due is when the write under way is late, or one of the values below.
	due atomic.Int64
	// armed is when the timer fires that looks after the exchange; 0 if there's none.
	// A timer that was armed for another time has nothing to say any more.
	armed atomic.Int64

	mu  sync.Mutex // held while a write is cut off
	cut bool       // the write under way was cut off
}

const (
	noWrite  = 0 // no write is under way
	cutWrite = 1 // the write under way is being cut off; end has to wait for that
	someTime = 2 // set in each time, so that it's none of these
)

// watchStart is what the watch's times count from.
var watchStart = time.Now()

func watchTime() int64 { return int64(time.Since(watchStart)) | someTime }

// begin says that a write may wait now, for as long as after; 0 and less: for ever.
func (w *writeWatch) begin(after time.Duration) {
	if after <= 0 {
		return
	}
	now := watchTime()
	due := (now + int64(after)) | someTime
	w.due.Store(due)
	if at := w.armed.Load(); at <= now || at > due {
		w.arm(at, due)
	}
}

// end says that the write has returned. It reports whether the client was cut off.
func (w *writeWatch) end() bool {
	if w.due.Swap(noWrite) != cutWrite {
		return false
	}
	w.mu.Lock() // until the timer is done with the client's writer
	defer w.mu.Unlock()
	w.due.Store(noWrite)
	cut := w.cut
	w.cut = false
	return cut
}

// arm has a new timer look at the write at that time, in place of the one of before.
// A new one, since one that was made in a bubble of synctest is good for no other.
func (w *writeWatch) arm(before, at int64) {
	if w.armed.CompareAndSwap(before, at) {
		time.AfterFunc(time.Duration(at-watchTime()), func() { w.fire(at) })
	}
}

// fire is the function of the timer that was armed for at.
func (w *writeWatch) fire(at int64) {
	for w.armed.Load() == at {
		due := w.due.Load()
		switch now := watchTime(); {
		case due == noWrite:
			if w.armed.CompareAndSwap(at, 0) {
				// A write that began just before that has relied on this timer.
				if due = w.due.Load(); due != noWrite {
					w.arm(0, due)
				}
			}
			return
		case due > now:
			w.arm(at, due)
			return
		case due == cutWrite || w.cutLate(due): // an older timer, held up, may have been first
			w.armed.CompareAndSwap(at, 0)
			return
		}
	}
}

// cutLate cuts off the write that is due, unless it has returned meanwhile. That the
// state says so first keeps the exchange from being reused before it's done.
func (w *writeWatch) cutLate(due int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.due.CompareAndSwap(due, cutWrite) {
		return false
	}
	w.cut = w.cutOff()
	return true
}

// cutWriter cuts off the client, unless the server's WriteTimeout bounds the response.
func (x *exchange) cutWriter() bool {
	if srv := serverOf(x.r); srv != nil && srv.WriteTimeout > 0 {
		return false
	}
	return http.NewResponseController(x.w).SetWriteDeadline(time.Unix(1, 0)) == nil
}

// flush sends what is buffered to a client that must take it. One that doesn't has its
// connection, or over HTTP/2 its stream, closed for writing.
func (x *exchange) flush() {
	x.writing.begin(x.h.cfg.StallTimeout)
	_ = http.NewResponseController(x.w).Flush() // a writer that can't is one that doesn't buffer
	x.writing.end()
}
