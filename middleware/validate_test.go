package middleware

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/trace"
)

const modified = "Fri, 31 Dec 1999 00:00:00 GMT"

// revalidated is the reply after a 304.
func revalidated(body string, ttl int) want {
	return want{
		body: body, word: "REVALIDATED", cache: "fwd=stale;fwd-status=304;ttl=" + strconv.Itoa(ttl) + ";stored", age: "0",
		reason: "the origin confirmed the stored response", forward: trace.ForwardStale, stored: true,
	}
}

// A stale response is validated with all its validators; the 304 freshens its
// header and gives it a new lifetime, and leaves alone what describes the body.
func TestRevalidationFreshensStoredResponse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("page", "Etag", `W/"v1"`, "Last-Modified", modified, "X-Old", "old", "X-Both", "a"),
			testnet.Text(304, "", "Cache-Control", "public, max-age=90", "Etag", `W/"v1"`, "X-Both", "b", "X-New", "new",
				"Content-Encoding", "gzip", "Content-Type", "text/odd"))
		s.get("/")
		after(time.Minute)
		r := s.get("/", "Accept-Encoding", "gzip", "X-Client", "1")
		r.is(t, revalidated("page", 90))
		asked := s.last().Header
		require.Equal(t, `W/"v1"`, asked.Get("If-None-Match"))
		require.Equal(t, modified, asked.Get("If-Modified-Since"))
		require.Equal(t, "1", asked.Get("X-Client"))
		after(89 * time.Second)
		r = s.get("/")
		r.is(t, hit("page", 1, 89))
		require.Equal(t, "old", r.header.Get("X-Old"))
		require.Equal(t, "b", r.header.Get("X-Both"))
		require.Equal(t, "new", r.header.Get("X-New"))
		require.Equal(t, "text/html", r.header.Get("Content-Type"))
		require.NotContains(t, r.header, "Content-Encoding")
		require.Equal(t, "Sat, 01 Jan 2000 00:01:00 GMT", r.header.Get("Date"))
		s.asked(2)
	})
}

// The origin confirms a page to one visitor and sets that visitor's cookie. It
// reaches that visitor and nobody else.
func TestSetCookieOfA304ReachesOnlyItsClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("page", "Etag", `"v1"`), testnet.Text(304, "", "Etag", `"v1"`, "Set-Cookie", "u=1", "X-Csrf-Token", "t1"))
		s.get("/")
		after(time.Minute)
		r := s.get("/")
		w := revalidated("page", 60)
		w.cache, w.stored, w.notStored = "fwd=stale;fwd-status=304;ttl=60", false, "the response sets a cookie"
		r.is(t, w)
		require.Equal(t, []string{"u=1"}, r.header["Set-Cookie"])
		require.Equal(t, []string{"t1"}, r.header["X-Csrf-Token"])
		// What is stored stays as it was, and stale: the next client asks again.
		s.answer(testnet.Text(304, "", "Etag", `"v1"`))
		r = s.get("/")
		r.is(t, revalidated("page", 60))
		require.NotContains(t, r.header, "Set-Cookie")
		require.NotContains(t, r.header, "X-Csrf-Token")
	})
}

// A 304 that names another version says nothing about what is stored: the origin
// is asked again, for all of it.
func TestMismatched304AsksAgainUnconditionally(t *testing.T) {
	for name, update := range map[string]*testnet.Script{
		"etag": testnet.Text(304, "", "Etag", `"v2"`),
		"date": testnet.Text(304, "", "Last-Modified", "Sat, 01 Jan 2000 00:00:30 GMT"),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{}, public("old", "Etag", `"v1"`, "Last-Modified", modified), update, public("new", "Etag", `"v2"`))
				s.get("/")
				after(time.Minute)
				r := s.get("/", "X-Client", "1")
				w := missed("new", 60)
				w.word, w.cache, w.forward, w.reason = "EXPIRED", "fwd=stale;fwd-status=200;ttl=60;stored", trace.ForwardStale, "the stored response is stale"
				r.is(t, w)
				s.asked(3)
				all := s.origin.Requests()
				require.Equal(t, `"v1"`, all[1].Header.Get("If-None-Match"))
				require.NotContains(t, all[2].Header, "If-None-Match")
				require.NotContains(t, all[2].Header, "If-Modified-Since")
				require.Equal(t, "1", all[2].Header.Get("X-Client"))
				r = s.get("/")
				r.is(t, hit("new", 60, 0))
			})
		})
	}
}

// A 304 to a request without conditions answers nothing.
func TestUnsolicited304IsABadAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, testnet.Text(304, "", "Etag", `"v1"`, "Cache-Control", "public, max-age=60"), public("page"))
		r := s.get("/", "If-None-Match", `"v1"`)
		require.Equal(t, 502, r.status)
		require.Equal(t, "Bad Gateway\n", r.body)
		require.Equal(t, "the origin answered 304 to a request that wasn't conditional", r.record.Cache.Reason)
		require.Equal(t, "no-store", r.header.Get("Cache-Control"))
		require.NotContains(t, s.last().Header, "If-None-Match")
		r = s.get("/")
		r.is(t, missed("page", 60))
	})
}

// What is stored has no validator, so it's replaced without conditions.
func TestStaleWithoutValidatorIsFetchedAnew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("page"))
		s.get("/")
		after(time.Minute)
		s.get("/", "If-None-Match", `"client's"`)
		require.NotContains(t, s.last().Header, "If-None-Match")
		s.asked(2)
	})
}

// A 304 that takes the permission to store away removes what is stored.
func TestRevalidationThatForbidsStoring(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("page", "Etag", `"v1"`), testnet.Text(304, "", "Etag", `"v1"`, "Cache-Control", "no-store"), public("new"))
		s.get("/")
		after(time.Minute)
		r := s.get("/")
		w := revalidated("page", 0)
		w.cache, w.stored, w.notStored = "fwd=stale;fwd-status=304;ttl=0", false, "the response says no-store"
		require.Equal(t, w.notStored, r.record.Cache.NotStored)
		require.False(t, r.record.Cache.Stored)
		require.Equal(t, "page", r.body)
		require.Zero(t, s.mw.Stats().Memory.Objects)
		r = s.get("/")
		r.is(t, missed("new", 60))
	})
}

// A client's own condition is answered by the cache, on a hit as on a miss, and
// never reaches the origin or what is stored.
func TestClientConditions(t *testing.T) {
	for _, c := range []struct {
		name   string
		header []string
		status int
	}{
		{"same tag", []string{"If-None-Match", `"v1"`}, 304},
		{"weak comparison", []string{"If-None-Match", `W/"v1"`}, 304},
		{"among others", []string{"If-None-Match", `"v0", "v1"`}, 304},
		{"star", []string{"If-None-Match", "*"}, 304},
		{"other tag", []string{"If-None-Match", `"v2"`}, 200},
		{"not modified since", []string{"If-Modified-Since", modified}, 304},
		{"modified since", []string{"If-Modified-Since", "Thu, 30 Dec 1999 00:00:00 GMT"}, 200},
		{"the tag goes before the date", []string{"If-None-Match", `"v2"`, "If-Modified-Since", modified}, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{}, public("page", "Etag", `"v1"`, "Last-Modified", modified))
				for _, first := range []bool{true, false} {
					r := s.get("/", c.header...)
					w := hit("page", 60, 0)
					if first {
						w = missed("page", 60)
						require.NotContains(t, s.last().Header, "If-None-Match")
						require.NotContains(t, s.last().Header, "If-Modified-Since")
					}
					w.status = c.status
					if c.status == 304 {
						w.body = ""
						require.NotContains(t, r.header, "Content-Length")
						require.NotContains(t, r.header, "Content-Type")
					}
					r.is(t, w)
					require.Equal(t, `"v1"`, r.header.Get("Etag"))
					require.Equal(t, "public, max-age=60", r.header.Get("Cache-Control"))
				}
				r := s.get("/")
				r.is(t, hit("page", 60, 0))
				s.asked(1)
			})
		})
	}
}

// A client's condition doesn't turn an error into a 304.
func TestClientConditionOnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, testnet.Text(404, "gone", "Cache-Control", "max-age=60", "Etag", `"v1"`))
		for range 2 {
			r := s.get("/", "If-None-Match", `"v1"`)
			require.Equal(t, 404, r.status)
			require.Equal(t, "gone", r.body)
		}
	})
}

// Both the client's and the cache's copy are confirmed by one request.
func TestClientConditionAfterRevalidation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("page", "Etag", `"v1"`), testnet.Text(304, "", "Etag", `"v1"`))
		s.get("/")
		after(time.Minute)
		r := s.get("/", "If-None-Match", `"v1"`)
		w := revalidated("", 60)
		w.status = 304
		r.is(t, w)
		s.asked(2)
	})
}

// One variant is validated; the other's header and lifetime stay as they were.
func TestRevalidationOfOneVariant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("aa", "Vary", "Mood", "Etag", `"a"`), public("bb", "Vary", "Mood", "Etag", `"b"`),
			testnet.Text(304, "", "Etag", `"a"`, "X-New", "new"))
		s.get("/", "Mood", "good")
		after(30 * time.Second)
		s.get("/", "Mood", "bad")
		after(30 * time.Second)
		r := s.get("/", "Mood", "good")
		r.is(t, revalidated("aa", 60))
		require.Equal(t, `"a"`, s.last().Header.Get("If-None-Match"))
		r = s.get("/", "Mood", "bad")
		r.is(t, hit("bb", 30, 30))
		require.NotContains(t, r.header, "X-New")
		s.asked(3)
	})
}

// The Age of a 304, which another cache sent, counts for the new lifetime.
func TestAgeOfA304Counts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("page", "Etag", `"v1"`), testnet.Text(304, "", "Etag", `"v1"`, "Age", "20"))
		s.get("/")
		after(time.Minute)
		s.get("/")
		r := s.get("/")
		r.is(t, hit("page", 40, 20))
	})
}
