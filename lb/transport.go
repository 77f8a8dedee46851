package lb

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"time"
)

var errTransportClosed = errors.New("the transport is closed")

// transport sends requests to one origin. It keeps connections and sends every
// request at most once: what fails is reported as a [TransportError], and whether
// to try again is the caller's decision. The one exception can't be seen by an
// origin: a kept connection that is found closed before a byte of the request
// was written is replaced by another one.
//
// It is built on http.ClientConn, one connection each. http.Transport would
// repeat requests by itself when a kept connection breaks, and keep connections
// to addresses that a name has long lost.
type transport struct {
	o      TransportOptions
	target target
	tls    *tls.Config
	http1  *http.Transport // makes connections only
	http2  *http.Transport
	pool   pool

	silence silence
}

// attemptInfo is what an attempt tells about itself, also when it succeeds.
type attemptInfo struct {
	// Remote is where the connection goes to.
	Remote netip.AddrPort
	// Reused says that the connection had carried a request before.
	Reused bool
}

// newTransport makes the transport of an origin: an IP address or a name, with or
// without a port. It connects on demand.
func newTransport(address string, o TransportOptions) (*transport, error) {
	o, err := o.resolve("")
	g, addrErr := parseTarget(address, o.Scheme)
	if addrErr != nil {
		err = errors.Join(err, &ConfigError{"Address", address, addrErr.Error()})
	}
	if err != nil {
		return nil, err
	}
	t := &transport{o: o, target: g}
	if o.Scheme == "https" {
		t.tls = t.tlsConfig()
	}
	t.http1, t.http2 = o.client(false), o.client(true)
	t.pool.init(t)
	return t, nil
}

// Close refuses requests from now on and closes the connections, those in use
// when their requests are done. Calling it again does nothing.
func (t *transport) Close() error {
	t.pool.close()
	return nil
}

// RoundTrip sends a request to the origin, as http.RoundTripper wants. URL.Scheme
// and URL.Host of the request don't matter, but Host is sent as it is, or
// URL.Host if it is empty.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.roundTrip(req, false, nil)
}

// roundTrip is RoundTrip. If fresh is set, it makes a new connection; that is for
// the second attempt after a stale one. It fills in info if that isn't nil.
func (t *transport) roundTrip(req *http.Request, fresh bool, info *attemptInfo) (*http.Response, error) {
	x := t.exchange(req)
	if err := unsendableHere(&x.req); err != nil {
		x.send.finish()
		return nil, &TransportError{Origin: t.target.authority(), Failure: FailureRequest, Err: err}
	}
	ctx := req.Context()
	acquire := t.pool.acquire
	upgrade := x.req.Header["Upgrade"] != nil && !t.silence.mute(time.Now())
	if upgrade {
		acquire = t.pool.acquireHTTP1
	}
	for {
		c, reused, err := acquire(ctx, fresh)
		if upgrade && t.o.Protocol != ProtocolHTTP1 && isTLSFailure(err) && ctx.Err() == nil {
			// Maybe it has HTTP/2 only, and can't say so but by this.
			upgrade, acquire = false, t.pool.acquire
			continue
		}
		if err != nil {
			x.send.finish()
			return nil, t.acquireError(ctx, err)
		}
		if c.http2() && x.req.Header["Upgrade"] != nil {
			x.req.Header = withoutUpgrade(x.req.Header)
		}
		if info != nil {
			*info = attemptInfo{Remote: c.remote, Reused: reused}
		}
		if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.GotConn != nil {
			trace.GotConn(httptrace.GotConnInfo{Reused: reused})
		}
		res, failed := x.run(ctx, c, reused)
		if failed == nil {
			x.send.let()
			return res, nil
		}
		if reused && !failed.Wrote && failed.Failure == FailureClosed && x.send.withdraw() {
			x = t.exchange(req) // not the same one, which may still be looked after
			continue            // nobody saw it; connections kept are finite, so this ends
		}
		failed.excused = failed.excused || upgrade && t.silence.failed(c, failed, time.Now())
		x.send.finish()
		return nil, failed
	}
}

// exchange prepares a request for the origin, without touching the caller's.
func (t *transport) exchange(req *http.Request) *exchange {
	x := &exchange{t: t, req: *req, orig: req}
	if req.URL != nil {
		x.url = *req.URL
	} else {
		x.url = url.URL{Path: "/"}
	}
	x.req.URL = &x.url
	switch {
	case t.o.Host != "":
		x.req.Host = t.o.Host
	case req.Host == "":
		x.req.Host = x.url.Host // if that is empty too, net/http takes URL.Host
	}
	x.url.Scheme, x.url.Host = t.o.Scheme, t.target.authority()
	if x.req.Header == nil {
		x.req.Header = http.Header{}
	}
	if t.o.Protocol == ProtocolHTTP2 && x.req.Header["Upgrade"] != nil {
		x.req.Header = withoutUpgrade(x.req.Header)
	}
	x.req.Header = trimmed(x.req.Header)
	x.req.GetBody = nil
	x.req.Close = false // the connection is ours
	if req.Body != nil && req.Body != http.NoBody {
		x.send.set(x, req.Body)
		x.req.Body = &x.send
		if len(req.Trailer) > 0 { // the body's end fills it
			x.req.Trailer = maps.Clone(req.Trailer)
		}
	} else {
		x.flags.Store(sent)
	}
	return x
}

// isTLSFailure reports whether a handshake failed.
func isTLSFailure(err error) bool {
	de, ok := errors.AsType[*dialError](err)
	return ok && de.failure == FailureTLS
}

// acquireError tells why there is no connection.
func (t *transport) acquireError(ctx context.Context, err error) *TransportError {
	e := &TransportError{Origin: t.target.authority(), Err: err}
	var de *dialError
	switch {
	case ctx.Err() != nil: // a dial that ends for that doesn't speak against the origin
		e.Failure, e.Err = FailureCanceled, ctx.Err()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			e.Failure = FailureDeadline
		}
	case errors.As(err, &de):
		e.Failure, e.Err = de.failure, de.err
	case errors.Is(err, errTransportClosed):
		e.Failure = FailureShutdown
	default:
		e.Failure = FailureCanceled
	}
	return e
}
