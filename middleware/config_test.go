package middleware

import (
	"errors"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/store"
)

// Each wrong option is refused by an error that names it and says what to do.
func TestWrongOptions(t *testing.T) {
	ttl := func(v TTL) Options { return Options{Default: Route{TTL: v}} }
	for _, c := range []struct {
		field, cure string
		o           Options
	}{
		{"Name", "printable ASCII", Options{Name: "wéir"}},
		{"StatusHeader", "header field name", Options{StatusHeader: "a b"}},
		{"TrustedProxies[1]", "netip.ParsePrefix", Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), {}}}},
		{"WaitTimeout", "leave it 0 for 30s", Options{WaitTimeout: -1}},
		{"Targets[0]", "CDN-Cache-Control", Options{Targets: []string{"a:b"}}},
		{"Default.Methods[1]", "only GET and HEAD", Options{Default: Route{Methods: []string{"GET", "POST"}}}},
		{"Default.Methods", "CacheOff", Options{Default: Route{Methods: []string{"HEAD"}}}},
		{"Default.Methods", "CacheOff", Options{Default: Route{Methods: []string{}}}},
		{"Default.RangeWindow", "ForwardRange", Options{Default: Route{RangeWindow: -1}}},
		{"Default.BypassCookies[0]", "one asterisk", Options{Default: Route{BypassCookies: []string{"a*b"}}}},
		{"Default.BypassCookies[0]", "one asterisk", Options{Default: Route{BypassCookies: []string{"*"}}}},
		{"Default.BypassCookies[1]", "cookie name", Options{Default: Route{BypassCookies: []string{"a", ""}}}},
		{"Default.BypassCookies[0]", "cookie name", Options{Default: Route{BypassCookies: []string{"a=b"}}}},
		{"Default.StaleWhileRevalidate", "0 leaves it to the origin", Options{Default: Route{StaleWhileRevalidate: -1}}},
		{"Default.StaleIfError", "0 leaves it to the origin", Options{Default: Route{StaleIfError: -1}}},
		{"Default.TTL.ByStatus", "200 to 599", ttl(TTL{ByStatus: map[int]time.Duration{206: 1}})},
		{"Default.TTL.ByStatus", "200 to 599", ttl(TTL{ByStatus: map[int]time.Duration{304: 1}})},
		{"Default.TTL.ByStatus", "200 to 599", ttl(TTL{ByStatus: map[int]time.Duration{199: 1}})},
		{"Default.TTL.ByClass", "2, 3, 4 or 5", ttl(TTL{ByClass: map[int]time.Duration{200: 1}})},
		{"Default.TTL.Floor", "0 means none", ttl(TTL{Floor: -1})},
		{"Default.TTL.Ceiling", "CacheOff", ttl(TTL{Ceiling: -1})},
		{"Default.TTL.Floor", "TTL.Ceiling (1m0s)", ttl(TTL{Floor: time.Hour, Ceiling: time.Minute})},
	} {
		mw, err := New(c.o)
		require.Nil(t, mw, c.field)
		var bad *ConfigError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, c.field, bad.Field)
		require.Contains(t, bad.Reason, c.cure)
		require.Contains(t, err.Error(), "middleware: "+c.field+" = ")
	}
}

// Errors of the key and of the store say where they belong.
func TestWrongOptionsOfOtherPackages(t *testing.T) {
	_, err := New(Options{Default: Route{Key: cachekey.Options{Query: cachekey.Include()}}})
	var key *cachekey.ConfigError
	require.ErrorAs(t, err, &key)
	require.Equal(t, "Query.Names", key.Field)
	require.ErrorContains(t, err, "Default.Key")
	_, err = New(Options{Store: store.Options{MemoryBytes: 1}})
	var st *store.ConfigError
	require.ErrorAs(t, err, &st)
	require.Equal(t, "MemoryBytes", st.Field)
}

// All that is wrong is reported at once.
func TestAllWrongOptionsAtOnce(t *testing.T) {
	_, err := New(Options{
		Name: "\n", WaitTimeout: -1, StallTimeout: math.MaxInt64, BodyTimeout: 25 * time.Hour, Store: store.Options{MemoryBytes: 1, FillBytes: 1},
		Default: Route{Methods: []string{"PUT"}, BypassCookies: []string{"**"}, StaleIfError: -1, Key: cachekey.Options{Headers: []string{"a b"}}},
	})
	var all []string
	var walk func(error)
	walk = func(err error) {
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			for _, one := range many.Unwrap() {
				walk(one)
			}
			return
		}
		var bad *ConfigError
		var key *cachekey.ConfigError
		var st *store.ConfigError
		switch {
		case errors.As(err, &bad):
			all = append(all, bad.Field)
		case errors.As(err, &key):
			all = append(all, key.Field)
		case errors.As(err, &st):
			all = append(all, st.Field)
		}
	}
	walk(err)
	require.ElementsMatch(t, []string{"Name", "WaitTimeout", "StallTimeout", "BodyTimeout", "MemoryBytes", "FillBytes", "Default.Methods[0]", "Default.Methods",
		"Default.BypassCookies[0]", "Default.StaleIfError", "Headers[0]"}, all)
}

// Negative values are fine where the comment gives them a meaning.
func TestMeaningfulNegatives(t *testing.T) {
	mw, err := New(Options{FetchTimeout: -1, StallTimeout: -1, UnshareableFor: -1, Default: Route{
		HeuristicMax: -1, StaleOnDisconnect: -1, TTL: TTL{ErrorMax: -1, ByStatus: map[int]time.Duration{200: -1}},
	}})
	require.NoError(t, err)
	require.NoError(t, mw.Close(t.Context()))
}

// What the caller does to its slices and maps afterwards changes nothing.
func TestLaterChangesOfTheOptionsHaveNoEffect(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := Options{
			TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
			Targets:        []string{"CDN-Cache-Control"},
			Default: Route{
				Methods: []string{"GET", "HEAD"}, BypassCookies: []string{"sid"},
				TTL: TTL{ByStatus: map[int]time.Duration{200: time.Minute}, ByClass: map[int]time.Duration{2: time.Minute}},
				Key: cachekey.Options{Query: cachekey.Exclude("x"), Headers: []string{"Mood"}},
			},
		}
		s := newSite(t, o, public("page"))
		o.TrustedProxies[0] = netip.MustParsePrefix("192.0.2.0/24")
		o.Targets[0] = "Other"
		o.Default.Methods[1] = "POST"
		o.Default.BypassCookies[0] = "other"
		o.Default.TTL.ByStatus[200] = time.Hour
		o.Default.TTL.ByClass[2] = time.Hour
		o.Default.Key.Query.Names[0] = "y"
		o.Default.Key.Headers[0] = "Other"
		r := s.get("/?x=1", "X-Forwarded-Proto", "https", "Peer", "192.0.2.1")
		r.is(t, missed("page", 60))
		r = s.get("/", "Other", "x")
		r.is(t, hit("page", 60, 0))
		r = s.do("HEAD", "/")
		r.is(t, hit("", 60, 0))
		r = s.get("/", "Mood", "good")
		r.is(t, missed("page", 60))
		r = s.get("/", "Cookie", "sid=1")
		require.Equal(t, "BYPASS", r.header.Get("Weir-Cache-Status"))
	})
}
