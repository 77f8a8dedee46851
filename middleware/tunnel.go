package middleware

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"runtime"
	"sync/atomic"

	"github.com/weirhttp/weir/admission"
)

// tunnel is a connection that a handler has taken over. Its permit is given back when
// it's closed and the handler has returned, or when nobody has it any more. It hides
// what is inside, which NetConn returns, as with a tls.Conn.
type tunnel struct {
	net.Conn
	permit admission.Permit
	closed atomic.Bool
	left   atomic.Bool
}

func newTunnel(conn net.Conn, p admission.Permit) *tunnel {
	t := &tunnel{Conn: conn, permit: p}
	runtime.AddCleanup(t, admission.Permit.Release, p)
	return t
}

// buffered is rw over t, with what rw has read already: whoever keeps only that keeps
// the permit too.
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
		t.permit.Release()
	}
	return t.Conn.Close()
}

// returned says that the handler has returned.
func (t *tunnel) returned() {
	t.left.Store(true)
	if t.closed.Load() {
		t.permit.Release() // a second time perhaps, which does nothing
	}
}
