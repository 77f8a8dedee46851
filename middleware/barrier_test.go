package middleware

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

var trustedNet = Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}}

const whyForwarded = "the request has forwarding or override fields that no trusted proxy sent"

// Where nobody said which proxies are trusted, each field that shapes responses
// without being in the key keeps the cache out, in odd spellings too.
func TestBarrierWithoutConfiguration(t *testing.T) {
	names := []string{"X_Forwarded_Host", "X-Forwarded_Proto", "X_Original_Url"}
	for name := range barrierFields {
		names = append(names, name)
	}
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("page"))
		s.get("/")
		for i, name := range names {
			r := s.get("/", name, "evil.example")
			r.is(t, bypassed("page", whyForwarded))
			require.Equal(t, []string{"evil.example"}, s.last().Header[name])
			s.asked(i + 2)
		}
		r := s.get("/", "X-Forwarded-For", "192.0.2.9")
		r.is(t, hit("page", 60, 0))
	})
}

// From a peer that isn't trusted the fields are removed, before a fetch as well
// as on the way past the cache.
func TestBarrierStripsUntrusted(t *testing.T) {
	names := []string{"X_Forwarded_Host", "X-Forwarded_Proto"}
	for name := range barrierFields {
		names = append(names, name)
	}
	for _, name := range names {
		bubble(t, func(t *testing.T) {
			s := newSite(t, trustedNet, public("page"))
			r := s.get("/", name, "evil", "Peer", "192.0.2.1", "X-Kept", "yes")
			r.is(t, missed("page", 60))
			require.NotContains(t, s.last().Header, name)
			require.Equal(t, "yes", s.last().Header.Get("X-Kept"))
			r = s.get("/")
			r.is(t, hit("page", 60, 0))
			s.do("POST", "/", name, "evil", "Peer", "192.0.2.1")
			require.Equal(t, "POST", s.last().Method)
			require.NotContains(t, s.last().Header, name)
		})
	}
}

// A trusted proxy's fields are scheme and host of the key and reach the origin.
func TestBarrierFoldsTrusted(t *testing.T) {
	for _, c := range [][]string{
		{"X-Forwarded-Host", "shop.test", "X-Forwarded-Proto", "https"},
		{"X-Forwarded-Host", "SHOP.test", "X-Forwarded-Scheme", "HTTPS"},
		{"Forwarded", `for=192.0.2.2;host="shop.test";proto=https`},
	} {
		for _, peer := range []string{"10.1.2.3", "[fd00::1]", "[::ffff:10.1.2.3]"} {
			bubble(t, func(t *testing.T) {
				s := newSite(t, trustedNet, public("page"), public("other"))
				r := s.get("/", append([]string{"Peer", peer, "Host", "internal:8080"}, c...)...)
				r.is(t, missed("page", 60))
				require.Equal(t, c[1], s.last().Header.Get(c[0]))
				r = s.get("/", append([]string{"Peer", peer, "Host", "internal:8080"}, c...)...)
				r.is(t, hit("page", 60, 0))
				r = s.get("/", "Host", "internal:8080")
				r.is(t, missed("other", 60))
			})
		}
	}
}

// Junk in a trusted proxy's fields makes no keys: the cache keeps out.
func TestBarrierRefusesJunkFromTrusted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, trustedNet, public("page"))
		for _, c := range [][]string{
			{"X-Forwarded-Proto", "aaa1"},
			{"X-Forwarded-Proto", "https,http"},
			{"X-Forwarded-Proto", "https", "X-Forwarded-Scheme", "http"},
			{"X-Forwarded-Host", "a b"},
			{"X-Forwarded-Host", "a/b"},
			{"X-Forwarded-Host", ""},
			{"X-Forwarded-Host", "a", "X-Forwarded-Host", "b"},
			{"Forwarded", "junk"},
			{"Forwarded", "host=evil.test, host=shop.test"},
			{"Forwarded", "proto=gopher"},
			{"X-Http-Method-Override", "DELETE"},
			{"X-Original-Url", "/admin"},
		} {
			r := s.get("/", append([]string{"Peer", "10.0.0.1"}, c...)...)
			r.is(t, bypassed("page", whyForwarded))
		}
		require.Zero(t, s.mw.Stats().Memory.Objects)
	})
}

// Anyone sends X-Forwarded-Proto with ever new values for one page: it stays one
// stored response.
func TestJunkForwardedProtoMintsNoKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, trustedNet, public("page"))
		for _, proto := range []string{"aaa1", "aaa2", "https", "http"} {
			s.get("/", "Peer", "192.0.2.1", "X-Forwarded-Proto", proto)
		}
		s.asked(1)
		require.EqualValues(t, 1, s.mw.Stats().Memory.Objects)
	})
}

// A trusted proxy vouches for what it sends, not for a spelling with underscores
// that it let through from a visitor: everything of the kind is removed then.
func TestUnderscoreSpellingsThroughTrustedProxy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, trustedNet, public("page"))
		r := s.get("/", "Peer", "10.0.0.1", "X_forwarded_host", "evil")
		r.is(t, missed("page", 60))
		require.NotContains(t, s.last().Header, "X_forwarded_host")
	})
}

// The framework behind answers with a redirect to itself when a visitor claims
// to come by http. That redirect isn't for anybody else.
func TestForwardedSchemeRedirectIsNotShared(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, testnet.Text(301, "away", "Cache-Control", "max-age=60", "Location", "/p"), public("page"))
		r := s.get("/p", "X-Forwarded-Scheme", "http")
		require.Equal(t, 301, r.status)
		r = s.get("/p")
		r.is(t, missed("page", 60))
	})
}

// A visitor overrides the method and gets a 404 that says max-age. It isn't the
// page's answer for others.
func TestMethodOverrideIsNotShared(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, testnet.Text(404, "gone", "Cache-Control", "max-age=60"), public("page"))
		r := s.get("/ok", "X-Http-Method-Override", "DELETE")
		require.Equal(t, 404, r.status)
		r = s.get("/ok")
		r.is(t, missed("page", 60))
	})
}

// A form that deletes by POST and method override, through a trusted proxy that
// ended TLS: the page under https is the one that is invalidated.
func TestOverriddenUnsafeMethodInvalidatesByProxyScheme(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, trustedNet, public("old"), testnet.Text(200, "done"), public("new"))
		forwarded := []string{"Peer", "10.0.0.1", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "shop.test"}
		s.get("/p", forwarded...)
		s.do("POST", "/p", append(forwarded, "X-Http-Method-Override", "DELETE")...)
		r := s.get("/p", forwarded...)
		r.is(t, missed("new", 60))
	})
}

// A Forwarded field is read as it is everywhere: what is quoted is part of a value.
func TestForwardedOfATrustedProxy(t *testing.T) {
	for _, c := range []struct {
		field string
		ok    bool
		want  barrier
	}{
		{`for=192.0.2.2;host="shop.test";proto=https`, true, barrier{host: "shop.test", scheme: "https"}},
		{`HOST=shop.test:8080;Proto=HTTPS`, true, barrier{host: "shop.test:8080", scheme: "https"}},
		{`for="_a;host=evil.test"`, true, barrier{}},
		{`for="_a;host=evil.test";host=shop.test`, true, barrier{host: "shop.test"}},
		{`for="_a\";host=evil.test;x=\"";proto=http`, true, barrier{scheme: "http"}},
		{`host="shop\.test"`, true, barrier{host: "shop.test"}},
		{`secret=_x;by=_y`, true, barrier{}},
		{`host="a\"b"`, false, barrier{}},
		{`host="a`, false, barrier{}},
		{`host=a"`, false, barrier{}},
		{`host=`, false, barrier{}},
		{`host=""`, false, barrier{}},
		{`host=a;host=b`, false, barrier{}},
		{`host=a;host=a`, false, barrier{}},
		{`proto=gopher`, false, barrier{}},
		{`host=a, host=b`, false, barrier{}},
		{`for="_a,host=b"`, false, barrier{}},
		{`junk`, false, barrier{}},
		{`host = a`, false, barrier{}},
	} {
		var b barrier
		require.Equal(t, c.ok, b.foldForwarded(c.field), c.field)
		if c.ok {
			require.Equal(t, c.want, b, c.field)
		}
	}
}
