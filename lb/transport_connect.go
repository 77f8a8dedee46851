package lb

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// connKey is the key of the connection in a context for [http.Transport].
type connKey struct{}

// readyConn is a DialContext that returns the connection in the context.
func readyConn(ctx context.Context, _, _ string) (net.Conn, error) {
	c, _ := ctx.Value(connKey{}).(net.Conn)
	return c, nil
}

// client returns the part of net/http that speaks HTTP on our connections.
func (o *TransportOptions) client(http2 bool) *http.Transport {
	patience := time.Second // with an origin that doesn't say 100 (Continue)
	if o.BodyIdle > 0 {
		patience = min(patience, o.BodyIdle/2) // or it would seem not to take the body
	}
	t := &http.Transport{
		DialContext:            readyConn,
		DialTLSContext:         readyConn,
		DisableCompression:     true, // visitor and origin settle it
		MaxResponseHeaderBytes: o.MaxHeadBytes,
		ExpectContinueTimeout:  patience,
		Protocols:              new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: 15 * time.Second, // else a dead peer is never noticed
			PingTimeout:     15 * time.Second,
			// A connection that takes nothing at all would block all its requests.
			WriteByteTimeout: max(o.BodyIdle, 0),
		},
	}
	t.Protocols.SetHTTP1(!http2)
	if http2 {
		t.Protocols.SetHTTP2(o.Scheme == "https")
		t.Protocols.SetUnencryptedHTTP2(o.Scheme == "http")
	}
	return t
}

// connect makes a connection that is ready for requests.
func (t *transport) connect(ctx context.Context, http1 bool) (*conn, error) {
	began := time.Now()
	raw, remote, err := t.dial(ctx)
	if err != nil {
		return nil, err
	}
	c := &conn{remote: remote, took: time.Since(began)}
	if t.target.name != "" && t.o.ConnLifetime > 0 {
		tenth := t.o.ConnLifetime / 10
		c.until = time.Now().Add(t.o.ConnLifetime - tenth + rand.N(2*tenth+1))
	}
	http2 := t.o.Protocol == ProtocolHTTP2 && !http1
	s := newSocket(raw, t.o.Scheme == "https")
	ready := net.Conn(s)
	if t.o.Scheme == "https" {
		tc, err := t.handshake(ctx, s, http1)
		if err != nil {
			raw.Close()
			return nil, &dialError{tlsFailure(err), err}
		}
		state := tc.ConnectionState()
		if http2 = state.NegotiatedProtocol == "h2"; t.o.Protocol == ProtocolHTTP2 && !http1 && !http2 {
			raw.Close()
			return nil, &dialError{FailureTLS, errors.New("the origin doesn't take HTTP/2")}
		}
		ready, c.tls = tc, &state
	}
	client := t.http2
	if !http2 {
		s.guard(func() { t.pool.settled(c) })
		c.raw = &countedConn{Conn: ready, socket: s, onLost: c.lost}
		ready, client = c.raw, t.http1
	}
	c.cc, err = client.NewClientConn(context.WithValue(ctx, connKey{}, ready), t.o.Scheme, t.target.authority())
	if err != nil {
		raw.Close()
		return nil, &dialError{FailureProtocol, err}
	}
	c.cc.SetStateHook(func(cc *http.ClientConn) {
		if cc.Err() != nil {
			t.pool.died(c)
		}
	})
	return c, nil
}
