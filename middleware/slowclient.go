package middleware

import (
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// unreadPatience is how long the rest of a body is awaited that the handler didn't
// read: net/http reads it so that the connection can serve the next request, and holds
// the answer back meanwhile.
const unreadPatience = 5 * time.Second

// serverOf returns the net/http server that a request came over, or nil if it's
// another kind of server, whose connections are its own affair.
func serverOf(r *http.Request) *http.Server {
	srv, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	return srv
}

// slowBody is a request's body whose client must make progress. It may be read on
// another goroutine than the handler's.
type slowBody struct {
	io.ReadCloser
	w       http.ResponseWriter
	drained bool // by the server, if the handler doesn't read all of it
	watch   slowWatch

	mu       sync.Mutex
	own      time.Time     // the handler's own deadline; zero if it has none
	expected time.Duration // in which the client has to take the 100 (Continue) that the first read sends; 0: none, or no limit
	sending  bool          // a deadline is set for that
	over     bool          // a read has come to the end, or the connection is the handler's
	fault    error         // that a read has failed with
	hurried  bool          // a deadline is set for what is left
	released bool          // the handler has returned
}

// watchBody makes the client of a request that is passed on send its body, unless the
// server sees to that, and remembers whether it did. The caller calls release when the
// handler has returned. It's nil if there's no body.
func (x *exchange) watchBody(r *http.Request) *slowBody {
	cfg := x.h.cfg
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	b := &slowBody{ReadCloser: r.Body, w: x.w}
	if received, ok := r.Body.(*receivedBody); ok && received.whole() {
		b.over = true
		return b
	}
	srv := serverOf(r)
	if srv != nil && srv.WriteTimeout <= 0 && r.ProtoMajor == 1 && len(r.Header["Expect"]) > 0 {
		b.expected = max(0, cfg.StallTimeout)
	}
	if cfg.BodyTimeout <= 0 || srv == nil || srv.ReadTimeout > 0 {
		return b
	}
	b.drained = r.ProtoMajor == 1
	b.watch.window, b.watch.enough = cfg.BodyTimeout, 1
	if cfg.BodyRate > 0 {
		b.watch.enough = max(1, int64(float64(cfg.BodyRate)*cfg.BodyTimeout.Seconds()))
	}
	b.watch.cut = func() { b.deadline(time.Unix(1, 0)) }
	return b
}

func (b *slowBody) deadline(t time.Time) {
	_ = http.NewResponseController(b.w).SetReadDeadline(t)
}

func (b *slowBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	if b.hurried && !b.released {
		b.hurried = false
		b.deadline(b.own)
	}
	first := b.expected > 0
	if first {
		b.sending = true
		b.writeDeadline(time.Now().Add(b.expected))
		b.expected = 0
	}
	b.mu.Unlock()
	b.watch.begin(0)
	n, err := b.ReadCloser.Read(p)
	b.watch.end(n)
	if first || err != nil {
		b.mu.Lock()
		b.sent()
		if err == io.EOF {
			b.over = true
		} else if b.fault == nil {
			b.fault = err
		}
		b.mu.Unlock()
	}
	return n, err
}

func (b *slowBody) writeDeadline(t time.Time) {
	_ = http.NewResponseController(b.w).SetWriteDeadline(t)
}

// sent takes the deadline of the 100 (Continue) back. The caller holds b.mu.
func (b *slowBody) sent() {
	if b.sending {
		b.sending = false
		b.writeDeadline(time.Time{})
	}
}

// readFault is what reading from the client failed with, nil if it didn't.
func (b *slowBody) readFault() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fault
}

// Close is the body's own, which reads what is left as net/http does. It says nothing
// about net/http's own body, if this is an outer handler's.
func (b *slowBody) Close() error {
	b.hurry()
	defer b.ease()
	return b.ReadCloser.Close()
}

// done says that the connection is the handler's: no deadline is set from now on.
func (b *slowBody) done() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over, b.sending = true, false
}

// hurry is called before net/http may read what is left of a body, as it does over
// HTTP/1 when the head of the answer is sent: in the first write or flush that sends
// something. A read that waits already is watched anyway. The caller calls ease then.
func (b *slowBody) hurry() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = 0
	b.sent() // what is written from now on is the answer, which has a watch of its own
	if b.drained && !b.released && !b.watch.waits() {
		b.limitRest()
	}
}

// ease takes the deadline back that hurry has set. At the end of its own body, which an
// outer handler may have read without the wrapped one seeing an end of its, net/http
// reads on to notice that the client leaves: a deadline would look like that, and cancel
// the request.
func (b *slowBody) ease() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hurried && !b.released {
		b.hurried = false
		b.deadline(b.own)
	}
}

// limitRest sets the deadline for what is left, unless nothing is or the client has been
// cut off. The caller holds b.mu.
func (b *slowBody) limitRest() {
	if !b.over && !b.watch.late() {
		b.hurried = true
		t := time.Now().Add(unreadPatience)
		if !b.own.IsZero() && b.own.Before(t) {
			t = b.own
		}
		b.deadline(t)
	}
}

// setOwn notes a deadline that the handler has set itself: no later one takes its place.
func (b *slowBody) setOwn(t time.Time) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.own = t
}

// release ends the watch. A read that still waits then, a transport's that has had an
// early answer from its origin, holds up net/http, which sends the answer after it: so
// it has no longer than if net/http read itself. Over HTTP/2 the handler's return ends
// it.
func (b *slowBody) release() {
	b.mu.Lock()
	if b.drained && !b.released {
		b.limitRest()
	}
	b.released, b.expected = true, 0
	b.mu.Unlock()
	b.watch.stop()
}

// handOn ends the watch of a body that others see to from now on: what is left may take
// as long as they let it.
func (b *slowBody) handOn() {
	b.mu.Lock()
	b.released = true
	b.mu.Unlock()
	b.watch.stop()
}

// wanted reports whether net/http would wait for more of the body.
func (b *slowBody) wanted() bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.over
}

// cutOff reports whether the client was too slow.
func (b *slowBody) cutOff() bool { return b != nil && b.watch.late() }

// watchWrites makes the client of a request that is passed on take the answer.
func (p *passWriter) watchWrites(x *exchange) {
	d := x.h.cfg.StallTimeout
	if srv := serverOf(x.r); d <= 0 || srv == nil || srv.WriteTimeout > 0 {
		return
	}
	p.watch.window, p.watch.enough = d, stallPiece
	p.watch.cut = func() { _ = http.NewResponseController(p.w).SetWriteDeadline(time.Unix(1, 0)) }
}

// watchRequestBody puts the watch into the handler's request. What it returns is to be
// called when the handler has returned. The request itself is changed, not a copy: a
// server removes the files of a form that it finds in its own.
func (p *passWriter) watchRequestBody(x *exchange, r *http.Request) (release func()) {
	b := x.watchBody(r)
	if b == nil {
		return func() {}
	}
	p.body, r.Body = b, b
	return func() {
		r.Body = b.ReadCloser
		b.release()
	}
}

// begin is called before the client's writer is used for the answer, end after it, with
// how much was written.
func (p *passWriter) begin(n int) {
	p.body.hurry()
	p.watch.begin(n)
}

func (p *passWriter) end(n int) {
	p.watch.end(n)
	p.body.ease()
}

// watchedWriter has nothing but a Write.
type watchedWriter struct{ p *passWriter }

func (w watchedWriter) Write(b []byte) (int, error) { return w.p.slowWrite(b) }

// slowWrite writes to a client that must make progress, if it's watched.
func (p *passWriter) slowWrite(b []byte) (n int, err error) {
	size := stallPiece
	if p.watch.window <= 0 {
		size = max(len(b), 1)
	}
	for first := true; err == nil && (first || len(b) > 0); first = false {
		piece := b[:min(len(b), size)]
		p.begin(0)
		var k int
		k, err = p.w.Write(piece)
		p.end(k)
		n, b = n+k, b[len(piece):]
	}
	return n, err
}

// copyFile hands a file to the client's writer, so that the system copies it. It
// returns false if src is none, or there's no limit to keep.
func (p *passWriter) copyFile(dst io.ReaderFrom, src io.Reader) (n int64, err error, ok bool) {
	limited, isLimited := src.(*io.LimitedReader)
	file := src
	if isLimited {
		file = limited.R
	}
	if f, isFile := file.(*os.File); !isFile || !regular(f) || p.watch.window <= 0 {
		return 0, nil, false
	}
	for {
		piece := io.LimitedReader{R: file, N: storedPiece}
		if isLimited {
			piece.N = min(piece.N, limited.N)
		}
		asked := piece.N
		if asked <= 0 {
			return n, nil, true
		}
		p.begin(int(asked))
		k, err := dst.ReadFrom(&piece)
		p.end(int(k))
		n += k
		if isLimited {
			limited.N -= asked - piece.N
		}
		if err != nil || k < asked {
			return n, err, true
		}
	}
}

func regular(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}
