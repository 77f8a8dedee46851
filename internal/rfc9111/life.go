package rfc9111

import "time"

// Life is what is known about the freshness of a stored response and about who
// may have it. It is made by [Decide], kept with the response, and never changed.
type Life struct {
	ReceivedAt time.Time     // when its head arrived, or that of the 304 that freshened it
	InitialAge time.Duration // its age then (RFC 9111 §4.2.3)
	Lifetime   time.Duration // the age at which it turns stale; 0 if it is never fresh
	// How long after the end of its lifetime it may be served while it is
	// refreshed, and if the origin fails; 0 for not at all. They are the
	// origin's windows, or else the route's.
	StaleWhileRevalidate time.Duration
	StaleIfError         time.Duration

	Source         Source // where Lifetime comes from
	MustRevalidate bool   // must-revalidate or proxy-revalidate: never served stale
	NoCache        bool   // never served without validation
	SharedMaxAge   bool   // s-maxage: stale only within the windows above
	Immutable      bool   // RFC 8246
	SharedExplicit bool   // public, s-maxage or a targeted lifetime
	StaticExplicit bool   // a static type, no document, with the extension of its path and a lifetime from the origin
	AuthReusable   bool   // a response to a request with credentials may be shared (§3.5)
}

// Source says where a lifetime comes from.
type Source uint8

const (
	FromNothing Source = iota
	FromRouteStatus
	FromRouteClass
	FromTargeted
	FromSMaxAge
	FromMaxAge
	FromExpires
	FromHeuristic
)

var sourceTexts = [...]string{"nothing", "route ttl for the status", "route ttl for the class", "targeted field", "s-maxage", "max-age", "expires", "heuristic"}

// String returns a short name.
func (s Source) String() string {
	if int(s) < len(sourceTexts) {
		return sourceTexts[s]
	}
	return "unknown"
}

// Explicit reports whether the origin gave the lifetime.
func (s Source) Explicit() bool { return s >= FromTargeted && s <= FromExpires }

// Age returns the current age of the response (RFC 9111 §4.2.3), the value of
// the Age field in whole seconds. A clock that was set back doesn't make it
// younger than on arrival.
func (l *Life) Age(now time.Time) time.Duration {
	resident := now.Sub(l.ReceivedAt)
	if resident <= 0 {
		return l.InitialAge
	}
	if resident > farFuture {
		resident = farFuture
	}
	return l.InitialAge + resident
}

// TTL returns how long the response stays fresh; zero or less if it is stale.
func (l *Life) TTL(now time.Time) time.Duration { return l.Lifetime - l.Age(now) }

// mayBeStale reports whether the response may be served within a window after
// the end of its lifetime.
func (l *Life) mayBeStale(ttl, window time.Duration) bool {
	return window > 0 && -ttl <= window && !l.MustRevalidate && !l.NoCache
}

// newLife reads the life of a response off its head.
func newLife(ex *Exchange, d *Directives, p *Policy) Life {
	l := Life{
		ReceivedAt:     ex.ReceivedAt,
		InitialAge:     initialAge(ex.Header, ex.RequestedAt, ex.ReceivedAt),
		MustRevalidate: d.MustRevalidate || d.ProxyRevalidate,
		NoCache:        d.NoCache,
		SharedMaxAge:   d.HasSMaxAge,
		Immutable:      d.Immutable,
		// A lifetime of zero may be one that couldn't be read: no permission.
		SharedExplicit: d.Public || d.SMaxAge > 0 || d.Targeted && d.MaxAge > 0,
		AuthReusable:   d.Public || d.SMaxAge > 0 || d.MustRevalidate,
	}
	l.Lifetime, l.Source = lifetime(ex, d, p, l.InitialAge)
	l.StaleWhileRevalidate = window(d.HasStaleWhileRevalidate, d.StaleWhileRevalidate, p.StaleWhileRevalidate)
	l.StaleIfError = window(d.HasStaleIfError, d.StaleIfError, p.StaleIfError)
	if l.Source.Explicit() && l.Lifetime > 0 {
		t := MediaType(ex.Header)
		known, fits := ExtensionFits(ex.Path, t)
		l.StaticExplicit = IsStaticType(t) && t != "application/pdf" && known && fits
	}
	return l
}

func window(has bool, origin, route time.Duration) time.Duration {
	if has {
		return origin
	}
	return max(0, route)
}
