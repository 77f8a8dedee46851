package middleware

import (
	"context"
	"net/http"
	"net/url"

	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/purge"
)

// urlTarget is all that is stored for a URL whatever the rest of its key: where keys
// have ingredients other than the URL, an unsafe request's own say nothing about
// those of what is stored.
func (x *exchange) urlTarget(u *url.URL) purge.Target {
	r := &http.Request{Method: http.MethodGet, Host: u.Host, URL: u, Header: http.Header{}}
	t := purge.Target{Zone: x.h.zone, Host: u.Host, Path: u.EscapedPath(), Query: x.route.spec.KeyedQuery(r)}
	if t.Path == "" {
		t.Path = "/"
	}
	return t
}

// keysDiffer reports whether what is stored for a URL may be under other keys than those
// that an unsafe request for it makes: they have ingredients beside the URL, or it's found
// by other queries, or another trusted proxy said other things of how it was asked for.
func (x *exchange) keysDiffer() bool {
	switch {
	case !x.route.spec.URLOnly() || x.route.search:
		return true
	case len(x.h.cfg.TrustedProxies) == 0:
		return false
	}
	// What was said to an earlier process isn't known, nor what it means where the cache
	// keeps out because of what is said.
	return x.h.cfg.Store.Disk != nil || x.h.extra.Load() || x.barrier.bypass
}

// purgedBy is what the response to an unsafe request for target purges: the given URLs,
// where keys don't tell what is stored for them, and the groups that h names.
func (x *exchange) purgedBy(target *url.URL, urls []*url.URL, h http.Header) []purge.Target {
	var targets []purge.Target
	if x.keysDiffer() {
		for _, u := range urls {
			targets = append(targets, x.urlTarget(u))
		}
	}
	for _, g := range rfc9111.InvalidatedGroups(x.r.Method, h) {
		targets = append(targets, purge.Target{Zone: x.h.zone, Origin: target.Scheme + "://" + target.Host, Group: g})
	}
	return targets
}

// purgeTargets purges for an unsafe request. Any visitor may send one, so it's not by
// tombstones, of which there is a limited number. That the journal can't be written
// just now doesn't keep the response from its client: the purge is in effect.
func (x *exchange) purgeTargets(targets []purge.Target) {
	res, err := x.h.purges.list.Invalidate(context.WithoutCancel(x.r.Context()), targets...)
	if err != nil {
		x.h.logger().Error("weir: an unsafe request's purge isn't durable", "err", err)
	}
	if res.Seq == x.seq+1 {
		// No other purge came since x did, and its own isn't about its own response,
		// which may be stored (Route.StorePost).
		x.seq = res.Seq
	}
}
