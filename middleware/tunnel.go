package middleware

import (
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
