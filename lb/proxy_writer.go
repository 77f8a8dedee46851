package lb

import (
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/weirhttp/weir/internal/informational"
)

// flushDelay is how long a head, or the end of a full buffer, waits for more of
// the body to go out with it.
const flushDelay = time.Millisecond

// writer passes a response on and flushes it: at once what comes in pieces, and
// not at all what is complete.
type writer struct {
	http.ResponseWriter
	before http.Header // what was in the header at the beginning
	early  bool        // a tunnel begins with what the server has read already

	mu      sync.Mutex
	left    int64 // of the body; negative when unknown
	flushes bool  // the body wants flushing
	pending bool  // a flush is due when the timer fires
	timer   *time.Timer
}

func (w *writer) begin(under http.ResponseWriter) {
	w.ResponseWriter = under
	if h := under.Header(); len(h) > 0 {
		w.before = maps.Clone(h)
	}
}

func (w *writer) end() {
	w.mu.Lock()
	w.stopLocked()
	w.ResponseWriter, w.before, w.early, w.flushes = nil, nil, false, false
	w.mu.Unlock()
}

// stop sees to it that nothing is flushed any more, nor is being flushed.
func (w *writer) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flushes = false
	w.stopLocked()
}

// Unwrap returns the writer below.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// FlushError flushes.
func (w *writer) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flushLocked()
}

// expect says which response comes.
func (w *writer) expect(res *http.Response) {
	w.mu.Lock()
	w.left = res.ContentLength
	w.flushes = res.Body != nil && res.Body != http.NoBody
	w.mu.Unlock()
}

// restore puts back what was in the header at the beginning.
func (w *writer) restore(h http.Header) {
	clear(h)
	maps.Copy(h, w.before)
}

// WriteHeader sends a head. The last one waits a moment for the body.
func (w *writer) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if status < 200 {
		informational.Write(w.ResponseWriter, status)
		return
	}
	if w.ResponseWriter.WriteHeader(status); w.flushes {
		w.laterLocked()
	}
}

// Write sends a part of the body.
func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.ResponseWriter.Write(p)
	if err != nil || !w.flushes {
		return n, err
	}
	if w.left > 0 {
		if w.left -= int64(n); w.left <= 0 {
			w.flushes = false
			w.stopLocked()
			return n, nil
		}
	}
	if n == bufferSize {
		w.laterLocked() // there is more where that came from
		return n, nil
	}
	return n, w.flushLocked()
}

func (w *writer) flushLocked() error {
	w.stopLocked()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *writer) laterLocked() {
	if w.pending {
		return
	}
	w.pending = true
	if w.timer == nil {
		w.timer = time.AfterFunc(flushDelay, w.flushDue)
		return
	}
	w.timer.Reset(flushDelay)
}

func (w *writer) stopLocked() {
	if w.pending {
		w.pending = false
		w.timer.Stop()
	}
}

// flushDue is the timer's call. It may be late, when another response is under
// way: flushing that one early does no harm.
func (w *writer) flushDue() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending {
		w.pending = false
		http.NewResponseController(w.ResponseWriter).Flush()
	}
}
