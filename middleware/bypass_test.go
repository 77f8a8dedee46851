package middleware

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/trace"
)

// Each reason to keep the cache out of a request has a sentence of its own, and
// such a request neither gets what is stored nor stores anything.
func TestBypassReasons(t *testing.T) {
	for _, c := range []struct {
		name   string
		route  Route
		method string
		header []string
		reason string
		word   trace.Forward
	}{
		{name: "route off", route: Route{CacheOff: true}, reason: "caching is off for the route"},
		{name: "method", method: "OPTIONS", reason: "responses to this method aren't reused", word: trace.ForwardMethod},
		{name: "head not listed", route: Route{Methods: []string{"GET"}}, method: "HEAD", reason: "responses to this method aren't reused"},
		{name: "authorization", header: []string{"Authorization", "Bearer a"}, reason: "the request has Authorization"},
		{name: "cookie by name", route: Route{BypassCookies: []string{"sid"}}, header: []string{"Cookie", "a=b; sid=1"}, reason: "the request has a cookie for which the route bypasses the cache"},
		{name: "cookie by prefix", route: Route{BypassCookies: []string{"wp_in_*"}}, header: []string{"Cookie", "a=b", "Cookie", "wp_in_7=1"}, reason: "the request has a cookie for which the route bypasses the cache"},
		{name: "body", header: []string{"Body", "x"}, reason: "the request has a body"},
		{name: "upgrade", header: []string{"Upgrade", "websocket", "Connection", "keep-alive, Upgrade"}, reason: "the request asks to upgrade the connection"},
		{name: "event stream", header: []string{"Accept", "text/event-stream"}, reason: "the request asks for an event stream"},
		{name: "forwarding", header: []string{"X-Forwarded-Host", "evil.example"}, reason: "the request has forwarding or override fields that no trusted proxy sent"},
		{name: "precondition", header: []string{"If-Match", `"a"`}, reason: "the request has a precondition that only the origin can judge"},
		{name: "unknown parameter", route: Route{Key: cachekey.Options{Query: cachekey.Include("q"), OnUnknown: cachekey.Bypass}}, header: []string{"Target", "/?x=1"}, reason: "The query has a parameter that the key rules don't list."},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{Default: c.route}, public("page"))
				method, target, header := c.method, "/", c.header
				if method == "" {
					method = "GET"
				}
				if len(header) > 0 && header[0] == "Target" {
					target, header = header[1], header[2:]
				}
				w := bypassed("page", c.reason)
				if c.word != 0 {
					w.cache, w.forward = "fwd=method;fwd-status=200", c.word
				}
				if !c.route.CacheOff && target == "/" {
					r := s.get(target)
					r.is(t, missed("page", 60))
					s.answer(public("page"))
				}
				for n := range 2 {
					r := s.do(method, target, header...)
					if method == "HEAD" {
						// A recorder keeps a body that a server would drop.
						r.body = ""
						r.record.BytesSent = 0
						w.body = ""
					}
					r.is(t, w)
					require.Empty(t, r.header.Get("Age"))
					s.asked(n + 1)
				}
				got := s.last()
				require.Equal(t, method, got.Method)
				for i := 0; i < len(header); i += 2 {
					if header[i] != "Body" {
						require.Contains(t, got.Header[header[i]], header[i+1], "a bypassed request goes out as it came")
					}
				}
			})
		})
	}
}

// A cookie that only resembles one of the bypass list doesn't count.
func TestBypassCookieNamesAreExact(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{Default: Route{BypassCookies: []string{"sid", "wp_*"}}}, public("page"))
		for i, cookie := range []string{"sid2=1", "x=sid", "xwp_=1", "SID=1", "wp=1"} {
			r := s.get("/", "Cookie", cookie)
			if i == 0 {
				r.is(t, missed("page", 60))
				continue
			}
			r.is(t, hit("page", 60, 0))
		}
		r := s.get("/", "Cookie", "wp_=1")
		r.is(t, bypassed("page", "the request has a cookie for which the route bypasses the cache"))
	})
}

// An unnamed cookie is a cookie too.
func TestUnnamedCookieCountsAsCookie(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, text("mine", "max-age=60"))
		r := s.get("/", "Cookie", "=secret")
		r.is(t, dynamic("mine", "the request has cookies and the response doesn't say that it may be shared"))
	})
}

// The zero options respect the origin, count the age on every reuse and go back
// to the origin when the lifetime is over.
func TestZeroOptionsServeStoredResponseUntilItIsStale(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("one"), public("two"))
		r := s.get("/a?b=c")
		r.is(t, missed("one", 60))
		require.Empty(t, r.header["Age"])
		after(20 * time.Second)
		r = s.get("/a?b=c")
		r.is(t, hit("one", 40, 20))
		require.Equal(t, "3", r.header.Get("Content-Length"))
		require.Equal(t, "text/html", r.header.Get("Content-Type"))
		require.Equal(t, "public, max-age=60", r.header.Get("Cache-Control"))
		require.Equal(t, 20*time.Second, r.record.Cache.Age)
		require.Equal(t, 40*time.Second, r.record.Cache.TTL)
		require.Equal(t, "default", r.record.Cache.Route)
		require.NotZero(t, r.record.Cache.Key)
		s.asked(1)
		after(40 * time.Second)
		r = s.get("/a?b=c")
		w := missed("two", 60)
		w.word, w.cache, w.forward, w.reason = "EXPIRED", "fwd=stale;fwd-status=200;ttl=60;stored", trace.ForwardStale, "the stored response is stale"
		r.is(t, w)
		s.asked(2)
		s.get("/a?b=d")
		s.asked(3)
		require.Equal(t, "b=d", s.last().URL.RawQuery)
	})
}

// A second name of the site, or its second scheme, is another page.
func TestHostSchemeAndQueryAreKeyed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("page 1"), public("page 2"), public("page 3"), public("page 4"))
		for i, target := range []string{"http://one.test/a", "http://two.test/a", "https://one.test/a", "http://one.test/a?id=1"} {
			r := s.get(target)
			r.is(t, missed(fmt.Sprint("page ", i+1), 60))
		}
		r := s.get("http://ONE.test:80/a")
		r.is(t, hit("page 1", 60, 0))
	})
}
