package rfc9111

import "time"

// Use says how a stored response may be used for a request.
type Use uint8

const (
	// UseValidate: not before the origin has validated it. A request with
	// only-if-cached gets a 504 instead.
	UseValidate Use = iota
	// UseFresh: as it is.
	UseFresh
	// UseStaleWhileRevalidate: as it is, while one request in the background
	// refreshes it.
	UseStaleWhileRevalidate
	// UseStale: as it is, because the client accepts it.
	UseStale
	// UsePass: not at all. The request goes to the origin and its answer is
	// neither stored nor used to freshen what is.
	UsePass
)

// String returns a short name.
func (u Use) String() string {
	switch u {
	case UseValidate:
		return "validate"
	case UseFresh:
		return "fresh"
	case UseStaleWhileRevalidate:
		return "stale while revalidate"
	case UseStale:
		return "stale"
	case UsePass:
		return "pass"
	}
	return "unknown"
}

// Verdict is the answer to whether a stored response may be used.
type Verdict struct {
	Use    Use
	Reason Reason
	TTL    time.Duration // how long it stays fresh; negative: for how long it has been stale
}

// Judge says how a stored response may be used for a request with the given
// directives (RFC 9111 §4, §4.2, §5.2.1). Whether the request may have it at all
// is for [MayReuse] to say. It allocates nothing.
func Judge(l *Life, req RequestDirectives, p *Policy, now time.Time) Verdict {
	ttl := l.TTL(now)
	if has := req.Has &^ p.IgnoreRequest; has != 0 {
		return judgeAsked(l, &req, has, ttl)
	}
	switch {
	case l.NoCache:
		return Verdict{UseValidate, ResponseNoCache, ttl}
	case ttl > 0:
		return Verdict{UseFresh, Fresh, ttl}
	}
	return judgeStale(l, ttl, -1)
}

// judgeAsked is Judge for a request with directives. Not all of them concern
// what is stored.
func judgeAsked(l *Life, req *RequestDirectives, has RequestFlags, ttl time.Duration) Verdict {
	age := l.Lifetime - ttl
	switch {
	case has&RequestNoStore != 0:
		return Verdict{UsePass, NoStoreRequested, ttl}
	case l.NoCache:
		return Verdict{UseValidate, ResponseNoCache, ttl}
	case has&RequestNoCache != 0:
		return Verdict{UseValidate, NoCacheRequested, ttl}
	case has&RequestMaxAge != 0 && (age > req.MaxAge || req.MaxAge == 0):
		// A reload doesn't concern what is fresh and immutable (RFC 8246 §2).
		if req.MaxAge > 0 || !l.Immutable || ttl <= 0 {
			return Verdict{UseValidate, OlderThanRequested, ttl}
		}
	}
	if has&RequestMinFresh != 0 && ttl < req.MinFresh {
		return Verdict{UseValidate, NotFreshLongEnough, ttl}
	}
	if ttl > 0 {
		return Verdict{UseFresh, Fresh, ttl}
	}
	accepts := time.Duration(-1)
	if has&RequestMaxStale != 0 {
		accepts = req.MaxStale
	} else if has&(RequestMaxAge|RequestMinFresh) != 0 {
		// Who gives an age and no max-stale wants nothing stale (§5.2.1.1).
		return Verdict{UseValidate, Expired, ttl}
	}
	return judgeStale(l, ttl, accepts)
}

// judgeStale judges a stale response for a client that accepts one that is
// stale for as long; negative if it said nothing.
func judgeStale(l *Life, ttl, accepts time.Duration) Verdict {
	switch {
	case l.MustRevalidate:
		return Verdict{UseValidate, ForbiddenStale, ttl}
	case l.mayBeStale(ttl, l.StaleWhileRevalidate):
		return Verdict{UseStaleWhileRevalidate, WithinStaleWhileRevalidate, ttl}
	case accepts < 0:
		return Verdict{UseValidate, Expired, ttl}
	case l.SharedMaxAge:
		return Verdict{UseValidate, SharedLifetimeOver, ttl}
	case -ttl > accepts:
		return Verdict{UseValidate, TooStale, ttl}
	}
	return Verdict{UseStale, WithinMaxStale, ttl}
}
