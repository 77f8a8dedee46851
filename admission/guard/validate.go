package guard

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirhttp/weir/admission"
)

// The bounds of a policy.
const (
	MaxOperations   = 1000
	MaxContextAgeMS = 60_000
)

const (
	maxWork      = 1 << 20
	maxCost      = 1_000_000
	maxProviders = 64
	maxClasses   = 64
	maxRoutes    = 1024
	maxName      = 64
)

// checker collects what is wrong.
type checker []error

func (c *checker) bad(field string, value any, reason string) {
	*c = append(*c, &admission.ConfigError{Field: field, Value: value, Reason: reason})
}

// between checks that v is in a range.
func (c *checker) between(field string, v, low, high int, cure string) {
	if v < low || v > high {
		c.bad(field, v, fmt.Sprintf("must be between %d and %d; %s", low, high, cure))
	}
}

// name checks a name: it appears in logs, metrics and decisions.
func (c *checker) name(field, name string, seen map[string]bool) {
	switch {
	case name == "":
		c.bad(field, name, "must not be empty; give it a name")
	case len(name) > maxName:
		c.bad(field, name[:maxName]+"...", "must be 64 bytes at most; shorten it")
	case !plainName(name):
		c.bad(field, name, "may have lower-case letters, digits, '-', '_' and '.' only; rename it")
	case seen[name]:
		c.bad(field, name, "is used twice; give each its own name")
	}
	seen[name] = true
}

func plainName(s string) bool {
	for i := 0; i < len(s); i++ {
		switch b := s[i]; {
		case 'a' <= b && b <= 'z', '0' <= b && b <= '9', b == '-', b == '_', b == '.':
		default:
			return false
		}
	}
	return true
}

// rate checks a rate by itself, and reports whether it is one.
func (c *checker) rate(field string, r admission.Rate) bool {
	return c.told(field, r, "", r.Check())
}

// within checks that a good rate isn't above another good one.
func (c *checker) within(field string, r, parent admission.Rate, name string) {
	c.told(field, r, name, r.CheckWithin(parent))
}

// told passes on what is wrong with a rate, with the field's full name.
func (c *checker) told(field string, r admission.Rate, above string, err error) bool {
	var e *admission.ConfigError
	if !errors.As(err, &e) {
		return true
	}
	reason := e.Reason
	if above != "" {
		reason = "is above that of " + above + "; lower it, or raise the other"
	}
	c.bad(field+"."+e.Field, e.Value, reason)
	return false
}

// Validate reports all that is wrong with a policy at now, as *[admission.ConfigError]
// joined with errors.Join, or nil.
func (p Policy) Validate(now time.Time) error {
	var c checker
	if p.Version == 0 {
		c.bad("Version", p.Version, "must be 1 or more; raise it with each change")
	}
	switch {
	case p.Expires.IsZero():
		c.bad("Expires", p.Expires, "is missing; say when the policy ends")
	case p.Expires.UTC().Year() > 9999:
		c.bad("Expires", p.Expires, "is too far away; name a date before the year 10000")
	case p.expired(now):
		c.bad("Expires", p.Expires, "is in the past: the policy has expired; name a later time, or write a new policy")
	}
	v := validation{checker: &c, p: p}
	v.rates()
	v.work()
	v.providers()
	v.routes()
	return errors.Join(c...)
}

// validation is a policy that is being checked.
type validation struct {
	*checker
	p Policy
	// global and unknown say whether these rates are good by themselves, so that
	// others can be compared with them.
	global, unknown bool
	budgets         []budget // all that a request of a route may be debited from
}

// budget is a good rate with its name.
type budget struct {
	name string
	rate admission.Rate
}

func (v *validation) rates() {
	p := v.p
	v.global = v.rate("Global", p.Global)
	v.unknown = v.rate("Unknown", p.Unknown)
	address := v.rate("Address", p.Address)
	if v.global {
		v.budgets = append(v.budgets, budget{"Global", p.Global})
	}
	if v.unknown {
		v.budgets = append(v.budgets, budget{"Unknown", p.Unknown})
	}
	if address {
		v.budgets = append(v.budgets, budget{"Address", p.Address})
	}
	if v.global && v.unknown {
		v.within("Unknown", p.Unknown, p.Global, "Global")
		if len(p.Providers) > 0 && p.Unknown.PerSecond == p.Global.PerSecond {
			v.bad("Unknown", p.Unknown, "isn't below Global: "+usedUp+"; lower it, or raise Global")
		}
	}
	if v.unknown && address {
		v.within("Address", p.Address, p.Unknown, "Unknown")
	}
}

// usedUp is what happens where known clients share a budget that is no larger than what
// unknown ones have.
const usedUp = "unknown clients alone could use that up, and known ones would get nothing"

func (v *validation) work() {
	w := v.p.Work
	v.between("Work.Global", w.Global, 1, maxWork, "say how many operations may run at once")
	v.between("Work.Unknown", w.Unknown, 1, max(1, min(w.Global, maxWork)), "it can't be above Work.Global")
	v.between("Work.Local", w.Local, 1, max(1, min(w.Global, maxWork)), "it can't be above Work.Global")
	if low := min(w.Global, w.Local); len(v.p.Providers) > 0 && low >= 1 && w.Unknown >= low && w.Unknown <= w.Global {
		v.bad("Work.Unknown", w.Unknown, fmt.Sprintf("isn't below Work.Global and Work.Local (%d): %s; lower it, or raise these", low, usedUp))
	}
	v.between("Operations", v.p.Operations, 1, MaxOperations, "say how many operations a request may start")
	v.between("ContextAgeMS", v.p.ContextAgeMS, 1, MaxContextAgeMS, "say how old a request may be, in milliseconds")
}

func (v *validation) providers() {
	if len(v.p.Providers) > maxProviders {
		v.bad("Providers", len(v.p.Providers), "must be 64 at most; put small ones into one")
	}
	seen := map[string]bool{}
	for i, p := range v.p.Providers {
		at := fmt.Sprintf("Providers[%d].", i)
		v.name(at+"Name", p.Name, seen)
		good := v.rate(at+"Rate", p.Rate)
		if good {
			v.budgets = append(v.budgets, budget{at + "Rate", p.Rate})
		}
		if good && v.global {
			v.within(at+"Rate", p.Rate, v.p.Global, "Global")
		}
		w := v.p.Work
		if p.Work < 0 || p.Work > w.Global {
			v.bad(at+"Work", p.Work, fmt.Sprintf("must be between 1 and Work.Global (%d); leave it 0 for Work.Global", w.Global))
		} else if p.Work > 0 && p.Work < w.Unknown {
			v.bad(at+"Work", p.Work, fmt.Sprintf("is below what unknown clients get (%d): who isn't recognised would get more; raise it, or lower Work.Unknown", w.Unknown))
		}
		v.classes(at, p, good)
	}
}

func (v *validation) classes(at string, p Provider, providerGood bool) {
	if len(p.Classes) == 0 || len(p.Classes) > maxClasses {
		v.bad(at+"Classes", len(p.Classes), "must be from 1 to 64; a provider without a class can't be used")
	}
	seen := map[string]bool{}
	for i, cl := range p.Classes {
		at := fmt.Sprintf("%sClasses[%d].", at, i)
		v.name(at+"Name", cl.Name, seen)
		rate, good := p.Rate, providerGood
		if cl.Rate != (admission.Rate{}) {
			rate, good = cl.Rate, v.rate(at+"Rate", cl.Rate)
			if good {
				v.budgets = append(v.budgets, budget{at + "Rate", cl.Rate})
			}
			if good && providerGood {
				v.within(at+"Rate", cl.Rate, p.Rate, "its provider")
			}
		}
		if good && v.unknown {
			v.within("Unknown", v.p.Unknown, rate, "the known class "+Identity{p.Name, cl.Name}.String())
		}
	}
}

func (v *validation) routes() {
	if len(v.p.Routes) > maxRoutes {
		v.bad("Routes", len(v.p.Routes), "must be 1024 at most; put routes with the same limits into one")
	}
	seen := map[string]bool{}
	for i, r := range v.p.Routes {
		at := fmt.Sprintf("Routes[%d].", i)
		v.name(at+"Name", r.Name, seen)
		all := v.budgets
		if r.Rate != (admission.Rate{}) && v.rate(at+"Rate", r.Rate) {
			if v.global {
				v.within(at+"Rate", r.Rate, v.p.Global, "Global")
			}
			all = append(all[:len(all):len(all)], budget{at + "Rate", r.Rate})
		}
		if r.Unknown != (admission.Rate{}) && v.rate(at+"Unknown", r.Unknown) {
			if r.Rate != (admission.Rate{}) {
				v.within(at+"Unknown", r.Unknown, r.Rate, at+"Rate")
			}
			all = append(all[:len(all):len(all)], budget{at + "Unknown", r.Unknown})
		}
		v.leavesRoom(at, r)
		if r.Cost < 0 || r.Cost > maxCost {
			v.bad(at+"Cost", r.Cost, "must be between 1 and 1000000; leave it 0 for 1")
			continue
		}
		for _, b := range all {
			if !b.rate.Fits(max(r.Cost, 1)) {
				v.bad(at+"Cost", r.Cost, "is above the burst of "+b.name+" and could never be admitted; lower it, or raise that burst")
			}
		}
	}
}

// leavesRoom checks that unknown clients can't use a route up by themselves: then known
// ones would have nothing of what is theirs.
func (v *validation) leavesRoom(at string, r Route) {
	if len(v.p.Providers) == 0 || !v.unknown || r.Rate.Check() != nil { // or it has none
		return
	}
	if r.Unknown == (admission.Rate{}) {
		if v.p.Unknown.PerSecond >= r.Rate.PerSecond {
			v.bad(at+"Rate", r.Rate, "isn't above Unknown: "+usedUp+"; add an unknown rate below it to the route, or raise it")
		}
	} else if min(v.p.Unknown.PerSecond, r.Unknown.PerSecond) >= r.Rate.PerSecond {
		v.bad(at+"Unknown", r.Unknown, "isn't below "+at+"Rate: "+usedUp+"; lower it")
	}
}
