package middleware

import (
	"net/http"

	"github.com/weirhttp/weir/internal/field"
	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/trace"
)

// classify decides whether the cache may deal with the request at all. It
// returns the reason why not, or nothing.
func (x *exchange) classify() reason {
	r, route := x.r, x.route
	x.facts = factsOf(r.Header)
	if x.facts&hasForwarding != 0 {
		x.barrier = forwardingOf(r, x.facts, x.h.cfg.TrustedProxies)
		if len(x.barrier.extra) > 0 && !x.h.extra.Load() {
			x.h.extra.Store(true)
		}
	}
	switch {
	case route.cacheOff:
		return whyCacheOff
	case r.Method != http.MethodGet && (r.Method != http.MethodHead || !route.headMethod):
		return whyMethod
	case r.ContentLength != 0 || len(r.TransferEncoding) > 0:
		return whyBody
	case x.facts == 0: // the plainest and most frequent request
		return ""
	case x.facts&hasUpgrade != 0:
		return whyUpgrade
	case x.facts&hasEventStream != 0:
		return whyEvents
	case x.barrier.bypass:
		return whyForwarding
	case x.facts&hasNominated != 0:
		return whyNominated
	case x.facts&hasAuthorization != 0 && !route.policy.AuthorizationByRFC:
		return whyAuth
	case x.facts&hasDemand != 0:
		return whyPrecondition
	case x.facts&hasCookie != 0 && x.bypassesByCookie():
		return whyCookie
	}
	if x.facts&hasDirectives != 0 {
		x.asked = rfc9111.ParseRequest(r.Header)
		x.asked.Has &^= route.policy.IgnoreRequest
	}
	if x.facts&hasCookie != 0 && !route.policy.IgnoreCookies {
		x.cookies = x.hasUnkeyedCookie()
	}
	return ""
}

// bypassForward is the RFC 9211 word for a bypass.
func (x *exchange) bypassForward() trace.Forward {
	if x.r.Method != http.MethodGet && x.r.Method != http.MethodHead {
		return trace.ForwardMethod
	}
	return trace.ForwardBypass
}

func (x *exchange) bypassesByCookie() bool {
	if len(x.route.bypass) == 0 {
		return false
	}
	for c := range field.Cookies(x.r.Header["Cookie"]) {
		for _, p := range x.route.bypass {
			if c.Text != "" && p.matches(c.Name) {
				return true
			}
		}
	}
	return false
}

// hasUnkeyedCookie reports whether the request has a cookie that reaches the
// origin without being in the key.
func (x *exchange) hasUnkeyedCookie() bool {
	for c := range field.Cookies(x.r.Header["Cookie"]) {
		if c.Text != "" && x.route.spec.CookieUnkeyed(c.Name) {
			return true
		}
	}
	return false
}
