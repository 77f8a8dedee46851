package middleware

import (
	"net/http"
	"time"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/internal/rfc9110"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/store/flight"
)

// countsAsFetch reports whether the answer to x, which is handed on as r, may
// change what is stored other than by invalidating it, and under which key. It may
// not if the origin sees what isn't in the key.
func (x *exchange) countsAsFetch(why reason, r *http.Request) (key store.Key, in cachekey.Input, ok bool) {
	key, in = x.key, x.in
	switch x.r.Method {
	case http.MethodPost:
		ok = x.route.storePost && !x.route.cacheOff && !x.barrier.bypass && x.facts&hasNominated == 0
		if ok {
			in = x.getInput()
			key, ok = x.getKey()
		}
	case http.MethodHead:
		ok = key != store.Key{}
	case http.MethodGet:
		ranges, valid := rfc9110.ParseRange(x.r.Header["Range"])
		ok = why == whyRange && valid && len(ranges) == 1
	}
	if !ok || x.facts&hasOddName != 0 || !x.spelt(r) {
		return key, in, false
	}
	_, reduces := x.route.spec.Reduce(&in)
	return key, in, !reduces
}

// asFetch makes a fetch of x, which is about to be handed on as r. Its flight begins
// before the handler, so that a purge or an unsafe request meanwhile finds it. The
// caller must finish the flight.
func (x *exchange) asFetch(key store.Key, in *cachekey.Input, r *http.Request, asked time.Time) *fetch {
	target := x.target()
	return &fetch{
		h: x.h, flight: x.h.flights.Solo(flight.Key{Primary: key}, x.lane()), route: x.route, key: key,
		search: x.searchPlace(in), url: *r.URL, asked: r.Header, judged: r.Header, requestedAt: asked,
		seq: x.seq, scheme: target.Scheme, host: target.Host,
	}
}

// spelt reports whether host and target of r have the spelling that the key has.
// Otherwise the origin may tell apart what the key doesn't.
func (x *exchange) spelt(r *http.Request) bool {
	c, u := *r, *r.URL
	c.URL = &u
	canonicalise(&c, x.target().Scheme)
	return r.ProtoAtLeast(1, 1) && c.Host == r.Host && c.RequestURI == r.RequestURI && *c.URL == *r.URL
}
