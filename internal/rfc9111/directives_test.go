package rfc9111

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestParseResponse(t *testing.T) {
	const sat = farFuture
	for _, tc := range []struct {
		name  string
		lines []string
		want  Directives
	}{
		{"§5.2.2: all of them", []string{"no-store, No-CACHE, private, public, must-revalidate, proxy-revalidate, must-understand, no-transform, immutable, max-age=1, s-maxage=2, stale-while-revalidate=3, stale-if-error=4"},
			Directives{NoStore: true, NoCache: true, Private: true, Public: true, MustRevalidate: true, ProxyRevalidate: true, MustUnderstand: true, NoTransform: true, Immutable: true,
				HasMaxAge: true, MaxAge: time.Second, HasSMaxAge: true, SMaxAge: 2 * time.Second,
				HasStaleWhileRevalidate: true, StaleWhileRevalidate: 3 * time.Second, HasStaleIfError: true, StaleIfError: 4 * time.Second}},
		{"§5.2: case and extensions", []string{"foobar, MaX-aGe=3600, x=y"}, Directives{HasMaxAge: true, MaxAge: time.Hour}},
		{"§4.2.1: repeated in a line", []string{"max-age=1800, max-age=1"}, Directives{HasMaxAge: true, MaxAge: time.Second}},
		{"§4.2.1: repeated, the other way", []string{"max-age=1, max-age=1800"}, Directives{HasMaxAge: true, MaxAge: time.Second}},
		{"§4.2.1: repeated over lines", []string{"max-age=1800", "max-age=1"}, Directives{HasMaxAge: true, MaxAge: time.Second}},
		{"§5.2: quoted", []string{`max-age="3600"`}, Directives{HasMaxAge: true, MaxAge: time.Hour}},
		{"§5.6.4: inside another's quotes", []string{`ext="max-age=3600, no-store", max-age=1`}, Directives{HasMaxAge: true, MaxAge: time.Second}},
		{"§5.6.4: after it", []string{`max-age=1, ext="max-age=3600"`}, Directives{HasMaxAge: true, MaxAge: time.Second}},
		{"§1.2.2: leading zeros", []string{"max-age=003600"}, Directives{HasMaxAge: true, MaxAge: time.Hour}},
		{"§1.2.2: saturates", []string{"max-age=99999999999, s-maxage=2147483648"}, Directives{HasMaxAge: true, MaxAge: sat, HasSMaxAge: true, SMaxAge: sat}},
		{"§4.2.1: blank before =", []string{"max-age =3600"}, Directives{HasMaxAge: true}},
		{"§4.2.1: blank after =", []string{"max-age= 3600"}, Directives{HasMaxAge: true}},
		{"§4.2.1: single quotes", []string{"max-age='3600'"}, Directives{HasMaxAge: true}},
		{"§4.2.1: decimal", []string{"max-age=3600.0"}, Directives{HasMaxAge: true}},
		{"§4.2.1: letters", []string{"max-age=a3600, s-maxage=3600a"}, Directives{HasMaxAge: true, HasSMaxAge: true}},
		{"§4.2.1: negative", []string{"max-age=-3600"}, Directives{HasMaxAge: true}},
		{"§4.2.1: no argument", []string{"max-age, s-maxage="}, Directives{HasMaxAge: true, HasSMaxAge: true}},
		{"§4.2.1: unreadable beside readable", []string{"max-age=3600", "max-age=x"}, Directives{HasMaxAge: true}},
		{"two equals signs", []string{"max-age==3600"}, Directives{HasMaxAge: true}},
		{"semicolons restrict", []string{"private; no-store; max-age=60"}, Directives{Private: true, NoStore: true, HasMaxAge: true}},
		{"semicolons permit nothing", []string{"public; immutable; s-maxage=60"}, Directives{HasSMaxAge: true}},
		{"missing commas", []string{"max-age=60 no-store"}, Directives{HasMaxAge: true, NoStore: true}},
		{"an open quote hides nothing", []string{`x="a, no-store, max-age=60, public`}, Directives{NoStore: true, HasMaxAge: true}},
		{"a quote closed by the next one's", []string{`x="a, no-store, y="b", max-age=60`}, Directives{NoStore: true, HasMaxAge: true}},
		{"arguments don't unset", []string{"no-store=0, must-revalidate=no"}, Directives{NoStore: true, MustRevalidate: true}},
		{"§5.2.2.4: qualified", []string{`no-cache="a, B-c"`, "max-age=3600"}, Directives{NoCacheFields: []string{"A", "B-C"}, HasMaxAge: true, MaxAge: time.Hour}},
		{"§5.2.2.7: qualified", []string{`private="Set-Cookie"`}, Directives{PrivateFields: []string{"Set-Cookie"}}},
		{"§5.2.2.4: qualified and not", []string{`no-cache="a", no-cache`}, Directives{NoCacheFields: []string{"A"}, NoCache: true}},
		{"§5.2.2.4: token form counts as unqualified", []string{"no-cache=a, private=b"}, Directives{NoCache: true, Private: true}},
		{"§5.2.2.4: no names", []string{`no-cache="", private=" , "`}, Directives{NoCache: true, Private: true}},
		{"§5.2.2.4: not names", []string{`no-cache="a b"`}, Directives{NoCache: true}},
		{"§5.2.2.4: a field the body needs", []string{`no-cache="x, content-encoding"`}, Directives{NoCache: true}},
		{"empty", []string{"", " , "}, Directives{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := header()
			h["Cache-Control"] = tc.lines
			assert.Equal(t, tc.want, ParseResponse(h, DefaultTargets))
		})
	}
}

func TestParseTargeted(t *testing.T) {
	hour := Directives{Targeted: true, HasMaxAge: true, MaxAge: time.Hour}
	for _, tc := range []struct {
		name string
		h    []string
		want Directives
	}{
		{"RFC 9213 §2.2: instead of Cache-Control", []string{"Cache-Control", "no-store, private", "CDN-Cache-Control", "max-age=3600"}, hour},
		{"§2.2: first in order", []string{"CDN-Cache-Control", "no-store", "Weir-Cache-Control", "max-age=3600"}, hour},
		{"§2.2: an empty one doesn't count", []string{"Weir-Cache-Control", " ", "CDN-Cache-Control", "max-age=3600"}, hour},
		{"§2.1: a malformed one doesn't count", []string{"Weir-Cache-Control", "max-age=1, &&&", "CDN-Cache-Control", "max-age=3600"}, hour},
		{"§2.1: parameters don't count", []string{"CDN-Cache-Control", "max-age=3600;x=1, foobar;y"}, hour},
		{"§2.1: lines join", []string{"CDN-Cache-Control", "max-age=3600", "CDN-Cache-Control", "no-store"}, Directives{Targeted: true, NoStore: true, HasMaxAge: true, MaxAge: time.Hour}},
		{"§2.1: malformed, none other", []string{"CDN-Cache-Control", "max-age =100", "Cache-Control", "max-age=1"}, Directives{HasMaxAge: true, MaxAge: time.Second}},
		{"§2.1: upper case is malformed", []string{"CDN-Cache-Control", "MaX-aGe=3600", "Cache-Control", "max-age=1"}, Directives{HasMaxAge: true, MaxAge: time.Second}},
		{"§2.1: wrong type gives no lifetime", []string{"CDN-Cache-Control", `max-age="3600"`, "Cache-Control", "max-age=60"}, Directives{Targeted: true, HasMaxAge: true}},
		{"§2.1: negative", []string{"CDN-Cache-Control", "max-age=-1, s-maxage=1.5"}, Directives{Targeted: true, HasMaxAge: true, HasSMaxAge: true}},
		{"saturates", []string{"CDN-Cache-Control", "max-age=99999999999"}, Directives{Targeted: true, HasMaxAge: true, MaxAge: farFuture}},
		{"repeated", []string{"CDN-Cache-Control", "max-age=1, max-age=3600"}, Directives{Targeted: true, HasMaxAge: true, MaxAge: time.Second}},
		{"flags", []string{"CDN-Cache-Control", `private, no-cache, no-store=?0, public=?0, immutable, must-revalidate`}, Directives{Targeted: true, Private: true, NoCache: true, NoStore: true, Immutable: true, MustRevalidate: true}},
		{"qualified", []string{"CDN-Cache-Control", `private="a, b", no-cache=c`}, Directives{Targeted: true, PrivateFields: []string{"A", "B"}, NoCache: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.want, ParseResponse(header(tc.h...), DefaultTargets))
		})
	}
	assert.Equal(t, Directives{NoStore: true}, ParseResponse(header("CDN-Cache-Control", "max-age=9", "Cache-Control", "no-store"), []string{}))
}

func TestParseRequest(t *testing.T) {
	for _, tc := range []struct {
		name string
		h    []string
		want RequestDirectives
	}{
		{"nothing", nil, RequestDirectives{}},
		{"§5.2.1: all of them", []string{"Cache-Control", "no-store, no-cache, max-age=1", "Cache-Control", "Min-Fresh=2, max-stale=3, only-if-cached, stale-if-error=4"},
			RequestDirectives{Has: RequestForcesWork | RequestMaxStale | RequestOnlyIfCached | RequestStaleIfError, MaxAge: time.Second, MinFresh: 2 * time.Second, MaxStale: 3 * time.Second, StaleIfError: 4 * time.Second}},
		{"§5.2.1.2: however stale", []string{"Cache-Control", "max-stale"}, RequestDirectives{Has: RequestMaxStale, MaxStale: farFuture}},
		{"§5.2.1.2: unreadable", []string{"Cache-Control", "max-stale=x, stale-if-error=-1"}, RequestDirectives{}},
		{"repeated", []string{"Cache-Control", "max-age=5, max-age=3, max-age=7, min-fresh=1, min-fresh=2, max-stale, max-stale=9"},
			RequestDirectives{Has: RequestMaxAge | RequestMinFresh | RequestMaxStale, MaxAge: 3 * time.Second, MinFresh: 2 * time.Second, MaxStale: 9 * time.Second}},
		{"unreadable limits are the strictest", []string{"Cache-Control", `max-age=x, min-fresh=x`}, RequestDirectives{Has: RequestMaxAge | RequestMinFresh, MinFresh: farFuture}},
		{"quoted", []string{"Cache-Control", `max-age="5", ext="no-cache"`}, RequestDirectives{Has: RequestMaxAge, MaxAge: 5 * time.Second}},
		{"§5.4: Pragma", []string{"Pragma", "foo, No-Cache"}, RequestDirectives{Has: RequestNoCache}},
		{"§5.4: Pragma of another kind", []string{"Pragma", "foo"}, RequestDirectives{}},
		{"§5.4: Pragma beside Cache-Control", []string{"Pragma", "no-cache", "Cache-Control", "foo"}, RequestDirectives{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.want, ParseRequest(header(tc.h...)))
		})
	}
}

// FuzzMalformation inserts anything between well-formed directives, as a member
// or as a line, and demands that nothing becomes more permissive by it.
func FuzzMalformation(f *testing.F) {
	f.Add(`x="`, uint8(1), uint8(0))
	f.Add(`max-age=99999, s-maxage="99999"`, uint8(0), uint8(3))
	f.Add(`"`, uint8(4), uint8(0xff))
	f.Add("s-maxage=5;", uint8(2), uint8(0x11))
	optional := []string{"no-store", "private", `no-cache="a"`, "must-revalidate", "proxy-revalidate", "no-cache", `x="y, z"`, `private="b"`}
	f.Fuzz(func(t *testing.T, junk string, at, which uint8) {
		if lower := strings.ToLower(junk); strings.Contains(lower, "must-understand") || strings.Contains(lower, "public") {
			return // well-formed, these permit something
		}
		base := []string{"max-age=100", "s-maxage=50", "stale-while-revalidate=30", "stale-if-error=40"}
		for i, o := range optional {
			if which&(1<<i) != 0 {
				base = append(base, o)
			}
		}
		n := int(at) % (len(base) + 1)
		head, tail := strings.Join(base[:n], ", "), strings.Join(base[n:], ", ")
		clean := Decide(get(200, header("Cache-Control", strings.Join(base, ", "))), &Policy{})
		var member string
		for _, part := range []string{head, junk, tail} {
			if part != "" && member != "" {
				member += ", "
			}
			member += part
		}
		for _, lines := range [][]string{{member}, {head, junk, tail}, {junk, head + ", " + tail}} {
			h := header()
			h["Cache-Control"] = lines
			got := Decide(get(200, h), &Policy{})
			c, g := clean.Life, got.Life
			switch {
			case got.Store && !clean.Store, got.ShareOnce && !clean.ShareOnce,
				g.Lifetime > c.Lifetime, g.StaleWhileRevalidate > c.StaleWhileRevalidate, g.StaleIfError > c.StaleIfError,
				c.NoCache && !g.NoCache, c.MustRevalidate && !g.MustRevalidate, c.SharedMaxAge && !g.SharedMaxAge,
				g.SharedExplicit && !c.SharedExplicit, g.AuthReusable && !c.AuthReusable && !g.MustRevalidate:
				t.Fatalf("%q:\n%+v\nwithout the junk\n%+v", lines, got, clean)
			}
		}
	})
}
