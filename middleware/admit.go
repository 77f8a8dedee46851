package middleware

import (
	"context"
	"net/http"
	"time"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/store/flight"
	"github.com/weirhttp/weir/trace"
)

// Whatever reaches the wrapped handler has a permit for as long as it runs there: a
// fetch, a request that is passed on, a refresh. It's given back when the handler has
// returned, whatever it did: then the body has ended, and the origin's work with it.

// class says how important x is.
func (x *exchange) class() admission.Class {
	if p := x.h.governor.Priority; p != nil {
		return p(x.r)
	}
	return x.route.admission.Class
}

// wants is what x asks the limiter for.
func (x *exchange) wants(c admission.Class) admission.Request {
	p := &x.h.place
	return admission.Request{Route: p.route, Class: c, Tenant: x.h.zone, Weight: p.weight, Cost: x.route.admission.Cost}
}

// limiter is nil if there are no ceilings.
func (h *handler) limiter() *admission.Limiter {
	if h.governor == nil {
		return nil
	}
	return h.governor.limiter
}

// admit gets a permit for a request that is passed on, for which it may queue. If it
// gets none, the request has been answered.
func (x *exchange) admit() (p admission.Permit, ok bool) {
	l := x.h.limiter()
	if l == nil {
		return p, true
	}
	p, d := l.Acquire(x.r.Context(), x.wants(x.class()))
	switch d.Reason {
	case admission.Admitted:
		x.rec.Admission = admitted(p, d)
		return p, true
	case admission.ClientGone:
		x.noteRefusal(refusalOf(d))
		hd := x.gone()
		x.refuse(hd.errStatus, hd.reason)
	default:
		x.turnAway(refusalOf(d))
	}
	return p, false
}

func admitted(p admission.Permit, d admission.Decision) trace.Admission {
	return trace.Admission{Queued: d.Wait, Permits: p.Cost(), Verdict: verdictAdmitted, Reason: d.Reason.String()}
}

// admit gets the fetch its permit, for which it may queue on behalf of all who wait
// for its response: it leaves the queue when the last of them has left. If it gets
// none, it has ended, and all of them know.
func (f *fetch) admit() bool {
	if f.h.limiter() != nil && f.permit == (admission.Permit{}) {
		f.flight.SetKeep(flight.KeepNot) // nobody would want to queue for nobody
		f.flight.OnRaise(urgency(f.class), f)
		p, d := f.claim.Acquire(f.ctx)
		f.flight.SetKeep(flight.KeepUnknown)
		if d.OK() && f.ctx.Err() != nil {
			p.Release()
			d = admission.Decision{Reason: admission.ClientGone, Wait: d.Wait}
		}
		if !d.OK() {
			f.turnAway(d)
			return false
		}
		f.permit, f.admission = p, admitted(p, d)
	}
	f.setDeadline()
	return true
}

// urgency is a class as a flight orders them.
func urgency(c admission.Class) uint8 {
	switch c {
	case admission.Critical:
		return 2
	case admission.Normal:
		return 1
	}
	return 0
}

// Raise lets the fetch queue as what is more important, which somebody who joined it
// is: else that one would wait in a place that isn't its own.
func (f *fetch) Raise(level uint8) {
	if level == urgency(admission.Critical) {
		f.claim.Raise(admission.Critical)
	} else {
		f.claim.Raise(admission.Normal)
	}
}

// tellStatus tells an adaptive ceiling how the origin answered: how fast, or that it
// has too much to do. timed is false if the client had a part in how long it took. An
// answer to nobody says nothing.
func tellStatus(ctx context.Context, p admission.Permit, status int, timed bool) {
	if ctx.Err() != nil {
		return
	}
	switch status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		p.Failed()
	default:
		if timed {
			p.FirstByte()
		} else {
			p.Answered()
		}
	}
}

// tellError tells it that there was no answer, unless that's because ctx has ended.
func tellError(ctx context.Context, p admission.Permit) {
	if ctx.Err() == nil {
		p.Failed()
	}
}

// refusedRefresh is how long a refused refresh keeps the next one for its key away.
const refusedRefresh = time.Second

// admitRefresh gets a permit for a refresh of x's key, if there's room right now:
// refreshes never queue.
func (x *exchange) admitRefresh(key flight.Key) (p admission.Permit, ok bool) {
	l := x.h.limiter()
	if l == nil {
		return p, true
	}
	p, d := l.TryAcquire(x.wants(admission.Background))
	if !d.OK() {
		x.h.flights.Remember(key, laneRefresh, x.now.Add(refusedRefresh))
	}
	return p, d.OK()
}
