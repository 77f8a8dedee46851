package guard

import "time"

// Admit says whether a request may go on. It debits the cost of the route from all
// budgets that concern the request, or from none: the global one; for a known client
// its provider's and its class's, else that of all unknown clients and that of its
// address; and the route's, of unknown clients also that of the route for them. An
// empty route stands for none: cost 1. It never blocks and doesn't allocate.
func (g *Guard) Admit(r Request, name string) Decision {
	st, now := g.state.Load(), g.now()
	d := Decision{Version: st.Version, Expired: st.expired(now)}
	var c *class
	d.As, c = st.who(r.Identity, d.Expired)
	if to := st.route(name); to == nil {
		d.refuse(NoRoute, 0)
	} else if reason, wait := g.debit(r, c, to); reason != Admitted {
		d.refuse(reason, wait)
	}
	g.reasons[d.Reason].Add(1)
	return d
}

var noRoute = route{cost: 1}

// route finds a route by name; nil if there is none.
func (st *state) route(name string) *route {
	if name == "" {
		return &noRoute
	}
	return st.routes[name]
}

// debit takes the cost of a route from all budgets that concern a request, or says
// which one refused.
func (g *Guard) debit(r Request, c *class, to *route) (Reason, time.Duration) {
	if c != nil {
		ok, refused, wait := g.buckets.Debit(to.cost, c.bucket, c.provider, g.global, to.bucket)
		switch {
		case ok:
			return Admitted, 0
		case refused == c.provider:
			return RateProvider, wait
		case refused == g.global:
			return RateGlobal, wait
		case refused == to.bucket:
			return RateRoute, wait
		}
		return RateClass, wait
	}
	ok, refused, wait := g.addresses.Debit(g.client(r.Addr), to.cost, g.unknown, g.global, to.bucket, to.unknown)
	switch {
	case ok:
		return Admitted, 0
	case refused == nil:
		return RateAddress, wait
	case refused == g.unknown:
		return RateUnknown, wait
	case refused == g.global:
		return RateGlobal, wait
	case refused == to.unknown:
		return RateRouteUnknown, wait
	}
	return RateRoute, wait
}
