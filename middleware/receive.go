package middleware

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/weirhttp/weir/trace"
)

// Defaults of [AdmissionOptions].
const (
	DefaultBodyBuffer  = 64 << 10
	DefaultBodyBuffers = 32 << 20
)

// bodyRoom bounds what the bodies take that are read before their requests' permits are
// asked for.
type bodyRoom struct {
	each int64
	left atomic.Int64
}

// newBodyRoom returns nil where none is to be read.
func (o *AdmissionOptions) newBodyRoom() *bodyRoom {
	if o.Limiter == nil || o.BodyBuffer < 0 {
		return nil
	}
	all := o.BodyBuffers
	if all == 0 {
		all = DefaultBodyBuffers
	}
	each := o.BodyBuffer
	if each == 0 {
		each = int(min(DefaultBodyBuffer, all))
	}
	r := &bodyRoom{each: int64(each)}
	r.left.Store(all)
	return r
}

// checkBodies refuses sizes that contradict each other.
func (o *AdmissionOptions) checkBodies(bad *problems) {
	const each, all = "Admission.BodyBuffer", "Admission.BodyBuffers"
	switch {
	case o.Limiter == nil && (o.BodyBuffer != 0 || o.BodyBuffers != 0):
		bad.add(each, o.BodyBuffer, "has no effect without Admission.Limiter, nor has BodyBuffers; set that too, or leave these out")
	case o.BodyBuffers < 0:
		bad.add(all, o.BodyBuffers, "must not be negative; leave it 0 for 32 MiB, or set BodyBuffer to -1 to read no body first")
	case o.BodyBuffer < 0 && o.BodyBuffers > 0:
		bad.add(all, o.BodyBuffers, "has no effect, since BodyBuffer is off; leave it out")
	case o.BodyBuffer > 0 && o.BodyBuffers == 0 && o.BodyBuffer > DefaultBodyBuffers:
		bad.add(each, o.BodyBuffer, fmt.Sprintf("is above the default of Admission.BodyBuffers (%d); set that too, or lower this", DefaultBodyBuffers))
	case o.BodyBuffers > 0 && int64(o.BodyBuffer) > o.BodyBuffers:
		bad.add(each, o.BodyBuffer, fmt.Sprintf("is above Admission.BodyBuffers (%d), which all bodies share; lower it, or raise that", o.BodyBuffers))
	}
}

// take reports whether there is room for a body of n bytes, and takes it.
func (b *bodyRoom) take(n int64) bool {
	if b == nil || n <= 0 || n > b.each {
		return false
	}
	if b.left.Add(-n) < 0 {
		b.left.Add(n)
		return false
	}
	return true
}

// receivedBody is a request's body that was read before the wrapped handler runs.
type receivedBody struct {
	body io.ReadCloser // the client's
	room *bodyRoom
	size int64 // of the room taken

	mu     sync.Mutex // a transport may close it while it reads
	data   []byte
	err    error // after data; nil: body goes on
	closed bool
}

// Read is net/http's: data, then its end.
func (b *receivedBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	switch {
	case b.closed:
		b.mu.Unlock()
		return 0, http.ErrBodyReadAfterClose
	case len(b.data) > 0:
		n := copy(p, b.data)
		b.data = b.data[n:]
		b.mu.Unlock()
		return n, nil
	case b.err != nil:
		b.mu.Unlock()
		return 0, b.err
	}
	b.mu.Unlock()
	return b.body.Read(p)
}

// Close is the client's body's own too.
func (b *receivedBody) Close() error {
	b.mu.Lock()
	b.closed, b.data = true, nil
	b.mu.Unlock()
	return b.body.Close()
}

// whole reports whether the client has nothing more to send.
func (b *receivedBody) whole() bool { return b != nil && b.err == io.EOF }

// release puts the request's own body back, and gives the room back.
func (b *receivedBody) release(r *http.Request) {
	if b != nil {
		r.Body = b.body
		b.room.left.Add(b.size)
	}
}

// receiveBody reads the request's body, if it's declared to be small and there's room
// for it: a client that sends slowly holds no permit meanwhile, and one that goes away
// while it's queued is noticed, as net/http notices after a body's end only. It returns
// nil and true if the wrapped handler is to read it from the client. If ok is false the request
// has been answered, since its body didn't come.
func (x *exchange) receiveBody(status trace.Status) (_ *receivedBody, ok bool) {
	r, g := x.r, x.h.governor
	if g == nil || r.Body == nil || r.Body == http.NoBody || x.facts&(hasUpgrade|hasEventStream) != 0 || !g.bodies.take(r.ContentLength) {
		return nil, true
	}
	b := &receivedBody{body: r.Body, room: g.bodies, size: r.ContentLength}
	defer func() {
		if !ok {
			b.release(r) // also if an outer handler's body panics
		}
	}()
	slow := x.watchBody(r)
	defer slow.release()               // if the body panics
	b.data = make([]byte, 0, b.size+1) // so that the end is seen, too
	for b.err == nil && len(b.data) < cap(b.data) {
		var n int
		n, b.err = slow.Read(b.data[len(b.data):cap(b.data)])
		b.data = b.data[:len(b.data)+n]
	}
	slow.handOn() // to the handler's watch, or the refusal sees to the rest
	if refuse := clientsFault(r, slow, b.err); refuse != 0 {
		x.rec.Outcome, x.rec.ForwardReason, x.rec.Cache.Status = trace.ClientGone, trace.ForwardNone, status
		x.refuse(refuse, whyBodyFault)
		return nil, false
	}
	r.Body = b
	return b, true
}

// clientsFault is the status for a body that the client didn't send, 0 if it's there or
// it's an outer handler that refuses it: the wrapped one hears of that.
func clientsFault(r *http.Request, slow *slowBody, err error) int {
	switch {
	case err == nil || err == io.EOF:
		return 0
	case slow.cutOff() || isTimeout(err):
		return http.StatusRequestTimeout
	case errors.Is(err, io.ErrUnexpectedEOF) || isNet(err) || r.Context().Err() != nil:
		return http.StatusBadRequest
	}
	return 0
}

func isNet(err error) bool {
	_, ok := errors.AsType[net.Error](err)
	return ok
}
