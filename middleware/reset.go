package middleware

import (
	"net"
	"net/http"
)

// resetOldClient resets the connection of a client of HTTP/1.0 whose body is to
// be cut. Without a length that protocol ends a body with the connection, so a
// close would make a cut body look whole (RFC 9112 §8); a reset is an error to
// every reader. Later protocols say by themselves that a body is incomplete.
func resetOldClient(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 || r.ProtoMinor != 0 {
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // it's not net/http's own connection, or somebody else's already
	}
	// Under TLS, the connection itself is closed, without the alert that says that
	// all has been sent.
	raw := conn
	for {
		inner, ok := raw.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		raw = inner.NetConn()
	}
	if tcp, ok := raw.(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(0)
	}
	_ = raw.Close()
}
