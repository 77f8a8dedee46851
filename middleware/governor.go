package middleware

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/admission/guard"
)

// AdmissionOptions say how much may load the origin and this process at once, and
// how fast. The zero value limits nothing: a limit that nobody chose would refuse
// visitors whom the origin could have served. Each part works without the others.
type AdmissionOptions struct {
	// Limiter has the ceilings of what the origin does at once. Everything that
	// reaches the wrapped handler takes a permit for as long as it runs: a fetch,
	// however many clients wait for it, a request that is passed on, and a refresh
	// in the background. Hits and waiting take none. nil means no ceilings.
	//
	// A tenant is a zone: where requests queue, those of the handlers that
	// [Middleware.WrapZone] made have their turns by weight.
	Limiter *admission.Options
	// BodyBuffer is the largest body that is read before the permit of its request is
	// asked for, where a request that is passed on declares its length; as
	// proxy_request_buffering does in nginx. Clients that send slowly hold no permits
	// then, and one that goes away leaves the queue at once. It's read under BodyTimeout and
	// BodyRate; one that doesn't come is answered with 408 or 400, without the wrapped
	// handler. Longer bodies, those of unknown length, upgrades and event streams have
	// their permit before. 0 means DefaultBodyBuffer (64 KiB); negative means that no
	// body is read first, as handlers need that answer before they have read the body.
	BodyBuffer int
	// BodyBuffers is how many bytes such bodies may have in memory in all, until their
	// handlers have returned. Those for which there is no room have their permit
	// before, as longer ones. 0 means DefaultBodyBuffers (32 MiB).
	BodyBuffers int64
	// Weights are the zones' weights, from 1 to [admission.MaxWeight]. A zone that
	// isn't here has 1. At the first request a zone here, or a name in Limiter.Routes,
	// that no handler has is logged: a handler may still be made for it, but it's
	// probably misspelt.
	Weights map[string]int
	// Priority says how important a request is, for Limiter. It must go by what a client
	// can't choose, such as a verified session or a trusted proxy's field. A class by the
	// path is a class for everybody who asks for that path: ReserveNormal doesn't hold
	// against critical requests, so a flood of these keeps all others out. Give such a
	// path's route a ceiling of its own (Limiter.Routes) and its clients a bound
	// (ClientLimit, Guard). A refresh in the background is always
	// [admission.Background]. nil means Route.Admission.Class.
	Priority func(*http.Request) admission.Class

	// ClientLimit is how many requests of one client may be in flight in this process,
	// hits included, from their head until their answer has ended, or a connection that
	// the handler has taken over is closed; as limit_conn does in nginx. A client is an
	// IPv4 address, or the /64 of an IPv6 one. More are refused with 429, before anything
	// else is done for them. It keeps one client from holding all permits and places with
	// requests that it sends slowly, or answers that it takes slowly. A PURGE request that PurgeOptions.Authorise admits doesn't count.
	//
	// 0 means no bound: behind a proxy that isn't in TrustedProxies all visitors are
	// one client, and so are all who share an address. A browser has up to 6 requests
	// in flight over HTTP/1, and up to 250 over HTTP/2; an office or a mobile network
	// has many browsers.
	ClientLimit int

	// Overload sheds requests, hits included, right after their head when the process
	// has too many of them. Connections that handlers have taken over count until they're
	// closed. nil means it never does.
	Overload *admission.OverloadOptions
	// Sender says whose a request is, for Overload: the hosts that nobody configured,
	// the operator's own requests and health probes are told from the tenants' by it.
	// Like Priority it must not believe clients. nil means that all are tenants'. A
	// PURGE request that PurgeOptions.Authorise admits is always the operator's, and
	// has no rate; any other PURGE is like any request.
	Sender func(*http.Request) admission.Sender

	// Guard has the rates, for each client address and in all, for hits as well, and
	// the operations that a handler admits with [guard.Do]. The caller makes it, and
	// may replace its policy. nil means none.
	Guard *guard.Guard
	// Verifier finds out who known clients are, for Guard. The caller makes and closes
	// it. Whom it recognises has to be a class of the Guard's policy when New is called;
	// whoever isn't one of a later policy counts as unknown. nil means that nobody is
	// known.
	Verifier *guard.Verifier
	// ClientField is the field in which TrustedProxies say who the client is, for
	// ClientLimit, Guard, Overload and the balancers of package lb. They must overwrite or extend it,
	// and remove the other.
	// From anyone else it means nothing.
	ClientField guard.Forwarding
}

// RouteAdmission says how a route's requests are admitted.
type RouteAdmission struct {
	// Class is how important the requests are, unless AdmissionOptions.Priority says
	// it.
	Class admission.Class
	// Route names the one of AdmissionOptions.Limiter.Routes whose ceiling and queue
	// they have. Empty means the one with the name of the handler's zone; without
	// that, only the global ones count.
	Route string
	// Cost is what one takes of the ceilings. 0 means the cost of Route.
	Cost int
	// Rate names the route of the Guard's policy that they are debited as. Empty means
	// the one with the name of the handler's zone, if the policy has it when the handler
	// is wrapped, or else none. Name it in guard.Options.Routes too, or a later policy
	// may lack it: then all of them are refused.
	Rate string
}

// governor decides what may go on.
type governor struct {
	AdmissionOptions
	trusted  []netip.Prefix
	limiter  *admission.Limiter  // nil: no ceilings
	overload *admission.Overload // nil: never sheds
	clients  *clientLimit        // nil: no bound
	bodies   *bodyRoom           // nil: none is read before its permit is asked for
	route    admission.RouteID
	seed     maphash.Seed
}

// newGovernor makes what o asks for; nil if that is nothing.
func newGovernor(all *Options) (*governor, error) {
	o, at := all.Admission, all.Default.Admission
	var bad problems
	o.pointless(&bad)
	if o.ClientField == guard.Forwarded && len(all.TrustedProxies) == 0 {
		bad.add("Admission.ClientField", o.ClientField, "has no effect without TrustedProxies; set them too, or leave this out")
	}
	g := &governor{AdmissionOptions: o, trusted: all.TrustedProxies, seed: maphash.MakeSeed()}
	var err error
	if o.Limiter != nil {
		if g.limiter, err = admission.New(*o.Limiter); err != nil {
			bad.within("Admission.Limiter.", err)
		}
	}
	g.checkRoute(&bad, at)
	o.checkIdentities(&bad)
	o.checkClientLimit(&bad)
	o.checkBodies(&bad)
	o.checkQueues(&bad, all.WaitTimeout)
	for zone, w := range o.Weights {
		if w < 1 || w > admission.MaxWeight {
			bad.add(fmt.Sprintf("Admission.Weights[%q]", zone), w, fmt.Sprintf("must be between 1 and %d; leave the zone out for 1", admission.MaxWeight))
		}
	}
	if o.Overload != nil {
		if g.overload, err = admission.NewOverload(*o.Overload); err != nil {
			bad.within("Admission.Overload.", err)
		}
	}
	if err := errors.Join(bad...); err != nil {
		g.close()
		return nil, err
	}
	if o.Limiter == nil && o.Overload == nil && o.Guard == nil && o.ClientLimit == 0 {
		return nil, nil
	}
	g.clients, g.bodies = newClientLimit(o.ClientLimit), o.newBodyRoom()
	return g, nil
}

// within adds what package admission finds wrong, with the place where it is.
func (p *problems) within(at string, err error) {
	var one *admission.ConfigError
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range all.Unwrap() {
			p.within(at, err)
		}
	} else if errors.As(err, &one) {
		p.add(at+one.Field, one.Value, one.Reason)
	} else {
		*p = append(*p, err)
	}
}

// pointless reports settings of what is off: whoever made them believes that they
// have an effect.
func (o *AdmissionOptions) pointless(bad *problems) {
	without := func(set bool, field string, value any, needs string) {
		if set {
			bad.add("Admission."+field, value, "has no effect without Admission."+needs+"; set that too, or leave this out")
		}
	}
	without(o.Priority != nil && o.Limiter == nil, "Priority", "a function", "Limiter")
	without(len(o.Weights) > 0 && o.Limiter == nil && o.Overload == nil, "Weights", o.Weights, "Limiter or Admission.Overload")
	without(o.Sender != nil && o.Overload == nil, "Sender", "a function", "Overload")
	without(o.Verifier != nil && o.Guard == nil, "Verifier", "a verifier", "Guard")
	if o.ClientField > guard.Forwarded {
		bad.add("Admission.ClientField", o.ClientField, "must be guard.XForwardedFor or guard.Forwarded")
	}
}

// checkQueues refuses queues that hold a request for as long as others wait for its
// response: these would all go to the origin by themselves just when it has no room.
func (o *AdmissionOptions) checkQueues(bad *problems, wait time.Duration) {
	l := o.Limiter
	if l == nil || l.Queue < 0 || wait <= 0 {
		return
	}
	check := func(at string, d time.Duration) {
		if d >= wait {
			bad.add(at, d, fmt.Sprintf("must be below WaitTimeout (%v), or all who wait for a response go to the origin while its fetch queues, or just as it is refused; lower it, or raise WaitTimeout", wait))
		}
	}
	check("Admission.Limiter.QueueTimeout", cmp.Or(l.QueueTimeout, admission.DefaultQueueTimeout))
	for i, r := range l.Routes {
		if r.Queue >= 0 && r.QueueTimeout > 0 { // others have that of the limiter
			check(fmt.Sprintf("Admission.Limiter.Routes[%d].QueueTimeout", i), r.QueueTimeout)
		}
	}
}

// ceiling returns what the named route can take at most, and which option says so.
func ceiling(o *admission.Options, route string) (limit int, by string) {
	for i, r := range o.Routes {
		if r.Name == route && r.Limit > 0 {
			return r.Limit, fmt.Sprintf("Admission.Limiter.Routes[%d].Limit", i)
		}
	}
	return cmp.Or(o.Limit, admission.DefaultLimit), "Admission.Limiter.Limit"
}

// checkRoute checks what the route says, and finds its ceilings.
func (g *governor) checkRoute(bad *problems, at RouteAdmission) {
	const field = "Default.Admission."
	if at.Class > admission.Background {
		bad.add(field+"Class", at.Class, "must be admission.Normal, Critical or Background")
	}
	if at.Cost < 0 {
		bad.add(field+"Cost", at.Cost, "must not be negative; leave it 0 for the cost of Route")
	} else if g.Limiter != nil {
		if limit, by := ceiling(g.Limiter, at.Route); limit > 0 && at.Cost > limit {
			bad.add(field+"Cost", at.Cost, fmt.Sprintf("is above %s (%d); lower it, or raise that", by, limit))
		}
	}
	if g.Limiter == nil && (at.Class != 0 || at.Route != "" || at.Cost > 0) {
		bad.add("Default.Admission", at, "has no effect without Admission.Limiter; set that too, or leave this out")
	} else if at.Route != "" && g.limiter != nil {
		var ok bool
		if g.route, ok = g.limiter.Route(at.Route); !ok {
			bad.add(field+"Route", at.Route, "isn't in Admission.Limiter.Routes; add it there, or leave it empty")
		}
	}
	if at.Rate == "" {
		return
	}
	if g.Guard == nil {
		bad.add(field+"Rate", at.Rate, "has no effect without Admission.Guard; set that too, or leave this out")
		return
	}
	if !g.hasRate(at.Rate) {
		bad.add(field+"Rate", at.Rate, "isn't a route of the Guard's policy; add it there, or leave it empty")
	}
}

func (g *governor) hasRate(name string) bool {
	return slices.ContainsFunc(g.Guard.Policy().Routes, func(r guard.Route) bool { return r.Name == name })
}

// place is what the requests of one handler count as.
type place struct {
	route  admission.RouteID
	rate   string // a route of the guard's policy
	weight int
}

// place returns that of a zone's handler.
func (g *governor) place(zone string, at RouteAdmission) place {
	if g == nil {
		return place{}
	}
	p := place{g.route, at.Rate, g.Weights[zone]}
	if g.limiter != nil && at.Route == "" {
		p.route, _ = g.limiter.Route(zone)
	}
	if g.Guard != nil && at.Rate == "" && g.hasRate(zone) {
		p.rate = zone
	}
	return p
}

func (g *governor) close() {
	if g != nil && g.overload != nil {
		g.overload.Close()
	}
}

// client is the address of a request's client, invalid if it has none.
func (g *governor) client(r *http.Request) netip.Addr {
	return clientAddr(r, g.trusted, g.ClientField)
}

// hash tells clients apart: by the address, or the /64 of an IPv6 one. Nobody can
// choose it.
func (g *governor) hash(client netip.Addr) uint64 {
	if !client.IsValid() {
		return 0
	}
	b := client.As16()
	if client.Is6() && !client.Is4In6() {
		clear(b[8:])
	}
	return maphash.Bytes(g.seed, b[:])
}

// AdmissionStats is what admission holds and has done.
type AdmissionStats struct {
	Limiter  admission.Stats         // zero without Admission.Limiter
	Overload admission.OverloadStats // zero without Admission.Overload
	Clients  ClientStats             // zero without Admission.ClientLimit
}

// AdmissionStats returns figures of this moment. Those of the Guard and the Verifier
// are their own. It allocates.
func (m *Middleware) AdmissionStats() AdmissionStats {
	var s AdmissionStats
	if m.governor != nil && m.governor.limiter != nil {
		s.Limiter = m.governor.limiter.Stats()
	}
	if m.governor != nil && m.governor.overload != nil {
		s.Overload = m.governor.overload.Stats()
	}
	if m.governor != nil {
		s.Clients = m.governor.clients.stats()
	}
	return s
}
