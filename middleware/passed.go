package middleware

import (
	"net/http"
	"net/url"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/store/flight"
)

// passedHead is called when the head of a passed response is about to be sent:
// what it says about stored responses is done first, so that who sees it doesn't
// get an old one afterwards. own is the part of h that the handler itself set.
func (x *exchange) passedHead(status int, h, own http.Header) {
	switch {
	case x.r.Method == http.MethodHead:
		if x.passed != nil {
			x.headAnswered(status, own)
		}
	case rfc9111.Invalidates(x.r.Method, status) && !x.route.cacheOff:
		x.invalidate(h)
	}
	x.rec.StatusCode, x.rec.ForwardStatus = status, status
	x.setStatus(h, make([]string, ownFields))
}

// invalidate removes what a successful unsafe request makes invalid: what is
// stored for its target and for what the response names on the same origin (RFC
// 9111 §4.4), all variants, whatever is being fetched for it, and the groups that the
// response names (RFC 9875 §3).
func (x *exchange) invalidate(h http.Header) {
	if key, ok := x.getKey(); ok {
		x.forget(key)
	}
	h = canonicalNames(h)
	target := x.target()
	urls := rfc9111.InvalidationTargets(target, h)
	x.purgeTargets(x.purgedBy(target, urls, h))
	for _, u := range urls {
		r := *x.r
		r.URL, r.Method = u, http.MethodGet
		in := cachekey.Input{
			Request: &r, Zone: x.h.zone, Method: http.MethodGet,
			Scheme: target.Scheme, Host: target.Host, Extra: x.barrier.extra,
		}
		if key, problem := x.route.spec.Primary(&in); problem == cachekey.NoProblem {
			x.forget(store.Key(key))
		}
		x.forgetSearch(&in)
	}
	x.h.noteUndeleted()
}

// target is the absolute URL that the client meant.
func (x *exchange) target() *url.URL {
	u := *x.r.URL
	u.Scheme, u.Host = x.barrier.scheme, x.barrier.host
	if u.Scheme == "" {
		u.Scheme = "http"
		if x.r.TLS != nil {
			u.Scheme = "https"
		}
	}
	if u.Host == "" {
		u.Host = x.r.Host
	}
	return &u
}

// forget removes all that is stored under a primary key, and sees to it that
// nothing whose fetch began before is stored, but for x's own answer.
func (x *exchange) forget(key store.Key) {
	var own *flight.Flight[*head]
	if x.passed != nil {
		own = x.passed.flight
	}
	x.h.flights.ForgetOthers(key, own)
	x.h.store.Delete(key)
	x.h.dropParts(key)
}

// headAnswered lets an answer to HEAD freshen the stored response to GET, or
// make it invalid (RFC 9111 §4.3.5).
func (x *exchange) headAnswered(status int, h http.Header) {
	h = canonicalNames(h)
	if x.route.forwardsRng {
		x.passed.outdateParts(status, h)
	}
	if len(h["Set-Cookie"]) > 0 {
		return // it's for one client
	}
	f, o := x.passed, x.lookup().object // a fetch whose body is already here
	if o == nil || o.Status != http.StatusOK {
		return
	}
	stored := o.Header.Header()
	switch rfc9111.HeadEffect(stored, o.BodySize(), status, h) {
	case rfc9111.HeadInvalidates:
		x.h.supersede(x.route, o)
	case rfc9111.HeadRefreshes:
		fresh, d := f.freshened(o, stored, h)
		f.refreshes = o // and not what may have come since it was found
		if d.Store && o.RequestedAt.Before(f.requestedAt) && f.keep(fresh) {
			f.keepBySearch(fresh)
		}
		f.refreshes = nil
	}
}
