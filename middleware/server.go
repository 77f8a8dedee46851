package middleware

import (
	"context"
	"net"
	"net/http"
	"time"
)

// Defaults of [ServerOptions].
const (
	DefaultHeadTimeout = 30 * time.Second
	DefaultIdleTimeout = 2 * time.Minute
)

// ServerOptions configure what [NewServer] makes.
type ServerOptions struct {
	// Addr is the server's Addr. Empty means ":http", or ":https" with TLS.
	Addr string
	// HeadTimeout is how long the head of a request may take to arrive, TLS handshake
	// included. 0 means DefaultHeadTimeout (30 s); negative means no limit.
	HeadTimeout time.Duration
	// IdleTimeout is how long a connection is kept without a request. 0 means
	// DefaultIdleTimeout (2 min), longer than the load balancers in front keep theirs:
	// who closes first must be the one who sends. Negative means no limit.
	IdleTimeout time.Duration
}

const (
	// pingAfter is how long an HTTP/2 connection with requests may be silent before
	// its client is asked whether it's there; pingTimeout is how long it has to answer.
	// This bounds a head that comes in drops too: it has to be whole first.
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
	// writeByteTimeout is how long an HTTP/2 connection may take nothing.
	writeByteTimeout = 60 * time.Second
	// unsentLimit is how much of an answer the kernel may hold that it can't send yet.
	// A quarter of it cost hits of 64 KiB 5 % of their CPU, this costs nothing.
	unsentLimit = 512 << 10
)

// NewServer returns a server that bounds how long a client may make no progress, and
// lets it take as long as it makes some: it has limits for the head of a request and
// for idle connections, and none in total (ReadTimeout, WriteTimeout). The bodies are
// watched by the [Middleware] in front of the handler: see Options.BodyTimeout and
// Options.StallTimeout. On Linux its ConnContext has the kernel keep no more than 512
// KiB of an answer unsent, so that a slow client's progress is seen; one that replaces it
// may call it. Everything else of the server is the caller's to set.
//
// One wait has no limit. The last bytes of an answer, up to 4 KiB, are in net/http's
// buffers when the handler returns, and are sent after it. A client that doesn't take
// them, over HTTP/2 one that grants no window and answers pings, holds its connection
// and a goroutine, but no permit or token of the middleware's any more. Only
// WriteTimeout bounds that, which bounds long answers too.
func NewServer(h http.Handler, o ServerOptions) *http.Server {
	limit := func(d, def time.Duration) time.Duration {
		if d == 0 {
			return def
		}
		return d // net/http takes a negative one as none
	}
	return &http.Server{
		Addr:              o.Addr,
		Handler:           h,
		ReadHeaderTimeout: limit(o.HeadTimeout, DefaultHeadTimeout),
		IdleTimeout:       limit(o.IdleTimeout, DefaultIdleTimeout),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			limitUnsent(conn)
			return ctx
		},
		HTTP2: &http.HTTP2Config{
			SendPingTimeout:  pingAfter,
			PingTimeout:      pingTimeout,
			WriteByteTimeout: writeByteTimeout,
		},
	}
}
