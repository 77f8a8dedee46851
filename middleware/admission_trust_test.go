package middleware

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/admission"
)

// A RemoteAddr without a port is the client that an outer handler found out.
func TestAddressWithoutPortIsTheClients(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, c := range []struct{ remote, want string }{
		{"203.0.113.7", "203.0.113.7"},
		{"::ffff:203.0.113.7", "203.0.113.7"},
		{"2001:db8::1", "2001:db8::1"},
		{"10.0.0.1:80", "198.51.100.1"},
		{"10.0.0.1", "10.0.0.1"}, // anyone can have written that
		{"@", "invalid IP"},
		{"", "invalid IP"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.remote
		r.Header.Set("X-Forwarded-For", "198.51.100.1")
		require.Equal(t, c.want, clientAddr(r, proxies, 0).String(), c.remote)
	}
}

// Prefixes of IPv4 may be written as mapped into IPv6.
func TestMappedPrefixesAreTrusted(t *testing.T) {
	cfg, err := resolve(Options{TrustedProxies: []netip.Prefix{
		netip.MustParsePrefix("::ffff:10.0.0.0/104"), netip.MustParsePrefix("::ffff:192.0.2.1/128"), netip.MustParsePrefix("2001:db8::/32"),
	}})
	require.NoError(t, err)
	require.Equal(t, []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("2001:db8::/32"),
	}, cfg.TrustedProxies)

	mw, err := New(Options{
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")},
		Admission:      AdmissionOptions{Guard: newGuard(t, perAddress)},
	})
	require.NoError(t, err)
	h := mw.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for i := range 10 {
		r := httptest.NewRequest("GET", "http://example.com/", nil)
		r.RemoteAddr = "10.0.0.1:1234"
		r.Header.Set("X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, 200, w.Code)
	}
	require.NoError(t, mw.Close(context.Background()))
}

// A PURGE by somebody who may not is a request like any other.
func TestStrangersPurgeHasItsRate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		asked := 0
		s := newSite(t, Options{
			Logger: slog.New(slog.DiscardHandler),
			Purge: PurgeOptions{Authorise: func(r *http.Request) (string, error) {
				asked++
				if r.Header.Get("Authorization") == "" {
					return "", errors.New("no")
				}
				return "operator", nil
			}},
			Admission: AdmissionOptions{Guard: newGuard(t, perAddress)},
		}, public("abc"))
		count := map[int]int{}
		for range 10 {
			count[s.do("PURGE", "/").status]++
		}
		require.Equal(t, map[int]int{403: 2, 429: 8}, count)
		require.Equal(t, 10, asked, "once for each")
		for range 10 {
			require.Equal(t, 200, s.do("PURGE", "/", "Authorization", "x").status)
		}
		require.Equal(t, 20, asked)
	})
}

// Nor is it let in when only the operator is.
func TestStrangersPurgeIsShed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		opts := Options{
			Purge: PurgeOptions{Authorise: func(r *http.Request) (string, error) {
				if r.Header.Get("Authorization") == "" {
					return "", errors.New("no")
				}
				return "operator", nil
			}},
			Admission: AdmissionOptions{Overload: &admission.OverloadOptions{Knee: 2, Limit: 3, OperatorLimit: 10, LagKnee: -1}},
		}
		o := newWorks(0)
		r := newRig(t, opts, o)
		var held []*call
		for i := range 3 {
			held = append(held, r.lead(fmt.Sprint("/held", i)))
		}
		purge := func(header ...string) int {
			req, err := http.NewRequest("PURGE", r.url+"/", nil)
			require.NoError(t, err)
			if len(header) > 0 {
				req.Header.Set(header[0], header[1])
			}
			res, err := r.client.Do(req)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			return res.StatusCode
		}
		require.Equal(t, 503, purge())
		require.Equal(t, 200, purge("Authorization", "x"))
		o.free()
		for _, c := range held {
			<-c.done
		}
	})
}

// Options that contradict each other are refused.
func TestAdmissionContradictionsAreRefused(t *testing.T) {
	with := func(l admission.Options, change func(*Options)) Options {
		o := limited(l)
		change(&o)
		return o
	}
	cost := func(n int, route string) func(*Options) {
		return func(o *Options) { o.Default.Admission = RouteAdmission{Cost: n, Route: route} }
	}
	routes := func(r ...admission.Route) admission.Options { return admission.Options{Routes: r} }
	for name, c := range map[string]struct {
		o    Options
		want string // "" if it's fine
	}{
		"queue outlasts the wait":    {limited(admission.Options{QueueTimeout: 31 * time.Second}), "Admission.Limiter.QueueTimeout = 31s: must be below WaitTimeout (30s)"},
		"queue as long as the wait":  {limited(admission.Options{QueueTimeout: 30 * time.Second}), "Admission.Limiter.QueueTimeout = 30s"},
		"queue ends before the wait": {limited(admission.Options{QueueTimeout: 30*time.Second - 1}), ""},
		"default outlasts the wait":  {with(admission.Options{}, func(o *Options) { o.WaitTimeout = time.Millisecond }), "Admission.Limiter.QueueTimeout = 1s"},
		"no queue":                   {with(admission.Options{Queue: -1}, func(o *Options) { o.WaitTimeout = time.Millisecond }), ""},
		"route outlasts the wait":    {limited(routes(admission.Route{Name: "a"}, admission.Route{Name: "b", QueueTimeout: time.Minute})), "Admission.Limiter.Routes[1].QueueTimeout = 1m0s"},
		"cost above all":             {with(admission.Options{Limit: 5}, cost(6, "")), "Default.Admission.Cost = 6: is above Admission.Limiter.Limit (5)"},
		"cost above the default":     {with(admission.Options{}, cost(1025, "")), "Default.Admission.Cost = 1025: is above Admission.Limiter.Limit (1024)"},
		"cost above the route":       {with(routes(admission.Route{Name: "a", Limit: 3}), cost(4, "a")), "Default.Admission.Cost = 4: is above Admission.Limiter.Routes[0].Limit (3)"},
		"cost as all":                {with(admission.Options{Limit: 5}, cost(5, "")), ""},
		"a field that nobody sets":   {Options{Admission: AdmissionOptions{ClientField: 1}}, "Admission.ClientField = 1: has no effect without TrustedProxies"},
		"standing without queue":     {limited(admission.Options{Queue: -1, StandingAfter: 1}), "Admission.Limiter.StandingAfter = 1ns: has no effect"},
		"old without queue":          {limited(admission.Options{Queue: -1, StandingTimeout: 1}), "Admission.Limiter.StandingTimeout = 1ns: has no effect"},
		"route: standing, no queue":  {limited(routes(admission.Route{Name: "a", Queue: -1, StandingAfter: 1})), "Admission.Limiter.Routes[0].StandingAfter = 1ns: has no effect"},
		"mapped, and more than that": {Options{TrustedProxies: []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr("::ffff:10.0.0.0"), 80)}}, "TrustedProxies[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			mw, err := New(c.o)
			if c.want == "" {
				require.NoError(t, err)
				require.NoError(t, mw.Close(context.Background()))
				return
			}
			require.ErrorContains(t, err, "middleware: "+c.want)
			_, several := errors.AsType[*ConfigError](err)
			require.True(t, several)
		})
	}
}
