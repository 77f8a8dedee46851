package middleware

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/weirhttp/weir/admission"
)

// holding is what a connection that a handler has taken over holds.
type holding struct {
	permit admission.Permit
	token  admission.Token
	client clientToken
	once   sync.Once
}

// takeOver takes what p's request holds; nil if that is nothing.
func (p *passWriter) takeOver() *holding {
	h := &holding{permit: p.permit}
	if x := p.x.Load(); x != nil {
		h.token, h.client = x.token, x.inFlight
		x.token, x.inFlight = admission.Token{}, clientToken{}
	}
	if h.permit == (admission.Permit{}) && h.token == (admission.Token{}) && h.client == (clientToken{}) {
		return nil
	}
	return h
}

// release gives it back; only the first call does something.
func (h *holding) release() {
	h.once.Do(func() {
		h.permit.Release()
		h.token.Leave()
		h.client.leave()
	})
}

// tunnel is a connection that a handler has taken over. What it holds is given back when
// it's closed and the handler has returned, or when nobody has it any more. It hides
// what is inside, which NetConn returns, as with a tls.Conn.
type tunnel struct {
	net.Conn
	holds  *holding
	closed atomic.Bool
	left   atomic.Bool
}

func newTunnel(conn net.Conn, h *holding) *tunnel {
	t := &tunnel{Conn: conn, holds: h}
	runtime.AddCleanup(t, (*holding).release, h)
	return t
}

// buffered is rw over t, with what rw has read already: whoever keeps only that keeps
// the tunnel too.
func (t *tunnel) buffered(rw *bufio.ReadWriter) *bufio.ReadWriter {
	if rw == nil || rw.Reader == nil || rw.Writer == nil { // no net/http
		return rw
	}
	if rw.Writer.Buffered() > 0 {
		_ = rw.Flush() // the next write has the same error
	}
	n := rw.Reader.Buffered()
	read, _ := rw.Peek(n)
	r := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(bytes.Clone(read)), t), max(rw.Reader.Size(), n))
	_, _ = r.Peek(n) // handlers ask how much is buffered
	return bufio.NewReadWriter(r, bufio.NewWriterSize(t, rw.Writer.Size()))
}

// NetConn returns the connection itself.
func (t *tunnel) NetConn() net.Conn { return t.Conn }

// CloseWrite ends what is sent, where the connection can.
func (t *tunnel) CloseWrite() error {
	if c, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return t.Close()
}

// Close closes the connection.
func (t *tunnel) Close() error {
	t.closed.Store(true)
	if t.left.Load() {
		t.holds.release()
	}
	return t.Conn.Close()
}

// returned says that the handler has returned.
func (t *tunnel) returned() {
	t.left.Store(true)
	if t.closed.Load() {
		t.holds.release() // a second time perhaps
	}
}
