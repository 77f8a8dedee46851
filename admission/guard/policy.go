package guard

import (
	"slices"
	"time"

	"github.com/weirhttp/weir/admission"
)

// Policy says who may do how much. It has no defaults besides those named here, so
// that what is written is all there is to know. It can be written as JSON, see
// [ParsePolicy].
type Policy struct {
	// Version orders policies: from 1 up. A guard never goes back to a lower one.
	Version uint64 `json:"version"`
	// Expires is when the policy ends, by the wall clock; required. From then on
	// nobody is known, see [Guard].
	Expires time.Time `json:"expires"`

	// Global is the rate of all requests together.
	Global admission.Rate `json:"global"`
	// Unknown is the rate of all requests together whose client isn't known. It
	// must not be above that of any class: else a client of that class would get
	// more by not being recognised. Where there are providers it has fewer per second
	// than Global: else unknown clients could use that up by themselves.
	Unknown admission.Rate `json:"unknown"`
	// Address is the rate of each address whose client isn't known; of IPv6
	// addresses, of each network (see Options.IPv6Prefix).
	Address admission.Rate `json:"address"`

	Providers []Provider `json:"providers,omitempty"` // up to 64
	Routes    []Route    `json:"routes,omitempty"`    // up to 1,024

	Work Work `json:"work"`
	// Operations is how many operations one request may start, from 1 to 1,000.
	Operations int `json:"operations_per_request"`
	// ContextAgeMS is how old a request may be when it starts an operation, in
	// milliseconds, from 1 to 60,000.
	ContextAgeMS int `json:"context_age_ms"`
}

// Provider is a source of known traffic.
type Provider struct {
	Name string `json:"name"`
	// Rate is the ceiling that the provider's classes share.
	Rate admission.Rate `json:"rate"`
	// Work is how many operations may run at once for it, at most Work.Global and
	// not below Work.Unknown. 0 means Work.Global.
	Work    int     `json:"work,omitempty"`
	Classes []Class `json:"classes"` // from 1 to 64
}

// Class is a part of a provider's traffic.
type Class struct {
	Name string `json:"name"`
	// Rate is the class's own ceiling. Zero means none besides the provider's.
	Rate admission.Rate `json:"rate,omitzero"`
}

// Route is a kind of request or operation.
type Route struct {
	Name string `json:"name"`
	// Cost is what one takes from each budget that it is debited from, up to a
	// million. 0 means 1.
	Cost int `json:"cost,omitempty"`
	// Rate is the rate of the route for all clients together. Zero means none
	// besides the others.
	Rate admission.Rate `json:"rate,omitzero"`
	// Unknown is the rate of the route for all unknown clients together, below Rate.
	// Zero means none besides the others. Where there are providers, unknown clients
	// must not be able to use Rate up by themselves: this, or Policy.Unknown, has
	// fewer per second.
	Unknown admission.Rate `json:"unknown,omitzero"`
}

// Work bounds the operations that run at once, each from 1 to 1,048,576.
type Work struct {
	Global int `json:"global"` // of all clients
	// Unknown is the bound of all clients that aren't known; where there are providers,
	// below Global and Local.
	Unknown int `json:"unknown"`
	// Local is the bound of this process by itself. It can be less than Global,
	// where that one is meant for several.
	Local int `json:"local"`
}

// clone returns a copy that shares nothing with p.
func (p Policy) clone() Policy {
	p.Providers = copied(p.Providers)
	for i := range p.Providers {
		p.Providers[i].Classes = copied(p.Providers[i].Classes)
	}
	p.Routes = copied(p.Routes)
	p.Expires = p.Expires.UTC().Round(0)
	return p
}

// copied is a copy of s; nil if it's empty, so that equal policies are equal.
func copied[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return slices.Clone(s)
}

// contextAge is ContextAgeMS as a duration.
func (p Policy) contextAge() time.Duration { return time.Duration(p.ContextAgeMS) * time.Millisecond }

// expired reports whether the policy has ended.
func (p Policy) expired(now time.Time) bool { return !now.Before(p.Expires) }
