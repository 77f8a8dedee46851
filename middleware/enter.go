package middleware

import (
	"context"
	"net/netip"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/admission/guard"
)

// enter decides whether the request may go on at all, before any other work is done
// for it: whether its client has too many of them in flight, whether the process has,
// and whether the client has used its rates up. If not, it's refused, without a look at
// what is stored.
func (x *exchange) enter() bool {
	g := x.h.governor
	if g == nil || g.clients == nil && g.overload == nil && g.Guard == nil {
		return true
	}
	purges := x.isPurge() && x.authorisePurge()
	var client netip.Addr
	if !purges {
		client = g.client(x.r)
	}
	if g.clients != nil && !purges {
		var ok bool
		if x.inFlight, ok = g.clients.enter(g.hash(client)); !ok {
			x.shed(refusalByClientLimit())
			return false
		}
	}
	if g.overload != nil {
		var d admission.Decision
		if x.token, d = g.overload.Enter(x.arrival(client, purges)); !d.OK() {
			x.shed(refusalOf(d))
			return false
		}
	}
	if g.Guard == nil || purges {
		return true
	}
	x.asker = guard.Request{Addr: client, Began: x.now}
	var proof guard.Proof
	if g.Verifier != nil {
		x.asker.Identity, proof = g.Verifier.Recall(client, x.r.UserAgent())
	}
	d := g.Guard.Admit(x.asker, x.h.place.rate)
	if proof == guard.Pending || proof == guard.ByName {
		g.lookUp(client, x.r.UserAgent(), d)
	}
	if !d.OK() {
		x.shed(refusalByRate(d))
	}
	return d.OK()
}

// lookUp has the client looked up, if it's time. Lookups are few: those who are refused
// by what is theirs alone get none, and those whom others' requests keep out get some.
func (g *governor) lookUp(client netip.Addr, userAgent string, d guard.Decision) {
	switch d.Reason {
	case guard.Admitted:
		g.Verifier.Identify(client, userAgent)
	case guard.RateGlobal, guard.RateUnknown, guard.RateRoute, guard.RateRouteUnknown:
		g.Verifier.Refused(client, userAgent)
	}
}

// arrival is the request as the overload guard sees it.
func (x *exchange) arrival(client netip.Addr, purges bool) admission.Arrival {
	g := x.h.governor
	a := admission.Arrival{From: admission.FromTenant, Tenant: x.h.zone, Weight: x.h.place.weight}
	switch {
	case purges:
		a.From = admission.FromOperator // what the tenants do must not keep it from purging
		return a
	case g.Sender != nil:
		a.From = g.Sender(x.r)
	}
	a.Client = g.hash(client)
	return a
}

// guarded returns ctx with the request that operations under it count against.
func (x *exchange) guarded(ctx context.Context) context.Context {
	if g := x.h.governor; g != nil && g.Guard != nil {
		return g.Guard.WithRequest(ctx, x.asker)
	}
	return ctx
}
