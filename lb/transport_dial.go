package lb

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"
)

// attemptDelay is how long one address of a name may take before the next is
// tried beside it (RFC 8305 §8).
const attemptDelay = 250 * time.Millisecond

// learnFor is how long a new HTTP/2 connection has one request only, unless that is
// answered before. By then the origin has said how many it takes: requests beyond that
// would wait on this connection for one of the others to end, however long it takes.
const learnFor = 50 * time.Millisecond

// takes reports whether an HTTP/2 connection may be given another request.
func (c *conn) takes() bool {
	return !c.retired && !c.full && (c.streams == 0 || !c.learning.Load())
}

// learned ends the time in which c has one request only.
func (p *pool) learned(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.learning.Swap(false) && !p.closed {
		p.giveLocked(c)
		p.dialLocked()
	}
}

// dialError is a connection that wasn't made.
type dialError struct {
	failure Failure
	err     error
}

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// dialLocked starts as many dials as there are requests waiting, or a single one
// if the origin takes them all on one connection. Dials don't end with the
// request that they are for: another may use the connection.
func (p *pool) dialLocked() {
	need := p.wants.Len()
	if p.http2 && need > 0 {
		need = 1
		if slices.ContainsFunc(p.shared, func(c *conn) bool { return c.learning.Load() }) {
			need = 0 // in a moment it may take them all
		}
	}
	for p.dials < need {
		p.dials++
		go p.dial()
	}
}

// dial makes a connection and gives it to who waits.
func (p *pool) dial() {
	c, err := p.t.connect(p.ctx, false)
	var closing []*conn
	p.mu.Lock()
	p.dials--
	switch {
	case err != nil:
		p.failLocked(err)
	case p.closed || c.cc.Err() != nil:
		c.gone = true
		closing = append(closing, c)
		p.failLocked(&dialError{FailureClosed, net.ErrClosed})
	default:
		p.addLocked(c)
		p.http2 = c.http2()
		if c.http2() {
			p.shared = append(p.shared, c)
			c.learning.Store(true)
			time.AfterFunc(learnFor, func() { p.learned(c) })
			p.giveLocked(c)
		} else if !p.giveLocked(c) {
			closing = p.keepLocked(c, closing)
		}
	}
	p.dialLocked()
	p.mu.Unlock()
	shut(closing)
}

// failLocked tells those for whom no dial is under way any more.
func (p *pool) failLocked(err error) {
	for over := p.wants.Len() - p.dials; over > 0; over-- {
		e := p.wants.Front()
		p.wants.Remove(e)
		e.Value.(*want).got <- gotConn{err: err}
	}
	if p.http2 && p.t.o.Protocol != ProtocolHTTP2 {
		p.http2 = false // it may have changed
	}
}

// resolved notes the addresses that the name has. Connections to others get no
// more requests.
func (p *pool) resolved(addrs []netip.Addr) {
	var closing []*conn
	p.mu.Lock()
	for c := range p.all {
		if slices.Contains(addrs, c.remote.Addr()) {
			continue
		}
		c.retired = true
		if !c.busy && c.streams == 0 {
			closing = p.dropLocked(c, closing)
		}
	}
	p.mu.Unlock()
	shut(closing)
}

// connKey is the key of the connection in a context for [http.Transport].
type connKey struct{}

// readyConn is a DialContext that returns the connection in the context.
func readyConn(ctx context.Context, _, _ string) (net.Conn, error) {
	c, _ := ctx.Value(connKey{}).(net.Conn)
	return c, nil
}

// client returns the part of net/http that speaks HTTP on our connections.
func (o *TransportOptions) client(http2 bool) *http.Transport {
	t := &http.Transport{
		DialContext:            readyConn,
		DialTLSContext:         readyConn,
		DisableCompression:     true, // visitor and origin settle it
		MaxResponseHeaderBytes: o.MaxHeadBytes,
		ExpectContinueTimeout:  time.Second,
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
	raw, remote, err := t.dial(ctx)
	if err != nil {
		return nil, err
	}
	c := &conn{remote: remote}
	if t.target.name != "" && t.o.ConnLifetime > 0 {
		tenth := t.o.ConnLifetime / 10
		c.until = time.Now().Add(t.o.ConnLifetime - tenth + rand.N(2*tenth+1))
	}
	http2 := t.o.Protocol == ProtocolHTTP2 && !http1
	ready := raw
	if t.o.Scheme == "https" {
		tc, err := t.handshake(ctx, raw, http1)
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
		c.raw = &countedConn{Conn: ready}
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

// tlsConfig returns the configuration of handshakes.
func (t *transport) tlsConfig() *tls.Config {
	cfg := &tls.Config{}
	if t.o.TLS != nil {
		cfg = t.o.TLS.Clone()
	}
	if t.o.RootCAs != nil {
		cfg.RootCAs = t.o.RootCAs
	}
	cfg.ServerName = orDefault(orDefault(t.o.ServerName, cfg.ServerName), t.target.host())
	switch t.o.Protocol {
	case ProtocolHTTP1:
		cfg.NextProtos = []string{"http/1.1"}
	case ProtocolHTTP2:
		cfg.NextProtos = []string{"h2"}
	default:
		cfg.NextProtos = []string{"h2", "http/1.1"}
	}
	if cfg.ClientSessionCache == nil {
		cfg.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	}
	if verify := t.o.VerifyName; verify != "" && verify != cfg.ServerName {
		verifyAs(cfg, verify)
	}
	return cfg
}

// verifyAs has the certificate checked for another name than the one sent.
// crypto/tls can't, so its own check is off and the same is done here.
func verifyAs(cfg *tls.Config, name string) {
	before, roots := cfg.VerifyConnection, cfg.RootCAs
	cfg.InsecureSkipVerify = true
	cfg.VerifyConnection = func(cs tls.ConnectionState) error {
		opts := x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: x509.NewCertPool()}
		if cfg.Time != nil {
			opts.CurrentTime = cfg.Time()
		}
		if len(cs.PeerCertificates) == 0 {
			return errors.New("the origin has no certificate")
		}
		for _, cert := range cs.PeerCertificates[1:] {
			opts.Intermediates.AddCert(cert)
		}
		if _, err := cs.PeerCertificates[0].Verify(opts); err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: cs.PeerCertificates, Err: err}
		}
		if before != nil {
			return before(cs)
		}
		return nil
	}
}

// handshake does TLS on raw.
func (t *transport) handshake(ctx context.Context, raw net.Conn, http1 bool) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, t.o.TLSTimeout)
	defer cancel()
	cfg := t.tls
	if http1 {
		cfg = cfg.Clone()
		cfg.NextProtos = []string{"http/1.1"}
	}
	tc := tls.Client(raw, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	return tc, nil
}

// dial connects to the first of the origin's addresses that answers.
func (t *transport) dial(ctx context.Context) (net.Conn, netip.AddrPort, error) {
	ctx, cancel := context.WithTimeout(ctx, t.o.DialTimeout)
	defer cancel()
	addrs, err := t.target.resolve(ctx, t.o.Resolver)
	if err != nil {
		return nil, netip.AddrPort{}, &dialError{dialFailure(err), err}
	}
	if t.target.name != "" {
		t.pool.resolved(addrs)
	}
	conn, remote, err := race(ctx, addrs, t.target.port, t.o.DialContext)
	if err != nil {
		return nil, remote, &dialError{dialFailure(err), err}
	}
	return conn, remote, nil
}

// dialed is the end of a connection attempt.
type dialed struct {
	conn   net.Conn
	remote netip.AddrPort
	err    error
}

// race tries addresses one after the other, the next when one fails or is slow,
// and returns the first connection. Later ones are closed (RFC 8305 §5).
func race(ctx context.Context, addrs []netip.Addr, port uint16, dial func(context.Context, string, string) (net.Conn, error)) (net.Conn, netip.AddrPort, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan dialed, len(addrs))
	start := func(a netip.Addr) {
		remote := netip.AddrPortFrom(a, port)
		go func() {
			conn, err := dial(ctx, "tcp", remote.String())
			results <- dialed{conn, remote, err}
		}()
	}
	delay := time.NewTimer(attemptDelay)
	defer delay.Stop()
	start(addrs[0])
	next, running := 1, 1
	var first error
	for running > 0 {
		select {
		case d := <-results:
			running--
			if d.err == nil {
				go closeLate(results, running)
				return d.conn, d.remote, nil
			}
			if first == nil {
				first = d.err
			}
		case <-delay.C:
		case <-ctx.Done():
			go closeLate(results, running)
			return nil, netip.AddrPort{}, ctx.Err()
		}
		if next < len(addrs) {
			start(addrs[next])
			next, running = next+1, running+1
			delay.Reset(attemptDelay)
		}
	}
	return nil, netip.AddrPort{}, first
}

// closeLate closes the connections of n attempts that are still under way.
func closeLate(results <-chan dialed, n int) {
	for range n {
		if d := <-results; d.conn != nil {
			d.conn.Close()
		}
	}
}
