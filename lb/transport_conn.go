package lb

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"
)

// countedConn counts what goes over an HTTP/1 connection, above TLS. It keeps back
// what wasn't asked for.
type countedConn struct {
	net.Conn
	socket    *socket
	sent, got atomic.Int64
	lost      atomic.Bool // a read failed
	onLost    func()      // what is called then
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.socket.came(n, err) {
		n, err = 0, errUnsolicited
	}
	if n > 0 {
		c.got.Add(int64(n))
	}
	if err != nil {
		c.lost.Store(true)
		c.onLost()
	}
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	if err := c.socket.startWrite(); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if n > 0 {
		c.sent.Add(int64(n))
	}
	return n, err
}

func (c *countedConn) Close() error {
	c.socket.end()
	return c.Conn.Close()
}

// CloseWrite ends the direction to the origin, as tunnels want.
func (c *countedConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return c.Conn.Close()
}

// conn is a connection in the pool.
type conn struct {
	cc     *http.ClientConn
	raw    *countedConn // of HTTP/1; nil for HTTP/2
	remote netip.AddrPort
	tls    *tls.ConnectionState // of HTTP/1; net/http tells it for HTTP/2
	took   time.Duration        // to connect
	until  time.Time            // no new requests then; zero for never

	// current is the exchange of an HTTP/1 connection, for its timer.
	current atomic.Pointer[exchange]
	timer   *time.Timer
	armed   atomic.Bool

	// The rest is the pool's, under its lock.
	idleAt  int       // the sweep after which it had no request
	busy    bool      // HTTP/1: it has a request, or is settling
	settles bool      // HTTP/1: its request is over, but something may be left to read
	streams int       // HTTP/2: its requests
	full    bool      // HTTP/2: it takes no more for now
	used    bool      // it had a request before
	retired bool      // no new requests
	gone    bool      // not in the pool any more
	lacking time.Time // when the name's addresses began to lack remote's; zero: they have it

	// resets is how many requests of an HTTP/2 connection ended before their
	// responses. It is written under the pool's lock.
	resets atomic.Int32

	// learning is set while a new HTTP/2 connection's limits aren't known. It is
	// written under the pool's lock.
	learning atomic.Bool

	// tunnel is set before the release when the connection belongs to the owner of
	// a 101 response's body. net/http lets go of it in a goroutine of its own, and a
	// Close before that would cut the tunnel.
	tunnel atomic.Bool
}

// lost is called when an HTTP/1 origin sends nothing any more.
func (c *conn) lost() {
	if x := c.current.Load(); x != nil {
		x.send.interrupt()
	}
}

// http2 reports whether the connection takes many requests at once.
func (c *conn) http2() bool { return c.raw == nil }

// displaced reports whether the name's answers have lacked c's address for too long.
func (c *conn) displaced(now time.Time) bool {
	return !c.lacking.IsZero() && now.Sub(c.lacking) >= addressGrace
}

// takes reports whether an HTTP/2 connection may be given another request.
func (c *conn) takes() bool {
	return !c.retired && !c.full && (c.streams == 0 || !c.learning.Load())
}

// silent reports whether an HTTP/1 connection's origin didn't choose that protocol.
func (c *conn) silent() bool { return c.tls != nil && c.tls.NegotiatedProtocol == "" }

// Visitors who leave become resets of streams. Many origins end a connection that
// brings too many of them, with everybody's requests: after 1,000 (nghttp2), 500
// (Envoy) or 200 in 30 s (Netty).
const (
	maxResets  = 100 // then the connection gets no more requests
	someResets = 10  // then its end may be for them
)

// fedUp reports whether an HTTP/2 origin ended the connection, and maybe for resets.
// It may choose any code for that.
func (c *conn) fedUp(err error) bool {
	return c.http2() && c.resets.Load() >= someResets && strings.Contains(err.Error(), "GOAWAY")
}
