package middleware

import (
	"net/http"
	"strconv"
	"time"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/trace"
)

// ownFields is the number of values that setStatus puts into a header at most,
// without debugging.
const ownFields = 4

// setStatus adds the fields that say what the cache did. room has space for
// ownFields values.
func (x *exchange) setStatus(h http.Header, room []string) {
	c := x.rec.CacheStatus()
	if x.debug {
		c.Detail = x.rec.Cache.Reason
		if x.key != (store.Key{}) {
			c.Key = cachekey.Key(x.key).Short()
		}
	}
	var buf [160]byte
	x.setStatusText(h, room, string(trace.AppendCacheStatus(buf[:0], x.h.cfg.Name, &c)))
}

// setStatusText is setStatus with the Cache-Status member made already.
func (x *exchange) setStatusText(h http.Header, room []string, member string) {
	for _, name := range x.h.purges.strip {
		delete(h, name)
	}
	// Each cache on the way adds its own; those nearer to the origin come
	// first (RFC 9211 §2).
	if upstream := h[trace.HeaderCacheStatus]; len(upstream) > 0 {
		h[trace.HeaderCacheStatus] = append(upstream[:len(upstream):len(upstream)], member)
	} else {
		room[0] = member
		h[trace.HeaderCacheStatus] = room[:1:1]
	}
	if name := x.h.cfg.statusHeader; name != "" {
		room[1] = x.rec.Cache.Status.String()
		h[name] = room[1:2:2]
	}
	if x.debug {
		x.setDebug(h)
	}
}

func (x *exchange) setDebug(h http.Header) {
	x.noteOrigins()
	rec := x.rec
	if x.key != (store.Key{}) {
		rec.Cache.KeyText = x.route.spec.Text(&x.in)
		h.Set(trace.HeaderCacheKey, trace.HeaderValue(rec.Cache.KeyText))
		h.Set(trace.HeaderCacheKeyHash, cachekey.Key(x.key).Short())
	}
	h.Set(trace.HeaderCacheReason, trace.HeaderValue(rec.Cache.Reason))
	h.Set(trace.HeaderCacheRoute, trace.HeaderValue(rec.Cache.Route))
	if trail := rec.Origin.AppendTrail(nil); len(trail) > 0 {
		h.Set(trace.HeaderCacheOrigin, trace.HeaderValue(string(trail)))
	}
}

// memoOf returns the texts of a stored response's Age and Cache-Status as a
// hit, which change once a second.
func (x *exchange) memoOf(o *store.Object, ttl time.Duration) *store.Memo {
	age := int64(o.Life.Age(x.now) / time.Second)
	left := floorSeconds(ttl)
	if m := o.Memo(); m != nil && m.Age == age && m.TTL == left {
		return m
	}
	c := trace.CacheStatus{Hit: true, HasTTL: true, TTL: left}
	m := &store.Memo{
		Age: age, TTL: left, AgeText: strconv.FormatInt(age, 10),
		CacheStatus: string(trace.AppendCacheStatus(nil, x.h.cfg.Name, &c)),
	}
	o.SetMemo(m)
	return m
}

// floorSeconds rounds down, so that half a second past the end is -1.
func floorSeconds(d time.Duration) int64 {
	n := int64(d / time.Second)
	if d%time.Second < 0 {
		n--
	}
	return n
}
