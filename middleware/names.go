package middleware

import (
	"slices"

	"github.com/weirhttp/weir/admission/guard"
)

// checkIdentities refuses a verifier of somebody whom the policy doesn't know: they would
// count as unknown, for all their proof, and nothing would say so.
func (o *AdmissionOptions) checkIdentities(bad *problems) {
	if o.Verifier == nil || o.Guard == nil {
		return
	}
	known := map[guard.Identity]bool{}
	for _, p := range o.Guard.Policy().Providers {
		for _, c := range p.Classes {
			known[guard.Identity{Provider: p.Name, Class: c.Name}] = true
		}
	}
	for _, id := range o.Verifier.Identities() {
		if !known[id] {
			bad.add("Admission.Verifier", id, "is recognised by a source, but isn't a class of the Guard's policy, so that it would count as unknown; add it there, or correct the Identity of the source")
		}
	}
}

// unused are the names in o that no handler has, sorted: zones of Weights, and routes of
// Limiter that aren't named by the options either.
func (o *AdmissionOptions) unused(named string, has func(zone string) bool) (zones, routes []string) {
	for zone := range o.Weights {
		if !has(zone) {
			zones = append(zones, zone)
		}
	}
	if o.Limiter != nil {
		for _, r := range o.Limiter.Routes {
			if r.Name != named && !has(r.Name) {
				routes = append(routes, r.Name)
			}
		}
	}
	slices.Sort(zones)
	slices.Sort(routes)
	return zones, routes
}

// noteUnused logs, once, which zones and routes the options name that no handler has. It
// is called with the first request: handlers are usually made before.
func (m *Middleware) noteUnused() {
	if m.governor == nil {
		return
	}
	m.notedUnused.Do(func() {
		zones, routes := m.governor.unused(m.cfg.Default.Admission.Route, m.zones.known)
		if len(zones) > 0 || len(routes) > 0 {
			m.logger().Warn("middleware: Admission names zones or routes that no handler has yet, so they have no effect; give handlers these names with WrapZone, or correct them",
				"Weights", zones, "Limiter.Routes", routes)
		}
	})
}
