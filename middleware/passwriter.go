package middleware

import (
	"bufio"
	"io"
	"maps"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/internal/informational"
	"github.com/weirhttp/weir/internal/rfc9110"
	"github.com/weirhttp/weir/lb"
)

// passWriter is the client's ResponseWriter with the cache's fields added to
// the head. It has the methods that handlers look for by type, each of which
// reaches the real writer however deep it's wrapped, and Unwrap for the rest.
type passWriter struct {
	x     atomic.Pointer[exchange] // nil once the handler has returned
	w     http.ResponseWriter
	asked time.Time
	wrote bool
	outer http.Header // what outer handlers had set, if the handler has
	own   http.Header // a map of its own; else nil

	permit admission.Permit
	told   bool    // what became of it has been told
	timed  bool    // the request's body isn't awaited, so that only the origin takes time
	tunnel *tunnel // the connection, if the handler has taken it over

	watch slowWatch // of the client, while it's written to
	body  *slowBody // the request's; nil if it isn't watched

	trail      *lb.Trail // what a balancer behind the handler did
	mayCapture bool
	capture    capture // nil unless the response may answer later GETs

	endless  bool // only the end of the body says how long it is
	answered bool // a stored response was the answer; the handler's isn't sent
}

var _ interface {
	http.Flusher
	http.Hijacker
	io.ReaderFrom
	io.StringWriter
} = (*passWriter)(nil)

// Unwrap is for http.ResponseController.
func (p *passWriter) Unwrap() http.ResponseWriter { return p.w }

// WriteHeader sends the head, with the cache's fields if it's the final one.
func (p *passWriter) WriteHeader(status int) {
	if rfc9110.OriginFailed(status) {
		p.tell(status)
		p.standInForHead(unanswered(p.trail))
	}
	if p.answered {
		return
	}
	if status >= 100 && status < 200 && status != http.StatusSwitchingProtocols && p.oldClient() {
		return // it knows no interim responses (RFC 9110 §15.2)
	}
	if !p.wrote {
		p.expose()
	}
	if !p.wrote && (status >= 200 || status == http.StatusSwitchingProtocols) {
		p.wrote = true
		if x := p.x.Load(); x != nil {
			p.tell(status)
			p.head(x, status)
		}
		p.endless = rfc9110.BodyAllowed(status) && len(p.w.Header()["Content-Length"]) == 0
		p.body.hurry()
		defer p.body.ease()
	}
	// An interim response is sent at once, and the final one waits for a 100 (Continue)
	// that a read of the body is sending.
	p.watch.begin(0)
	defer p.watch.end(0)
	switch {
	case status == http.StatusSwitchingProtocols:
		informational.Write(p.w, status)
	case status >= 100 && status < 200:
		p.writeInterim(status)
	default:
		p.w.WriteHeader(status)
	}
}

// writeInterim sends a 1xx response without the fields of the origin's connection, which
// httputil.ReverseProxy leaves in them. The handler may need its own for the final one.
func (p *passWriter) writeInterim(status int) {
	h := p.w.Header()
	all := maps.Clone(h)
	rfc9110.RemoveHopByHop(h)
	informational.Write(p.w, status)
	maps.Copy(h, all)
}

func (p *passWriter) Write(b []byte) (int, error) {
	p.implicit()
	if p.answered {
		return len(b), nil
	}
	n, err := p.slowWrite(b)
	if p.capture != nil {
		p.capture.add(b[:n], err)
	}
	p.count(int64(n))
	return n, err
}

// WriteString is Write without a copy where the client's writer has that.
func (p *passWriter) WriteString(s string) (int, error) {
	p.implicit()
	if p.capture != nil || p.answered || len(s) > stallPiece {
		return p.Write([]byte(s))
	}
	p.begin(0)
	n, err := io.WriteString(p.w, s)
	p.end(n)
	p.count(int64(n))
	return n, err
}

// ReadFrom hands the source to the client's writer, so that sendfile works.
func (p *passWriter) ReadFrom(src io.Reader) (int64, error) {
	p.implicit()
	if p.capture != nil || p.answered {
		return io.Copy(struct{ io.Writer }{p}, src)
	}
	rf, ok := p.w.(io.ReaderFrom)
	if ok && p.watch.window <= 0 && (p.body == nil || !p.body.wanted()) {
		n, err := rf.ReadFrom(src)
		p.count(n)
		return n, err
	}
	if ok {
		if n, err, isFile := p.copyFile(rf, src); isFile {
			p.count(n)
			return n, err
		}
	}
	buf := copyBuffers.Get().(*[32 << 10]byte)
	defer copyBuffers.Put(buf)
	n, err := io.CopyBuffer(watchedWriter{p}, src, buf[:])
	p.count(n)
	return n, err
}

// Flush sends what is buffered.
func (p *passWriter) Flush() { _ = p.FlushError() }

// FlushError is Flush for http.ResponseController.
func (p *passWriter) FlushError() error {
	p.implicit()
	if p.capture != nil {
		p.capture.flushed()
	}
	p.begin(0)
	defer p.end(0)
	return http.NewResponseController(p.w).Flush()
}

// SetReadDeadline is for http.ResponseController.
func (p *passWriter) SetReadDeadline(t time.Time) error {
	err := http.NewResponseController(p.w).SetReadDeadline(t)
	if err == nil {
		p.body.setOwn(t)
	}
	return err
}

// Hijack takes over the connection.
func (p *passWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(p.w).Hijack()
	if err == nil {
		p.endless = false // nobody's but the handler's
		p.body.done()
	}
	if err == nil {
		p.permit.Answered() // unless it told something before
		if h := p.takeOver(); h != nil {
			p.tunnel = newTunnel(conn, h)
			conn, rw = p.tunnel, p.tunnel.buffered(rw)
		}
	}
	if err == nil && !p.wrote {
		p.wrote = true // no head comes after that, but for what the handler writes
		if x := p.x.Load(); x != nil {
			x.setStatus(p.Header(), make([]string, ownFields)) // httputil.ReverseProxy sends it
		}
	}
	return conn, rw, err
}

// tell tells an adaptive ceiling how the origin answered, unless it's known already.
func (p *passWriter) tell(status int) {
	if x := p.x.Load(); x != nil && !p.told {
		p.told = true
		tellStatus(x.r.Context(), p.permit, status, p.timed)
	}
}

func (p *passWriter) implicit() {
	if !p.wrote {
		p.WriteHeader(http.StatusOK)
	}
}

func (p *passWriter) oldClient() bool {
	x := p.x.Load()
	return x != nil && !x.r.ProtoAtLeast(1, 1)
}

func (p *passWriter) count(n int64) {
	if x := p.x.Load(); x != nil {
		x.rec.BytesSent += n
	}
}

// finish adds the fields to a response that the handler left to net/http.
func (p *passWriter) finish() {
	x := p.x.Load()
	switch {
	case p.wrote:
		p.exposeTrailers()
	case x.r.Context().Err() != nil:
		// It may have given up, which says nothing about what is stored.
		p.expose()
		x.setStatus(p.w.Header(), make([]string, ownFields))
	default:
		p.wrote = true
		p.expose()
		p.tell(http.StatusOK)
		p.head(x, http.StatusOK)
	}
}

// head looks at the final head and adds the fields to it.
func (p *passWriter) head(x *exchange, status int) {
	if p.mayCapture {
		p.capture = x.capture(status, p.Header())
	}
	x.passedHead(status, p.w.Header(), p.Header())
}

// release gives the permit back, and lets go of the exchange, which is reused: a
// handler that keeps the writer must not reach another request's.
func (p *passWriter) release() {
	if p.tunnel != nil {
		p.tunnel.returned()
	} else {
		p.permit.Release()
	}
	p.x.Store(nil)
}
