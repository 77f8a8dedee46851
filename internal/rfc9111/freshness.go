package rfc9111

import (
	"net/http"
	"time"

	"github.com/weirhttp/weir/internal/field"
)

// lifetime computes the freshness lifetime (RFC 9111 §4.2.1): the route's for
// this status, for its class, then what the origin says, then a guess.
func lifetime(ex *Exchange, d *Directives, p *Policy, initialAge time.Duration) (time.Duration, Source) {
	if ttl, ok := p.TTLByStatus[ex.Status]; ok {
		return fromReceipt(ttl, initialAge), FromRouteStatus
	}
	if c := ex.Status / 100; c > 0 && c < len(p.TTLByClass) && p.TTLByClass[c] != 0 && inClass(ex.Status) {
		return fromReceipt(p.TTLByClass[c], initialAge), FromRouteClass
	}
	v, source := originLifetime(ex, d, p)
	if source == FromNothing {
		return 0, source
	}
	if ex.Status >= 500 {
		if limit := bound(p.ErrorMax, DefaultErrorMax); limit > 0 {
			v = min(v, limit)
		}
	} else if v > 0 && ex.Status < 400 {
		v = max(v, p.Floor)
	}
	if p.Ceiling > 0 {
		v = min(v, p.Ceiling)
	}
	return v, source
}

// fromReceipt turns a route's choice, which counts from receipt, into a
// lifetime, which counts from the response's beginning.
func fromReceipt(ttl, initialAge time.Duration) time.Duration {
	if ttl <= 0 {
		return 0
	}
	return min(ttl, farFuture) + initialAge
}

func originLifetime(ex *Exchange, d *Directives, p *Policy) (time.Duration, Source) {
	switch {
	case d.Targeted && d.HasSMaxAge:
		return d.SMaxAge, FromTargeted
	case d.Targeted && d.HasMaxAge:
		return d.MaxAge, FromTargeted
	case d.HasSMaxAge:
		return d.SMaxAge, FromSMaxAge
	case d.HasMaxAge:
		return d.MaxAge, FromMaxAge
	case !d.Targeted && len(ex.Header["Expires"]) > 0:
		return expires(ex.Header, ex.ReceivedAt), FromExpires
	}
	if v := heuristic(ex, d, p); v > 0 {
		return v, FromHeuristic
	}
	return 0, FromNothing
}

// expires is the lifetime given by Expires: its distance from Date, or from
// receipt without a readable Date. What can't be read, and Expires that comes
// twice, means already expired (§4.2.1, §5.3).
func expires(h http.Header, receivedAt time.Time) time.Duration {
	lines := h["Expires"]
	if len(lines) != 1 {
		return 0
	}
	at, ok := field.ParseDate(lines[0], receivedAt)
	if !ok {
		return 0
	}
	from := receivedAt
	if _, latest, ok := dates(h, receivedAt); ok {
		from = latest
	}
	return min(max(0, at.Sub(from)), farFuture)
}

// inClass reports whether a lifetime for the status's class reaches it. Of the 4xx
// only those that speak of the resource: the others are about one client's request,
// which can provoke them.
func inClass(status int) bool {
	if status/100 != 4 {
		return true
	}
	return status == 404 || status == 410 || status == 451
}

// provoked reports whether a status is one that a client can bring about with a
// malformed or oversized request, so that it never gets a lifetime by default.
func provoked(status int) bool {
	switch status {
	case 400, 405, 413, 414, 431:
		return true
	}
	return false
}
