package lb

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
)

// link is the connections to one origin. It outlives options that don't concern
// it.
type link struct {
	settings TransportOptions // as configured
	target   target
	visitors *transport
	checks   *transport // of health checks on another port; nil: visitors
	port     uint16     // theirs, 0 if there are none
}

// newLink makes the connections' keeper; it connects on demand.
func newLink(oc *originConfig, checkPort int) (*link, error) {
	l := &link{settings: oc.transport, target: oc.target, port: uint16(checkPort)}
	var err error
	l.visitors, err = newTransport(oc.target.authority(), oc.transport)
	if err == nil && checkPort != 0 && l.port != oc.target.port {
		other := oc.target
		other.port = l.port
		l.checks, err = newTransport(other.authority(), oc.transport)
	}
	return l, err
}

// fits reports whether the link is what newLink would make.
func (l *link) fits(oc *originConfig, checkPort int) bool {
	return l.target == oc.target && l.port == uint16(checkPort) && sameTransport(l.settings, oc.transport)
}

// sameTransport compares settings; functions are the same if they are the same
// code, which for closures is as near as one can get.
func sameTransport(a, b TransportOptions) bool {
	if reflect.ValueOf(a.DialContext).Pointer() != reflect.ValueOf(b.DialContext).Pointer() {
		return false
	}
	a.DialContext, b.DialContext = nil, nil
	if a.TLS != b.TLS || a.RootCAs != b.RootCAs {
		return false
	}
	a.TLS, b.TLS, a.RootCAs, b.RootCAs = nil, nil, nil, nil
	return reflect.DeepEqual(a, b)
}

// close refuses requests that come from now on. Those under way go on.
func (l *link) close() {
	l.visitors.Close()
	if l.checks != nil {
		l.checks.Close()
	}
}

// member is what the pool's health wants to know of an origin.
func (s *server) member() member {
	l := s.link
	return member{
		id: s.key, inRotation: s.admin == StateHealthy, host: s.host,
		base: &url.URL{Scheme: l.visitors.o.Scheme, Host: l.target.authority()},
		send: func(req *http.Request) (*http.Response, error) {
			if l.checks != nil && req.URL.Host != l.target.authority() {
				return l.checks.RoundTrip(req)
			}
			return l.visitors.RoundTrip(req)
		},
	}
}

// remote is where an attempt went to, for people.
func (i *attemptInfo) remote() string {
	if i.Remote == (netip.AddrPort{}) {
		return ""
	}
	return i.Remote.String()
}

// retryable reports what kind of failure err is, and whether it is certain that
// the origin hasn't seen anything of the request.
func retryable(err error) (e *TransportError, unseen bool) {
	if te, ok := errors.AsType[*TransportError](err); ok {
		return te, !te.Wrote || te.Failure == FailureRejected
	}
	return &TransportError{Failure: FailureOf(err), Wrote: true, Err: err}, false
}
