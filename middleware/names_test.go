package middleware

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/admission/guard"
)

// Whoever the verifier recognises and the policy doesn't know would be unknown for all
// its proof: a name that is misspelt on either side is refused, each once.
func TestVerifierRecognisesOnlyWhomThePolicyHas(t *testing.T) {
	g := newGuard(t, func(p *guard.Policy) {
		p.Unknown, p.Address = admission.Rate{PerSecond: 10}, admission.Rate{PerSecond: 10}
		p.Providers = []guard.Provider{{Name: "big", Rate: p.Global, Classes: []guard.Class{{Name: "search"}, {Name: "ads"}}}}
	})
	for name, c := range map[string]struct {
		ids  []guard.Identity
		want []string
	}{
		"nobody":           {},
		"all of them":      {ids: []guard.Identity{{Provider: "big", Class: "search"}, {Provider: "big", Class: "ads"}}},
		"another provider": {[]guard.Identity{{Provider: "bigbot", Class: "search"}}, []string{"Admission.Verifier = bigbot/search: "}},
		"another class and another provider, twice": {
			[]guard.Identity{{Provider: "big", Class: "image"}, {Provider: "big", Class: "ads"}, {Provider: "x", Class: "ads"}, {Provider: "x", Class: "ads"}},
			[]string{"Admission.Verifier = big/image: ", "Admission.Verifier = x/ads: "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var sources []guard.Source
			for _, id := range c.ids {
				sources = append(sources, guard.Source{Identity: id, Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
			}
			v, err := guard.NewVerifier(guard.VerifierOptions{Sources: sources})
			require.NoError(t, err)
			defer func() { require.NoError(t, v.Close(context.Background())) }()
			mw, err := New(Options{Admission: AdmissionOptions{Guard: g, Verifier: v}})
			if c.want == nil {
				require.NoError(t, err)
				require.NoError(t, mw.Close(context.Background()))
				return
			}
			require.Error(t, err)
			for _, w := range c.want {
				require.Contains(t, err.Error(), w)
			}
			require.Equal(t, len(c.want), strings.Count(err.Error(), "add it there, or correct the Identity"))
		})
	}
}

// What is named for a zone that no handler has is told once, when requests come; a
// handler that is made later has what is its.
func TestNamesThatNoHandlerHasAreLogged(t *testing.T) {
	for name, c := range map[string]struct {
		weights map[string]int
		routes  []admission.Route
		route   string
		want    string // of the line; empty: none
	}{
		"nothing named":  {},
		"what there is":  {weights: map[string]int{"shop": 2, "blog": 3}, routes: []admission.Route{{Name: "shop"}, {Name: "slow"}}, route: "slow"},
		"a weight":       {weights: map[string]int{"shopp": 2, "blog": 3}, want: "Weights=[shopp] Limiter.Routes=[]"},
		"a route":        {routes: []admission.Route{{Name: "shop"}, {Name: "slow"}}, want: "Weights=[] Limiter.Routes=[slow]"},
		"a weight later": {weights: map[string]int{"b": 2, "a": 2, "late": 9}, want: `Weights="[a b late]" Limiter.Routes=[]`},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			mw, err := New(Options{
				Logger:    slog.New(slog.NewTextHandler(&log, nil)),
				Admission: AdmissionOptions{Weights: c.weights, Limiter: &admission.Options{Routes: c.routes}},
				Default:   Route{Admission: RouteAdmission{Route: c.route}},
			})
			require.NoError(t, err)
			defer func() { require.NoError(t, mw.Close(context.Background())) }()
			shop, blog := mw.WrapZone("shop", http.NotFoundHandler()), mw.WrapZone("blog", http.NotFoundHandler())
			require.Empty(t, log.String())
			for _, h := range []http.Handler{shop, blog, shop} {
				h.ServeHTTP(recorder(), request("GET", "/"))
			}
			late := mw.WrapZone("late", http.NotFoundHandler())
			late.ServeHTTP(recorder(), request("GET", "/"))
			require.Equal(t, max(1, c.weights["late"]), max(1, late.(*handler).place.weight))
			if c.want == "" {
				require.Empty(t, log.String())
				return
			}
			require.Contains(t, log.String(), "level=WARN")
			require.Contains(t, log.String(), c.want)
			require.Equal(t, 1, strings.Count(log.String(), "\n"))
		})
	}
}
