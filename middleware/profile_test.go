package middleware

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// What the default refuses to store and the profile of the letter of RFC 9111
// stores, and for how long.
func TestProfileStoresWhatTheDefaultDoesNot(t *testing.T) {
	for _, c := range []struct {
		name    string
		request []string
		script  *testnet.Script
		ttl     int
		status  int
	}{
		{"set-cookie", nil, text("body", "max-age=60", "Set-Cookie", "u=1"), 60, 200},
		{"cookies in the request", []string{"Cookie", "u=1"}, text("body", "max-age=60"), 60, 200},
		{"authorization and must-revalidate", []string{"Authorization", "x"}, text("body", "max-age=60, must-revalidate"), 60, 200},
		{"html, heuristic", nil, testnet.Text(200, "body", "Content-Type", "text/html", "Last-Modified", "Fri, 31 Dec 1999 23:50:00 GMT"), 60, 200},
		{"404, heuristic", nil, testnet.Text(404, "body", "Last-Modified", "Fri, 31 Dec 1999 23:50:00 GMT"), 60, 404},
		{"its own error", nil, testnet.Text(500, "body", "Cache-Control", "max-age=7200"), 7200, 500},
		{"stale on arrival", nil, text("body", "max-age=0"), 0, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{Default: RFCProfile()}, c.script)
				r := s.get("/", c.request...)
				require.True(t, r.record.Cache.Stored)
				require.Equal(t, c.status, r.status)
				require.Equal(t, time.Duration(c.ttl)*time.Second, r.record.Cache.TTL)
				require.Equal(t, "rfc9111", r.record.Cache.Route)
				if c.ttl == 0 {
					r = s.get("/", "Cache-Control", "max-stale=5")
					require.Equal(t, "STALE", r.header.Get("Weir-Cache-Status"))
					return
				}
				r = s.get("/", c.request...)
				w := hit("body", c.ttl, 0)
				w.status = c.status
				r.is(t, w)
				s.asked(1)
			})
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{}, c.script)
				r := s.get("/", c.request...)
				if c.status == 500 {
					require.Equal(t, time.Minute, r.record.Cache.TTL)
					return
				}
				require.False(t, r.record.Cache.Stored)
				require.NotEmpty(t, r.record.Cache.NotStored)
			})
		})
	}
}

// A response to POST answers later GETs of its URL where the route says so, if it
// names its own URL and its lifetime is explicit.
func TestStoredPost(t *testing.T) {
	const explicit = "public, max-age=60"
	for _, c := range []struct {
		name   string
		route  Route
		header []string // of the response
		asks   []string // of the request
		stored bool
	}{
		{"stored", Route{StorePost: true}, []string{"Content-Location", "/a?b=c", "Cache-Control", explicit}, nil, true},
		{"absolute", Route{StorePost: true}, []string{"Content-Location", "http://example.com/a?b=c", "Cache-Control", explicit}, nil, true},
		{"by default", Route{}, []string{"Content-Location", "/a?b=c", "Cache-Control", explicit}, nil, false},
		{"cache off", Route{StorePost: true, CacheOff: true}, []string{"Content-Location", "/a?b=c", "Cache-Control", explicit}, nil, false},
		{"another URL", Route{StorePost: true}, []string{"Content-Location", "/a", "Cache-Control", explicit}, nil, false},
		{"no location", Route{StorePost: true}, []string{"Cache-Control", explicit}, nil, false},
		{"no lifetime", Route{StorePost: true, HeuristicForAll: true}, []string{"Content-Location", "/a?b=c", "Last-Modified", longAgo}, nil, false},
		{"private", Route{StorePost: true}, []string{"Content-Location", "/a?b=c", "Cache-Control", "private, max-age=60"}, nil, false},
		{"sets a cookie", Route{StorePost: true}, []string{"Content-Location", "/a?b=c", "Cache-Control", explicit, "Set-Cookie", "u=1"}, nil, false},
		{"by a request with cookies", Route{StorePost: true}, []string{"Content-Location", "/a?b=c", "Cache-Control", "max-age=60"}, []string{"Cookie", "u=1"}, false},
		{"with authorization", Route{StorePost: true}, []string{"Content-Location", "/a?b=c", "Cache-Control", explicit}, []string{"Authorization", "x"}, false},
		{"shaped by forwarding fields", Route{StorePost: true}, []string{"Content-Location", "/a?b=c", "Cache-Control", explicit}, []string{"X-Forwarded-Host", "evil"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{Default: c.route}, testnet.Text(200, "posted", c.header...), public("got"))
				r := s.do("POST", "/a?b=c", append(c.asks, "Body", "x")...)
				require.Equal(t, "posted", r.body)
				require.Equal(t, c.stored, r.record.Cache.Stored)
				require.Equal(t, c.stored, r.record.Cache.NotStored == "")
				r = s.get("/a?b=c")
				if c.stored {
					r.is(t, hit("posted", 60, 0))
				} else {
					require.Equal(t, "got", r.body)
				}
			})
		})
	}
}

// A response to POST that breaks off or is shorter than it says isn't stored.
func TestBrokenPostIsNotStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		short := public("posted", "Content-Location", "/", "Content-Length", "60")
		s := newSite(t, Options{Default: Route{StorePost: true}}, short, public("got"))
		r := s.do("POST", "/")
		require.False(t, r.record.Cache.Stored)
		r = s.get("/")
		r.is(t, missed("got", 60))
	})
}

// An outer handler sets a session cookie for each request, and the route stores
// cookies: those of the wrapped handler, not the outer one's.
func TestStoredPostHasNothingOfOuterHandlers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{Default: RFCProfile()}, public("posted", "Content-Location", "/"))
		inner := s.h
		s.h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "POST" {
				w.Header().Set("Set-Cookie", "session=1")
				w.Header().Set("X-Request-Id", "7")
			}
			inner.ServeHTTP(w, r)
		})
		r := s.do("POST", "/")
		require.Equal(t, "session=1", r.header.Get("Set-Cookie"))
		r = s.get("/")
		r.is(t, hit("posted", 60, 0))
		require.NotContains(t, r.header, "Set-Cookie")
		require.NotContains(t, r.header, "X-Request-Id")
	})
}

// Who prefers one language to all others gets the stored response in it, where
// the route selects by language.
func TestSelectLanguage(t *testing.T) {
	german := public("deutsch", "Vary", "Accept-Language", "Content-Language", "de")
	for _, c := range []struct {
		name    string
		route   Route
		accepts string
		hit     bool
	}{
		{"preferred", Route{SelectLanguage: true}, "de, en;q=0.5", true},
		{"alone", Route{SelectLanguage: true}, "de", true},
		{"not preferred", Route{SelectLanguage: true}, "en, de;q=0.9", false},
		{"refused", Route{SelectLanguage: true}, "de;q=0, en", false},
		{"option off", Route{}, "de, en;q=0.5", false},
		{"profile", RFCProfile(), "de, en;q=0.5", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{Default: c.route}, german, public("other", "Vary", "Accept-Language", "Content-Language", "en"))
				s.get("/", "Accept-Language", "de-AT, de;q=0.9, en;q=0.1")
				r := s.get("/", "Accept-Language", c.accepts)
				if c.hit {
					r.is(t, hit("deutsch", 60, 0))
					s.asked(1)
				} else {
					require.Equal(t, "other", r.body)
				}
			})
		})
	}
}
