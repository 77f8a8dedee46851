package middleware

import (
	"net"
	"net/http"
	"time"
)

// cut sees to it that a body that broke off doesn't look whole: nothing more
// reaches the client, even if an outer handler recovers from all panics. HTTP/1.0
// ends a body without a length with the connection (RFC 9112 §6.3), so that a close
// would look like its end; a reset is an error to every reader. Later protocols say
// by themselves that a body is incomplete.
func cut(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0))
	if r.ProtoMajor == 1 && r.ProtoMinor == 0 {
		reset(w)
	}
}

// reset resets the connection of an HTTP/1 client. On a connection whose wrapper
// hides the SetLinger of the TCP connection it's only a close.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // it's not net/http's own connection, or somebody else's already
	}
	// Under TLS the connection inside is closed first, so that the alert that says
	// that all has been sent never gets out.
	if raw := innermost(conn); raw != conn {
		linger(raw)
		_ = raw.Close()
	}
	linger(conn)
	_ = conn.Close() // wrappers free here what they hold
}

// innermost is the connection under TLS and other layers.
func innermost(conn net.Conn) net.Conn {
	for {
		layer, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		inner := layer.NetConn()
		if inner == nil {
			return conn
		}
		conn = inner
	}
}

// linger makes a later close a reset.
func linger(conn net.Conn) {
	if tcp, ok := conn.(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(0)
	}
}
