package middleware

import (
	"net/http"
	"net/url"
	"time"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/store/flight"
)

// passedHead is called when the head of a passed response is about to be sent:
// what it says about stored responses is done first, so that who sees it doesn't
// get an old one afterwards. own is the part of h that the handler itself set.
func (x *exchange) passedHead(status int, h, own http.Header, asked time.Time) {
	switch {
	case x.r.Method == http.MethodHead && x.key != (store.Key{}):
		x.headAnswered(status, own, asked)
	case rfc9111.Invalidates(x.r.Method, status) && !x.route.cacheOff:
		x.invalidate(h)
		x.invalidateGroups(h)
	}
	x.rec.StatusCode, x.rec.ForwardStatus = status, status
	x.setStatus(h, make([]string, ownFields))
}

// invalidate removes what a successful unsafe request makes invalid: what is
// stored for its target and for what the response names on the same origin (RFC
// 9111 §4.4), all variants, and whatever is being fetched for it.
func (x *exchange) invalidate(h http.Header) {
	if key, ok := x.getKey(); ok {
		x.h.forget(key)
	}
	target := x.target()
	urls := rfc9111.InvalidationTargets(target, h)
	if !x.route.spec.URLOnly() || x.route.search {
		targets := make([]purge.Target, len(urls))
		for i, u := range urls {
			targets[i] = x.urlTarget(u)
		}
		x.purgeTargets(targets)
	}
	for _, u := range urls {
		r := *x.r
		r.URL, r.Method = u, http.MethodGet
		in := cachekey.Input{
			Request: &r, Zone: x.h.zone, Method: http.MethodGet,
			Scheme: target.Scheme, Host: target.Host, Extra: x.barrier.extra,
		}
		if key, problem := x.route.spec.Primary(&in); problem == cachekey.NoProblem {
			x.h.forget(store.Key(key))
		}
		x.forgetSearch(&in)
	}
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
// nothing whose fetch began before is stored.
func (m *Middleware) forget(key store.Key) {
	m.flights.Forget(key)
	m.store.Delete(key)
	m.dropParts(key)
}

// headAnswered lets an answer to HEAD freshen the stored response to GET, or
// make it invalid (RFC 9111 §4.3.5).
func (x *exchange) headAnswered(status int, h http.Header, asked time.Time) {
	h = canonicalNames(h)
	if _, reduces := x.route.spec.Reduce(&x.in); reduces || x.facts&hasOddName != 0 || len(h["Set-Cookie"]) > 0 {
		return // it was shaped by what isn't in the key, or is for one client
	}
	// The refresh is a fetch whose body is already here. Its flight comes first, so
	// that a purge finds it like any other.
	fl := x.h.flights.Solo(flight.Key{Primary: x.key}, x.lane())
	defer fl.Finish(nil)
	o := x.lookup().object
	if o == nil || o.Status != http.StatusOK {
		return
	}
	stored := o.Header.Header()
	switch rfc9111.HeadEffect(stored, o.BodySize(), status, h) {
	case rfc9111.HeadInvalidates:
		x.h.store.DeleteObject(o)
	case rfc9111.HeadRefreshes:
		f := &fetch{h: x.h, flight: fl, route: x.route, key: x.key, search: x.searchPlace(&x.in), req: x.r, asked: x.r.Header, judged: x.r.Header, requestedAt: asked, seq: x.seq, scheme: x.target().Scheme, host: x.target().Host}
		if fresh, d := f.freshened(o, stored, h); d.Store && o.RequestedAt.Before(asked) && f.keep(fresh) {
			f.keepBySearch(fresh)
		}
	}
}
