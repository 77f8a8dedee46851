package rfc9111

import "time"

// Defaults of the zero [Policy].
const (
	// DefaultHeuristicMax bounds heuristic lifetimes.
	DefaultHeuristicMax = time.Hour
	// DefaultErrorMax bounds the lifetime that an origin gives its own 5xx: an
	// error that is stored by mistake must die soon.
	DefaultErrorMax = time.Minute
	// DefaultStaleOnDisconnect bounds how stale a response may be that is
	// served because the connection to the origin broke.
	DefaultStaleOnDisconnect = 24 * time.Hour
)

// DefaultTargets are the targeted fields (RFC 9213) that count when
// Policy.Targets is nil, in order of precedence. Not to be changed.
var DefaultTargets = []string{"Weir-Cache-Control", "Cdn-Cache-Control"}

// Policy holds the resolved choices of a route. The zero value is the safe
// default: it keeps to the RFCs and is stricter where they allow what can leak.
// A Policy is not changed once it is in use, and may then be shared.
//
// What Decide takes from it is fixed in the [Life] of a response when it is
// stored; later changes reach what is stored only by a purge.
type Policy struct {
	// Targets are the targeted fields to heed, in order of precedence, in
	// canonical form. nil means DefaultTargets; empty means none.
	Targets []string

	// AuthorizationByRFC stores responses to requests with Authorization where
	// RFC 9111 §3.5 allows it, and reuses stored responses for such requests.
	// By default neither happens.
	AuthorizationByRFC bool
	// IgnoreCookies asserts that request cookies don't shape responses, or
	// that those that do are in the key. By default a request with a Cookie
	// takes part only in responses that are explicitly shared, or of a static
	// type with explicit freshness.
	IgnoreCookies bool
	// StoreSetCookie stores responses that carry Set-Cookie, and the field with
	// them: everyone gets the cookie of the first. This is how sessions leak.
	StoreSetCookie bool
	// HeuristicForAll gives a heuristic lifetime to every response that RFC 9111
	// §4.2.2 allows one. By default only successful ones of static types get one.
	HeuristicForAll bool
	// HeuristicMax bounds heuristic lifetimes. 0 means DefaultHeuristicMax,
	// negative means that there are none.
	HeuristicMax time.Duration
	// StoreStale stores responses that are stale on arrival and have no
	// validator, for requests that accept them (max-stale) and for when the
	// origin is away. By default they aren't worth the room.
	StoreStale bool
	// ShareOnce lets requests that waited for a response have it although it is
	// stale on arrival or says nothing about freshness, if nothing marks it as
	// private.
	ShareOnce bool
	// ByExtension says that the route was chosen by the extension of the path
	// (*.css), so that its choices hold only for responses whose type fits.
	ByExtension bool

	// TTLByStatus gives the lifetime of responses with exactly this status,
	// counted from receipt, whatever the origin says about freshness. 0 or less
	// means never fresh.
	TTLByStatus map[int]time.Duration
	// TTLByClass is the same for classes: [2] for 2xx. 0 means unset, negative
	// means never fresh. Of the 4xx it reaches 404, 410 and 451
	// only: the others a client can provoke.
	TTLByClass [6]time.Duration
	// Floor and Ceiling bound the lifetimes that the origin gives or that are
	// heuristic. 0 or less means no bound. The floor raises only what is above
	// zero, and not errors: what the origin wants validated stays so.
	Floor, Ceiling time.Duration
	// ErrorMax bounds the lifetime that the origin gives a 5xx. 0 means
	// DefaultErrorMax, negative no bound.
	ErrorMax time.Duration

	// StaleWhileRevalidate and StaleIfError are the windows (RFC 5861) of
	// responses that don't give their own. 0 or less means none.
	StaleWhileRevalidate, StaleIfError time.Duration
	// StaleOnDisconnect bounds how stale a response may be that is served when
	// the origin can't be reached or its connection breaks, where nothing
	// forbids it (RFC 9111 §4.2.4). 0 means DefaultStaleOnDisconnect, negative
	// never.
	StaleOnDisconnect time.Duration

	// IgnoreRequest names the request directives that don't count, such as
	// those by which a visitor can force work on the origin:
	// [RequestForcesWork].
	IgnoreRequest RequestFlags
}

// ByTheRFC is the policy of the letter of RFC 9111, for comparisons and for
// origins known to mark what is private. Bounds that the RFC leaves to the
// cache keep their defaults.
func ByTheRFC() Policy {
	return Policy{
		AuthorizationByRFC: true,
		IgnoreCookies:      true,
		StoreSetCookie:     true,
		HeuristicForAll:    true,
		StoreStale:         true,
		ErrorMax:           -1,
	}
}

func (p *Policy) targets() []string {
	if p.Targets == nil {
		return DefaultTargets
	}
	return p.Targets
}

// bound returns v, or def for 0.
func bound(v, def time.Duration) time.Duration {
	if v == 0 {
		return def
	}
	return v
}
