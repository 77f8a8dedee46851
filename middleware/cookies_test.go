package middleware

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/trace"
)

const (
	whyHasCookie = "the request has cookies and the response doesn't say that it may be shared"
	whyGuarded   = "the request has cookies and the stored response isn't marked as shared"
)

// A request with cookies creates a shared response only where the origin says
// that it's one, or by a static type with explicit freshness, or where the route
// knows about the cookies.
func TestCookieRequestCreatesOnlyExplicitlyShared(t *testing.T) {
	for _, c := range []struct {
		name   string
		route  Route
		header []string
		shared bool
	}{
		{"max-age alone", Route{}, []string{"Cache-Control", "max-age=60", "Content-Type", "text/html"}, false},
		{"public", Route{}, []string{"Cache-Control", "max-age=60, public", "Content-Type", "text/html"}, true},
		{"s-maxage", Route{}, []string{"Cache-Control", "s-maxage=60"}, true},
		{"targeted", Route{}, []string{"Cdn-Cache-Control", "max-age=60"}, true},
		{"static type without its extension", Route{}, []string{"Cache-Control", "max-age=60", "Content-Type", "text/css"}, false},
		{"static type, guessed", Route{}, []string{"Last-Modified", longAgo, "Content-Type", "text/css"}, false},
		{"ignored by the route", Route{DangerouslyIgnoreCookies: true}, []string{"Cache-Control", "max-age=60"}, true},
		{"in the key", Route{Key: cachekey.Options{Cookies: []string{"sid"}}}, []string{"Cache-Control", "max-age=60"}, true},
		{"another in the key", Route{Key: cachekey.Options{Cookies: []string{"lang"}}}, []string{"Cache-Control", "max-age=60"}, false},
		{"not sent to the origin", Route{Key: cachekey.Options{DropOtherCookies: true}}, []string{"Cache-Control", "max-age=60"}, true},
		{"profile", RFCProfile(), []string{"Cache-Control", "max-age=60"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{Default: c.route}, testnet.Text(200, "one", c.header...), testnet.Text(200, "two", c.header...))
				r := s.get("/", "Cookie", "sid=1")
				if !c.shared {
					r.is(t, dynamic("one", whyHasCookie))
					r = s.get("/", "Cookie", "sid=1")
					r.is(t, dynamic("two", whyHasCookie))
					require.Equal(t, []string{"sid=1"}, s.last().Header["Cookie"])
					return
				}
				require.True(t, r.record.Cache.Stored)
				r = s.get("/", "Cookie", "sid=1")
				require.Equal(t, "HIT", r.header.Get("Weir-Cache-Status"))
				require.Equal(t, "one", r.body)
				s.asked(1)
			})
		})
	}
}

// A response stored for visitors without cookies isn't given to one with cookies
// unless it says that it's for all, and that visitor's own answer doesn't
// replace it.
func TestCookieRequestReusesOnlyExplicitlyShared(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, text("for all", "max-age=60"), text("mine", "max-age=60"))
		s.get("/")
		r := s.get("/", "Cookie", "sid=1")
		w := dynamic("mine", whyHasCookie)
		w.cache, w.forward = "fwd=request;fwd-status=200", trace.ForwardRequest
		r.is(t, w)
		r = s.get("/")
		r.is(t, hit("for all", 60, 0))
		s.asked(2)
	})
}

// What only a cookie-bearing visitor may not have shows as such: with
// only-if-cached there is nothing for it.
func TestCookieRequestWithOnlyIfCached(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, text("for all", "max-age=60"))
		s.get("/")
		r := s.get("/", "Cookie", "sid=1", "Cache-Control", "only-if-cached")
		require.Equal(t, 504, r.status)
		s.asked(1)
	})
}

// Visitors with different values of a keyed cookie get different pages.
func TestKeyedCookieSelects(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{Default: Route{Key: cachekey.Options{Cookies: []string{"lang"}}}},
			text("english", "max-age=60"), text("deutsch", "max-age=60"))
		r := s.get("/", "Cookie", "lang=en")
		r.is(t, missed("english", 60))
		r = s.get("/", "Cookie", "lang=de")
		r.is(t, missed("deutsch", 60))
		r = s.get("/", "Cookie", "lang=en")
		r.is(t, hit("english", 60, 0))
	})
}

// The origin answers every visitor's page with a cookie of its own. Nobody gets
// another's, and everybody gets their own.
func TestSetCookieStaysWithItsClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("page", "Set-Cookie", "u=1"), public("page", "Set-Cookie", "u=2"))
		for _, cookie := range []string{"u=1", "u=2"} {
			r := s.get("/")
			r.is(t, dynamic("page", "the response sets a cookie"))
			require.Equal(t, []string{cookie}, r.header["Set-Cookie"])
		}
		s.asked(2)
	})
}

// With the dangerous option everyone gets the first one's cookie.
func TestDangerouslyStoreSetCookie(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{Default: Route{DangerouslyStoreSetCookie: true}}, public("page", "Set-Cookie", "u=1"))
		s.get("/")
		r := s.get("/")
		r.is(t, hit("page", 60, 0))
		require.Equal(t, []string{"u=1"}, r.header["Set-Cookie"])
	})
}

// An answer to a request with Authorization is nobody else's, and what is stored
// isn't given to it.
func TestAuthorizationBypassesByDefault(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("mine"), public("all"))
		r := s.get("/", "Authorization", "Bearer a")
		r.is(t, bypassed("mine", "the request has Authorization"))
		r = s.get("/")
		r.is(t, missed("all", 60))
		s.answer(public("mine again"))
		r = s.get("/", "Authorization", "Bearer a")
		r.is(t, bypassed("mine again", "the request has Authorization"))
		require.Equal(t, "Bearer a", s.last().Header.Get("Authorization"))
	})
}

// By the RFC an answer to a request with Authorization is shared if it says so,
// and a stored response is reused for such requests.
func TestAuthorizationByRFC(t *testing.T) {
	for control, shared := range map[string]bool{
		"max-age=60": false, "max-age=60, public": true, "s-maxage=60": true, "max-age=60, must-revalidate": true,
	} {
		for name, route := range map[string]Route{"option": {AuthorizationByRFC: true}, "profile": RFCProfile()} {
			t.Run(name+" "+control, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					s := newSite(t, Options{Default: route}, text("page", control), text("other", control))
					r := s.get("/", "Authorization", "Bearer a")
					if !shared {
						r.is(t, dynamic("page", "the request has Authorization and the response doesn't say that it may be shared"))
						r = s.get("/")
						require.Equal(t, "other", r.body)
						r = s.get("/", "Authorization", "Bearer a")
						r.is(t, hit("other", 60, 0)) // stored for all, and so for this one
						return
					}
					r.is(t, missed("page", 60))
					r = s.get("/")
					r.is(t, hit("page", 60, 0))
					s.asked(1)
				})
			})
		}
	}
}
