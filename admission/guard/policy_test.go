package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/admission"
)

// fields returns the fields of all problems that err joins, in order.
func fields(err error) (out []string) {
	var bad *admission.ConfigError
	switch e := err.(type) {
	case nil:
		return nil
	case interface{ Unwrap() []error }:
		for _, e := range e.Unwrap() {
			out = append(out, fields(e)...)
		}
	default:
		if !errors.As(err, &bad) {
			return []string{err.Error()}
		}
		out = append(out, bad.Field)
	}
	return out
}

func TestPolicyRefusesContradictions(t *testing.T) {
	assert.NoError(t, policy().Validate(now))
	for _, c := range []struct {
		name   string
		change func(*Policy)
		want   []string
		cure   string // part of the first message
	}{
		{"no version", func(p *Policy) { p.Version = 0 }, []string{"Version"}, "1 or more"},
		{"no expiry", func(p *Policy) { p.Expires = time.Time{} }, []string{"Expires"}, "say when"},
		{"expired", func(p *Policy) { p.Expires = now }, []string{"Expires"}, "has expired"},
		{"expiry that JSON can't say", func(p *Policy) { p.Expires = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, []string{"Expires"}, "10000"},
		{"no global rate", func(p *Policy) { p.Global = admission.Rate{} }, []string{"Global.PerSecond"}, "between"},
		{"rate that isn't a number", func(p *Policy) { p.Address.PerSecond = math.NaN() }, []string{"Address.PerSecond"}, "between"},
		{"unknown above global", func(p *Policy) { p.Global, p.Providers, p.Routes = rate(9, 99), nil, nil }, []string{"Unknown.PerSecond"}, "above that of Global"},
		{"address above unknown", func(p *Policy) { p.Address = rate(11, 10) }, []string{"Address.PerSecond"}, "above that of Unknown"},
		{"address burst above unknown", func(p *Policy) { p.Address = rate(1, 21) }, []string{"Address.Burst"}, "above that of Unknown"},
		{"provider above global", func(p *Policy) { p.Providers[1].Rate = rate(101, 50) }, []string{"Providers[1].Rate.PerSecond"}, "above that of Global"},
		{"class above its provider", func(p *Policy) { p.Providers[0].Classes[0].Rate = rate(51, 50) }, []string{"Providers[0].Classes[0].Rate.PerSecond"}, "above that of its provider"},
		{"class burst above its provider's", func(p *Policy) { p.Providers[0].Classes[0].Rate = rate(50, 61) }, []string{"Providers[0].Classes[0].Rate.Burst"}, "above that of its provider"},
		{"unknown above a class", func(p *Policy) { p.Providers[1].Classes[0].Rate = rate(9, 20) }, []string{"Unknown.PerSecond"}, "the known class small/only"},
		{"unknown burst above a class's", func(p *Policy) { p.Providers[1].Classes[0].Rate = rate(10, 19) }, []string{"Unknown.Burst"}, "the known class small/only"},
		{"unknown above a class that has its provider's rate", func(p *Policy) {
			p.Providers[1] = Provider{Name: "small", Rate: rate(9, 20), Classes: []Class{{Name: "only"}}}
		},
			[]string{"Unknown.PerSecond"}, "the known class small/only"},
		{"route above global", func(p *Policy) { p.Routes[0].Rate = rate(101, 40) }, []string{"Routes[0].Rate.PerSecond"}, "above that of Global"},
		{"route cost above the address's burst", func(p *Policy) { p.Routes[0].Cost = 11 }, []string{"Routes[0].Cost"}, "above the burst of Address"},
		{"route cost above its own burst", func(p *Policy) { p.Routes[0].Rate = rate(30, 4) }, []string{"Routes[0].Cost"}, "above the burst of Routes[0].Rate"},
		{"route cost above many bursts", func(p *Policy) { p.Routes[1].Cost = 61 },
			[]string{"Routes[1].Cost", "Routes[1].Cost", "Routes[1].Cost", "Routes[1].Cost", "Routes[1].Cost", "Routes[1].Cost"}, "above the burst of Unknown"},
		{"route cost below 0", func(p *Policy) { p.Routes[0].Cost = -1 }, []string{"Routes[0].Cost"}, "between 1"},
		{"route cost of a million and one", func(p *Policy) { p.Routes[0].Cost = 1_000_001 }, []string{"Routes[0].Cost"}, "between 1"},
		{"bad rates aren't compared", func(p *Policy) { p.Providers[0].Classes[0].Rate = rate(-1, 0); p.Routes[0].Rate = rate(1, -1) },
			[]string{"Providers[0].Classes[0].Rate.PerSecond", "Routes[0].Rate.Burst"}, "between"},
		{"burst without a rate", func(p *Policy) { p.Routes[0].Rate = rate(0, 5) }, []string{"Routes[0].Rate.PerSecond"}, "between"},
		{"names", func(p *Policy) {
			p.Providers[0].Name, p.Providers[1].Name = "a b", ""
			p.Providers[0].Classes[1].Name = "search"
			p.Routes[0].Name, p.Routes[1].Name = "Search", strings.Repeat("x", 65)
		}, []string{"Providers[0].Name", "Providers[0].Classes[1].Name", "Providers[1].Name", "Routes[0].Name", "Routes[1].Name"}, "lower-case"},
		{"names twice", func(p *Policy) { p.Providers[1].Name = "big"; p.Routes[1].Name = "search" }, []string{"Providers[1].Name", "Routes[1].Name"}, "used twice"},
		{"no class", func(p *Policy) { p.Providers[1].Classes = nil }, []string{"Providers[1].Classes"}, "without a class"},
		{"no work", func(p *Policy) { p.Work = Work{} }, []string{"Work.Global", "Work.Unknown", "Work.Local", "Providers[0].Work"}, "between 1"},
		{"unknown work above global", func(p *Policy) { p.Work.Unknown = 7 }, []string{"Work.Unknown", "Providers[0].Work"}, "can't be above Work.Global"},
		{"unknown as much as global", func(p *Policy) {
			p.Global, p.Unknown, p.Routes = rate(50, 60), rate(50, 20), nil
			p.Providers = []Provider{{Name: "big", Rate: rate(50, 60), Classes: []Class{{Name: "search"}}}}
		}, []string{"Unknown"}, "unknown clients alone could use that up, and known ones would get nothing; lower it, or raise Global"},
		{"unknown work as much as local", func(p *Policy) { p.Work.Local = 2 }, []string{"Work.Unknown"}, "isn't below Work.Global and Work.Local (2)"},
		{"unknown work as much as global", func(p *Policy) { p.Work = Work{6, 6, 6}; p.Providers[0].Work = 0 }, []string{"Work.Unknown"}, "isn't below Work.Global and Work.Local (6)"},
		{"local work above global", func(p *Policy) { p.Work.Local = 7 }, []string{"Work.Local"}, "can't be above Work.Global"},
		{"provider work above global", func(p *Policy) { p.Providers[0].Work = 7 }, []string{"Providers[0].Work"}, "between 1"},
		{"provider work below unknown", func(p *Policy) { p.Providers[0].Work = 1 }, []string{"Providers[0].Work"}, "below what unknown"},
		{"no operations", func(p *Policy) { p.Operations = 0 }, []string{"Operations"}, "between 1 and 1000"},
		{"too many operations", func(p *Policy) { p.Operations = 1001 }, []string{"Operations"}, "between 1 and 1000"},
		{"context age 0", func(p *Policy) { p.ContextAgeMS = 0 }, []string{"ContextAgeMS"}, "between 1 and 60000"},
		{"context age above a minute", func(p *Policy) { p.ContextAgeMS = 60_001 }, []string{"ContextAgeMS"}, "between 1 and 60000"},
		{"too many of all", func(p *Policy) {
			p.Routes = nil
			for i := range 1025 {
				p.Routes = append(p.Routes, Route{Name: fmt.Sprint(i)})
			}
			for i := range 63 {
				p.Providers = append(p.Providers, Provider{Name: fmt.Sprint(i), Rate: rate(50, 50), Classes: []Class{{Name: "a"}}})
			}
			for i := range 64 {
				p.Providers[1].Classes = append(p.Providers[1].Classes, Class{Name: fmt.Sprint(i)})
			}
		}, []string{"Providers", "Providers[1].Classes", "Routes"}, "64 at most"},
		{"all at once", func(p *Policy) { *p = Policy{} }, []string{"Version", "Expires", "Global.PerSecond", "Unknown.PerSecond",
			"Address.PerSecond", "Work.Global", "Work.Unknown", "Work.Local", "Operations", "ContextAgeMS"}, "1 or more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := policy()
			c.change(&p)
			err := p.Validate(now)
			assert.Equal(t, c.want, fields(err))
			var first *admission.ConfigError
			require.ErrorAs(t, err, &first)
			assert.Contains(t, first.Reason, c.cure)
			assert.Equal(t, c.want[0], first.Field)
		})
	}
}

const policyText = `{
	"version": 7, "expires": "2027-01-01T01:00:00+01:00",
	"global": {"per_second": 100}, "unknown": {"per_second": 10, "burst": 20}, "address": {"per_second": 0.5, "burst": 5},
	"providers": [{"name": "big", "rate": {"per_second": 50}, "work": 4, "classes": [{"name": "search", "rate": {"per_second": 20}}, {"name": "images"}]}],
	"routes": [{"name": "search", "cost": 5, "rate": {"per_second": 30}}, {"name": "page"}],
	"work": {"global": 8, "unknown": 2, "local": 8},
	"operations_per_request": 3, "context_age_ms": 60000
}`

func TestParsePolicy(t *testing.T) {
	p, err := ParsePolicy([]byte(policyText), now)
	require.NoError(t, err)
	assert.Equal(t, Policy{
		Version: 7, Expires: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC),
		Global: rate(100, 0), Unknown: rate(10, 20), Address: rate(0.5, 5),
		Providers: []Provider{{Name: "big", Rate: rate(50, 0), Work: 4, Classes: []Class{{Name: "search", Rate: rate(20, 0)}, {Name: "images"}}}},
		Routes:    []Route{{Name: "search", Cost: 5, Rate: rate(30, 0)}, {Name: "page"}},
		Work:      Work{Global: 8, Unknown: 2, Local: 8}, Operations: 3, ContextAgeMS: 60000,
	}, p)
}

func TestParsePolicyIsStrict(t *testing.T) {
	edit := func(old, new string) string { return strings.Replace(policyText, old, new, 1) }
	for name, text := range map[string]string{
		"unknown field":           edit(`"version": 7`, `"version": 7, "hint": 1`),
		"unknown field inside":    edit(`"cost": 5`, `"cost": 5, "price": 1`),
		"repeated field":          edit(`"version": 7`, `"version": 7, "version": 7`),
		"repeated field inside":   edit(`"cost": 5`, `"cost": 5, "cost": 5`),
		"another case":            edit(`"version"`, `"Version"`),
		"a letter that folds":     edit(`"version"`, `"verſion"`),
		"trailing object":         policyText + "{}",
		"trailing brace":          policyText + "}",
		"trailing text":           policyText + "x",
		"array":                   "[" + policyText + "]",
		"null":                    "null",
		"null inside":             edit(`"work": 4`, `"work": null`),
		"empty":                   "",
		"cut":                     policyText[:len(policyText)-2],
		"fraction":                edit(`"cost": 5`, `"cost": 5.5`),
		"negative version":        edit(`"version": 7`, `"version": -7`),
		"version above 64 bits":   edit(`"version": 7`, `"version": 18446744073709551616`),
		"rate above all":          edit(`"per_second": 100`, `"per_second": 1e999`),
		"text for a number":       edit(`"per_second": 100`, `"per_second": "100"`),
		"expiry without a zone":   edit(`2027-01-01T01:00:00+01:00`, `2027-01-01T01:00:00`),
		"expiry as a number":      edit(`"2027-01-01T01:00:00+01:00"`, `1800000000`),
		"year 10000 in UTC":       edit(`2027-01-01T01:00:00+01:00`, `9999-12-31T23:00:00-23:00`),
		"expired":                 edit(`2027`, `2026`),
		"contradiction":           edit(`"context_age_ms": 60000`, `"context_age_ms": 60001`),
		"too deep":                strings.Repeat("[", 100_000),
		"too deep inside":         edit(`"cost": 5`, `"cost": `+strings.Repeat(`{"a":`, 100_000)),
		"longer than MaxPolicy":   policyText + strings.Repeat(" ", MaxPolicyBytes),
		"two names for one field": edit(`"version": 7`, `"version": 7, "VERSION": 8`),
	} {
		t.Run(name, func(t *testing.T) {
			p, err := ParsePolicy([]byte(text), now)
			assert.Error(t, err)
			assert.Equal(t, Policy{}, p)
			assert.Less(t, len(fmt.Sprint(err)), 500)
		})
	}
	_, err := ParsePolicy([]byte(policyText+" \n"), now)
	assert.NoError(t, err)
}

// Nothing panics, and what is accepted is valid, can be written, and reads the same.
func FuzzPolicy(f *testing.F) {
	f.Add([]byte(policyText))
	text, err := json.Marshal(policy())
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte(strings.Replace(policyText, `"providers"`, `"providers":[],"x"`, 1)))
	f.Add([]byte(strings.Replace(policyText, `[{"name": "search", "cost"`, `[],"x":[{"name": "search", "cost"`, 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParsePolicy(data, now)
		if err != nil {
			require.Equal(t, Policy{}, p)
			return
		}
		require.NoError(t, p.Validate(now))
		text, err := json.Marshal(p)
		require.NoError(t, err)
		again, err := ParsePolicy(text, now)
		require.NoError(t, err)
		require.Equal(t, p, again)
		g := &Guard{now: func() time.Time { return now }}
		require.NoError(t, g.check(p))
		_, err = New(Options{Policy: withLongerExpiry(p), Addresses: 1})
		require.NoError(t, err, "a guard takes what is valid")
	})
}

// withLongerExpiry makes a policy that is valid at now valid whenever the test runs.
func withLongerExpiry(p Policy) Policy {
	p.Expires = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	return p
}

// Unknown clients can't use up what a known one has on a route, and a policy in which
// they could is refused.
func TestUnknownClientsLeaveRoomOnARoute(t *testing.T) {
	p := policy()
	p.Address, p.Unknown = rate(10, 20), rate(10, 20)
	p.Providers[1].Rate, p.Providers[1].Classes[0].Rate = rate(20, 20), rate(10, 20)
	p.Routes[0].Rate = rate(10, 20)
	require.ErrorContains(t, p.Validate(now), "Routes[0].Rate = {10 20}: isn't above Unknown")
	p.Routes[0].Unknown = rate(10, 20)
	require.ErrorContains(t, p.Validate(now), "Routes[0].Unknown = {10 20}: isn't below Routes[0].Rate")
	p.Routes[0].Unknown = rate(11, 20)
	require.ErrorContains(t, p.Validate(now), "Routes[0].Unknown.PerSecond = 10.999999989: is above that of Routes[0].Rate")
	p.Routes[0].Unknown = rate(5, 4)
	require.ErrorContains(t, p.Validate(now), "Routes[0].Cost = 5: is above the burst of Routes[0].Unknown")
	alone := p
	alone.Providers, alone.Routes = nil, []Route{{Name: "search", Rate: rate(10, 20)}}
	require.NoError(t, alone.Validate(now), "nobody is known")
	p.Routes[0].Unknown = rate(5, 10)
	require.NoError(t, p.Validate(now))

	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, p)
		known := 0
		for n := range 1000 { // ten seconds
			addr := netip.AddrFrom4([4]byte{100, 0, byte(n >> 8), byte(n)})
			if d := g.Admit(Request{Addr: addr}, "search"); !d.OK() {
				require.Equal(t, RateRouteUnknown, d.Reason)
			}
			if n%100 == 99 && g.Admit(from(bigSearch), "search").OK() {
				known++
			}
			time.Sleep(10 * time.Millisecond)
		}
		require.Equal(t, 10, known)
	})
}
