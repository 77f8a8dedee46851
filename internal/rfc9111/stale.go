package rfc9111

import "time"

// StaleIfError says whether a stored response may be served because the origin
// failed, answered with a 5xx, or couldn't be asked (RFC 5861 §4): if it is
// still fresh, or within the window that the origin, the route or the request
// gives. must-revalidate, proxy-revalidate and no-cache forbid it, and s-maxage
// forbids what only the request asks for.
func StaleIfError(l *Life, req RequestDirectives, p *Policy, now time.Time) (bool, Reason) {
	ttl := l.TTL(now)
	switch {
	case l.NoCache:
		return false, ResponseNoCache
	case ttl > 0:
		return true, Fresh
	case l.MustRevalidate:
		return false, ForbiddenStale
	}
	window := l.StaleIfError
	if (req.Has&^p.IgnoreRequest)&RequestStaleIfError != 0 && !l.SharedMaxAge {
		window = max(window, req.StaleIfError)
	}
	switch {
	case window <= 0 && l.SharedMaxAge:
		return false, SharedLifetimeOver
	case window <= 0:
		return false, StaleNotAllowed
	case -ttl > window:
		return false, TooStale
	}
	return true, WithinStaleIfError
}

// StaleOnDisconnect says whether a stored response may be served because the
// origin can't be reached or its connection broke before a head arrived. Beyond
// what [StaleIfError] allows, RFC 9111 §4.2.4 lets a disconnected cache serve
// what nothing forbids to serve stale; here up to Policy.StaleOnDisconnect.
// s-maxage forbids it too.
//
// An answer with an error status is no disconnection: the origin has spoken.
func StaleOnDisconnect(l *Life, req RequestDirectives, p *Policy, now time.Time) (bool, Reason) {
	ok, r := StaleIfError(l, req, p, now)
	if ok || l.NoCache || l.MustRevalidate || l.SharedMaxAge {
		return ok, r
	}
	limit := bound(p.StaleOnDisconnect, DefaultStaleOnDisconnect)
	if limit < 0 {
		return false, r
	}
	if -l.TTL(now) > limit {
		return false, TooStale
	}
	return true, OriginUnreachable
}
