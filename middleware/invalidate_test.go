package middleware

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/internal/testnet"
)

// After a successful unsafe request what is stored for its target is gone; after
// a failed one, or a safe one, it isn't.
func TestUnsafeMethodsInvalidateTheirTarget(t *testing.T) {
	for _, c := range []struct {
		method string
		status int
		gone   bool
	}{
		{"POST", 200, true}, {"PUT", 204, true}, {"DELETE", 200, true}, {"PATCH", 303, true}, {"FROBNICATE", 200, true},
		{"POST", 500, false}, {"PUT", 404, false}, {"DELETE", 403, false}, {"OPTIONS", 200, false}, {"TRACE", 200, false},
	} {
		t.Run(c.method, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{}, public("old"))
				s.get("/a?b=c")
				s.get("/a?b=d")
				s.answer(testnet.Text(c.status, ""), public("new"))
				r := s.do(c.method, "/a?b=c", "Body", "x=1")
				require.Equal(t, c.status, r.status)
				require.Equal(t, "BYPASS", r.header.Get("Weir-Cache-Status"))
				require.Contains(t, r.header.Get("Cache-Status"), "fwd=method")
				s.asked(1)
				r = s.get("/a?b=c")
				if c.gone {
					r.is(t, missed("new", 60))
				} else {
					r.is(t, hit("old", 60, 0))
				}
				r = s.get("/a?b=d")
				r.is(t, hit("old", 60, 0))
			})
		})
	}
}

// A handler that answers an unsafe request without a word has succeeded too.
func TestSilentUnsafeHandlerInvalidates(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("old"), &testnet.Script{Do: nothing}, public("new"))
		s.get("/")
		r := s.do("POST", "/")
		require.Equal(t, 200, r.status)
		require.Equal(t, "BYPASS", r.header.Get("Weir-Cache-Status"))
		r = s.get("/")
		r.is(t, missed("new", 60))
	})
}

// What Location and Content-Location name is gone too, if it has the same origin.
func TestInvalidationOfNamedTargets(t *testing.T) {
	for _, c := range []struct {
		name, field, value string
		gone               bool
	}{
		{"absolute", "Location", "http://example.com/b?x=1", true},
		{"relative", "Location", "b?x=1", true},
		{"content location", "Content-Location", "/b?x=1", true},
		{"with the default port", "Location", "http://EXAMPLE.com:80/b?x=1", true},
		{"other host", "Location", "http://other.example/b?x=1", false},
		{"other scheme", "Location", "https://example.com/b?x=1", false},
		{"other port", "Content-Location", "http://example.com:81/b?x=1", false},
		{"two lines", "Location", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				done := testnet.Text(201, "", c.field, c.value)
				if c.value == "" {
					done.Header["Location"] = []string{"/b?x=1", "/b?x=1"}
				}
				s := newSite(t, Options{}, public("old"), public("old"), public("old"), done, public("new"))
				s.get("http://other.example/b?x=1")
				s.get("/b?x=1")
				s.get("https://example.com/b?x=1")
				s.do("POST", "/a")
				r := s.get("/b?x=1")
				if c.gone {
					r.is(t, missed("new", 60))
				} else {
					r.is(t, hit("old", 60, 0))
				}
				r = s.get("http://other.example/b?x=1")
				r.is(t, hit("old", 60, 0))
				r = s.get("https://example.com/b?x=1")
				r.is(t, hit("old", 60, 0))
			})
		})
	}
}

// A failed request's Location invalidates nothing.
func TestFailedRequestInvalidatesNothingNamed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("old"), testnet.Text(500, "", "Location", "/b"))
		s.get("/b")
		s.do("POST", "/a")
		r := s.get("/b")
		r.is(t, hit("old", 60, 0))
	})
}

// All variants go together.
func TestInvalidationOfAllVariants(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("aa", "Vary", "Mood"), public("bb", "Vary", "Mood"), testnet.Text(204, ""), public("new", "Vary", "Mood"))
		s.get("/", "Mood", "good")
		s.get("/", "Mood", "bad")
		s.do("DELETE", "/", "Mood", "none")
		require.Zero(t, s.mw.Stats().Memory.Objects)
		for _, mood := range []string{"good", "bad"} {
			r := s.get("/", "Mood", mood)
			require.Equal(t, "new", r.body)
		}
	})
}

// Key rules that drop a parameter drop it for invalidation too.
func TestInvalidationUsesTheKeyRules(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{Default: Route{Key: cachekey.Options{Query: cachekey.Exclude("utm_source")}}},
			public("old"), testnet.Text(204, "", "Location", "/b?utm_source=x"), public("new"))
		s.get("/b?utm_source=a")
		s.do("POST", "/a")
		r := s.get("/b")
		r.is(t, missed("new", 60))
	})
}

// A page is being fetched while it's changed by a POST. The visitor gets the old
// one, but it isn't stored.
func TestFetchUnderWayIsNotStoredAfterInvalidation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := testnet.NewGate()
		slow := public("")
		slow.Body = []testnet.Chunk{{Data: "old "}, {Gate: gate, Data: "page"}}
		s := newSite(t, Options{}, slow, testnet.Text(204, ""), public("new"))
		w := recorder()
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.h.ServeHTTP(w, request("GET", "/"))
		}()
		synctest.Wait()
		s.h.ServeHTTP(recorder(), request("POST", "/"))
		gate.Open()
		<-done
		require.Equal(t, "old page", w.Body.String())
		s.mu.Lock()
		record := s.records[len(s.records)-1]
		s.mu.Unlock()
		require.False(t, record.Cache.Stored)
		require.Equal(t, "the key was purged while the response was fetched", record.Cache.NotStored)
		r := s.get("/")
		r.is(t, missed("new", 60))
	})
}

// With the cache off for the route nothing is invalidated either; nothing is
// stored there.
func TestCacheOffKeepsOutOfInvalidation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{Default: Route{CacheOff: true}}, testnet.Text(204, ""))
		r := s.do("POST", "/")
		require.Equal(t, "caching is off for the route", r.record.Cache.Reason)
	})
}

// Anyone may send PURGE. It's the wrapped handler's affair: refused there, it
// changes nothing.
func TestPurgeMethodIsHandedThrough(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("page"), testnet.Text(405, "no"))
		s.get("/")
		r := s.do("PURGE", "/")
		require.Equal(t, 405, r.status)
		require.Equal(t, "PURGE", s.last().Method)
		r = s.get("/")
		r.is(t, hit("page", 60, 0))
	})
}
