package middleware

import (
	"net/http"
	"slices"
	"time"

	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/store/flight"
)

// confirm deals with a 304 to the conditional request: the stored response is
// freshened (RFC 9111 §4.3.4) and is the answer. It returns false if nothing was
// decided: the 304 speaks of something else, and the origin is asked again; or
// it came too late.
func (f *fetch) confirm() bool {
	f.header = canonicalNames(f.header)
	stored := f.stale.Header.Header()
	if !rfc9111.NotModifiedFits(stored, f.header) || f.h.verdict(f.stale) == purge.Gone {
		// A purge while the origin was asked: what it confirmed is gone, too.
		f.mismatch = true
		return false
	}
	object, decision := f.freshened(f.stale, stored, f.header)
	hd := &head{
		kind: confirmed, status: http.StatusNotModified, object: object, subject: object.Attached.(*purge.Subject), decision: decision, receivedAt: decision.Life.ReceivedAt,
		selecting: object.Selecting, reason: whyValidated, cookies: slices.Clone(f.header["Set-Cookie"]),
	}
	if f.route.policy.StoreSetCookie {
		hd.cookies = nil
	}
	verdict := flight.Released
	if decision.ShareOnce && hd.cookies == nil {
		verdict = flight.Shared
	}
	switch {
	case hd.cookies != nil:
		// It's for the client that asked, with all its other fields.
		hd.notStored = reason(rfc9111.SetsCookie.String())
	case !decision.Store:
		hd.notStored = reason(decision.Reason.String())
		if f.supersedes(&decision) {
			f.h.supersede(f.route, f.stale)
		}
	default:
		if hd.notStored = f.keepWith(nil, object); hd.notStored == "" {
			f.keepBySearch(object)
		}
	}
	return f.flight.Decide(verdict, hd, nil)
}

// freshened makes the object that a 304 or an answer to HEAD turns the stored
// one into, and the decision about it.
func (f *fetch) freshened(old *store.Object, stored, update http.Header) (*store.Object, rfc9111.Decision) {
	now := time.Now()
	merged := rfc9111.Freshen(stored, update, now, &f.route.policy)
	ruled := merged
	if age := update["Age"]; len(age) > 0 {
		// Age speaks of the 304 and isn't stored, but counts.
		ruled = merged.Clone()
		ruled["Age"] = age
	}
	decision := f.rules(ruled, old.Status, now)
	o := old.Freshened(merged, decision.Life, f.requestedAt)
	o.Attached, o.Facts = attached(f.subjectAfter(old, merged))
	if !slices.Equal(o.VaryNames, decision.VaryNames) {
		o.VaryNames, o.Key = decision.VaryNames, f.variantKey(decision.VaryNames)
		o.Selecting = string(f.route.spec.AppendSelecting(nil, o.VaryNames, f.asked))
	}
	return o, decision
}

// keep puts an object into the store, unless the key was purged since the
// fetch began. An unsafe request first dooms the flight and then removes what is
// stored, and the store looks at the flight when the object takes its place: who
// comes after the unsafe request never sees it.
func (f *fetch) keep(o *store.Object) bool { return f.keepWith(nil, o) == "" }

// keepWith is keep for an object whose body is in the fill, if that isn't nil.
// It returns the reason if the object isn't stored.
func (f *fetch) keepWith(fill *store.Fill, o *store.Object) reason {
	if f.flight.Doomed() || f.h.verdict(o) == purge.Gone {
		return whyPurged
	}
	var why reason
	if f.route.forwardsRng {
		why = f.putBesideParts(fill, o)
	} else {
		why = f.put(fill, o)
	}
	f.settle(o) // what it takes the place of may be in another tier
	return why
}

// put is the part of keepWith that changes what is stored.
func (f *fetch) put(fill *store.Fill, o *store.Object) reason {
	allowed := func() bool { return !f.flight.Doomed() }
	var r store.Rejection
	if fill != nil {
		r = f.h.store.Keep(fill, o, allowed)
	} else {
		r = f.h.store.PutIf(o, allowed)
	}
	switch r {
	case store.Kept:
		return ""
	case store.Withdrawn:
		return whyPurged
	}
	return reason(r.String())
}
