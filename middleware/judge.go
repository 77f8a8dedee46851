package middleware

import (
	"net/http"
	"time"

	"github.com/weirhttp/weir/internal/rfc9110"
	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/trace"
)

// action is what to do with a request, given what is stored.
type action uint8

const (
	fetchIt action = iota // claim the key
	serveStored
	serveAndRefresh // serve stale, refresh in the background
	handOn          // let the origin answer, outside any sharing
	refuse          // only-if-cached
)

// verdict is the judgement on what was found.
type verdict struct {
	act     action
	status  trace.Status
	forward trace.Forward
	reason  reason
	ttl     time.Duration
}

// mayShare reports whether a response with this life may be shared with x: a
// request with cookies (or Authorization) takes part only where the response
// says that it's for all.
func (x *exchange) mayShare(l *rfc9111.Life) bool {
	return !x.cookies || l.SharedExplicit || l.StaticExplicit
}

// judge decides what becomes of the request. It writes nothing.
func (x *exchange) judge(f *found) verdict {
	v := verdict{forward: trace.ForwardURIMiss, reason: whyAbsent}
	if f.object != nil {
		life := &f.object.Life
		if f.soft {
			life = expired(life, x.now)
		}
		j := rfc9111.Judge(life, x.asked, &x.route.policy, x.now)
		switch j.Use {
		case rfc9111.UseFresh:
			return verdict{act: serveStored, status: trace.Hit, reason: reason(j.Reason.String()), ttl: j.TTL}
		case rfc9111.UseStale:
			return verdict{act: serveStored, status: trace.Stale, reason: reason(j.Reason.String()), ttl: j.TTL}
		case rfc9111.UsePass:
			if x.asked.Has&rfc9111.RequestOnlyIfCached != 0 {
				return verdict{act: refuse, reason: whyOnlyIfCached}
			}
			return verdict{act: handOn, status: trace.Bypass, forward: trace.ForwardRequest, reason: reason(j.Reason.String())}
		case rfc9111.UseStaleWhileRevalidate:
			return verdict{act: serveAndRefresh, status: trace.Stale, reason: reason(j.Reason.String()), ttl: j.TTL}
		}
		v.forward, v.reason, v.ttl = trace.ForwardStale, reason(j.Reason.String()), j.TTL
		if j.TTL > 0 {
			v.forward = trace.ForwardRequest // fresh, but not for this request
		}
	} else if f.varied {
		v.forward, v.reason = trace.ForwardVaryMiss, whyVaryMiss
	} else if f.guarded {
		v.forward, v.reason = trace.ForwardRequest, whyCredentials
	}
	switch {
	case x.asked.Has&rfc9111.RequestOnlyIfCached != 0:
		return verdict{act: refuse, reason: whyOnlyIfCached}
	case x.r.Method == http.MethodHead:
		v.act, v.status = handOn, trace.Miss // a HEAD never starts a regeneration
	case x.asked.Has&rfc9111.RequestNoStore != 0:
		v.act, v.status, v.reason = handOn, trace.Bypass, whyNoStoreAsked // what it gets is nobody else's
	case x.facts&hasRange != 0:
		// A stale object is validated and the range served from it.
		if why := x.rangeToOrigin(f); why != "" && f.object == nil {
			v.act, v.status, v.reason = handOn, trace.Bypass, why
		}
	}
	return v
}

// lifeOf is the life of a stored response: one that was purged softly is stale, and
// what stale responses may be used for is all that's left.
func (m *Middleware) lifeOf(o *store.Object, now time.Time) *rfc9111.Life {
	if m.verdict(o) == purge.Stale {
		return expired(&o.Life, now)
	}
	return &o.Life
}

// expired is a life that has just ended.
func expired(l *rfc9111.Life, now time.Time) *rfc9111.Life {
	e := *l
	e.Lifetime = min(e.Lifetime, e.Age(now))
	return &e
}

// rangeToOrigin returns the reason to hand a range request on as it is, or
// nothing if the whole object should be fetched for it.
func (x *exchange) rangeToOrigin(f *found) reason {
	if x.route.forwardsRng {
		return whyRange
	}
	asked, ok := rfc9110.ParseRange(x.r.Header["Range"])
	if !ok {
		return "" // it doesn't count
	}
	for _, one := range asked {
		if !one.Suffix() && one.First > x.route.rangeWindow {
			return whyFarRange
		}
	}
	if x.h.flights.Remembered(f.claim, laneRange, x.now) {
		return whyLargeRange
	}
	return ""
}
