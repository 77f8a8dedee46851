package middleware

import (
	"context"
	"net/http"
	"time"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/admission/guard"
	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/store/flight"
	"github.com/weirhttp/weir/trace"
)

// refusal is what the client of a refused request is told.
type refusal struct {
	status int
	admission.Decision
	why string
}

func refusalOf(d admission.Decision) refusal {
	return refusal{http.StatusServiceUnavailable, d, d.Reason.String()}
}

func refusalByRate(d guard.Decision) refusal {
	r := refusal{http.StatusServiceUnavailable, admission.Decision{RetryAfter: d.RetryAfter}, d.Reason.String()}
	if d.Reason.Rate() {
		r.status = http.StatusTooManyRequests
	}
	return r
}

// The verdicts of the record.
const (
	verdictAdmitted = "admitted"
	verdictRefused  = "refused"
)

// turnAway answers a request that may not go to the origin: with what is stored, if
// that may be used in place of an error, or with a refusal.
func (x *exchange) turnAway(r refusal) {
	x.rec.ForwardReason = trace.ForwardNone
	if !x.standIn(r) {
		x.shed(r)
	}
}

// shed refuses the request.
func (x *exchange) shed(r refusal) {
	x.noteRefusal(r)
	x.rec.ForwardReason, x.rec.Cache.Status = trace.ForwardNone, trace.Shed
	x.refuseFor(r.status, reason("admission refused the request: "+r.why), r.RetryAfter)
}

func (x *exchange) noteRefusal(r refusal) {
	a := &x.rec.Admission
	a.Verdict, a.Reason, a.Queued, a.Permits = verdictRefused, r.why, r.Wait, 0
}

// standIn answers a refused request with what is stored, if that is allowed as for
// an origin that answers with an error (RFC 5861 §4).
func (x *exchange) standIn(r refusal) bool {
	if x.key == ([32]byte{}) || x.r.Method != http.MethodGet && x.r.Method != http.MethodHead {
		return false
	}
	x.now = time.Now()
	o := x.lookup().object
	if o == nil {
		return false
	}
	life := x.h.lifeOf(o, x.now)
	ok, why := rfc9111.StaleIfError(life, x.asked, &x.route.policy, x.now)
	if !ok || !x.open(o) {
		return false
	}
	x.noteRefusal(r)
	x.respond(o, trace.StaleError, reason("admission refused the request: "+r.why+"; "+why.String()), life.TTL(x.now))
	return true
}

// turnAway ends a fetch that may not begin. Those who wait for it are told so, and
// each answers for itself: none of them asks again, unless it's more important than
// the leader was. Who comes later does.
func (f *fetch) turnAway(d admission.Decision) {
	defer f.cancel(nil)
	defer f.flight.Finish(&head{kind: failed, errStatus: http.StatusBadGateway, reason: whyNoAnswer})
	if d.Reason == admission.ClientGone {
		f.admission = trace.Admission{Queued: d.Wait, Verdict: verdictRefused, Reason: d.Reason.String()}
		f.failWith(context.Cause(f.ctx))
		return
	}
	f.flight.CloseToWaiters()
	f.flight.Decide(flight.Shared, &head{kind: turnedAway, refusal: refusalOf(d), class: f.class}, nil)
}
