package middleware

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/trace"
)

// headOnly answers HEAD as an origin does, without a body.
func headOnly(header ...string) *testnet.Script { return testnet.Text(200, "", header...) }

// HEAD is answered from a stored GET: its head, its length, no body.
func TestHeadFromStoredGet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("page", "Etag", `"v1"`))
		s.get("/")
		after(5 * time.Second)
		r := s.do("HEAD", "/")
		r.is(t, hit("", 55, 5))
		require.Equal(t, "4", r.header.Get("Content-Length"))
		require.Equal(t, `"v1"`, r.header.Get("Etag"))
		r = s.do("HEAD", "/", "If-None-Match", `"v1"`)
		require.Equal(t, 304, r.status)
		r = s.do("HEAD", "/", "Range", "bytes=0-1")
		r.is(t, hit("", 55, 5)) // Range means something with GET only
		s.asked(1)
	})
}

// A HEAD for which nothing is stored goes to the origin as a HEAD, and its answer
// isn't stored: the next GET has a body.
func TestHeadMissIsNotStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, headOnly("Cache-Control", "public, max-age=60", "Content-Length", "42"), public("page"))
		r := s.do("HEAD", "/", "If-None-Match", `"mine"`)
		r.is(t, want{word: "MISS", cache: "fwd=uri-miss;fwd-status=200", reason: "nothing is stored under the key",
			forward: trace.ForwardURIMiss, notStored: "the cache kept out of the request"})
		require.Equal(t, "42", r.header.Get("Content-Length"))
		require.Equal(t, "HEAD", s.last().Method)
		require.Equal(t, `"mine"`, s.last().Header.Get("If-None-Match"))
		r = s.get("/")
		r.is(t, missed("page", 60))
		r = s.do("HEAD", "/")
		require.Equal(t, "4", r.header.Get("Content-Length"))
		s.asked(2)
	})
}

// A stale HEAD goes to the origin as it is and starts no regeneration; within
// stale-while-revalidate it gets the stale head and starts none either.
func TestStaleHeadStartsNoRegeneration(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, text("page", "public, max-age=10, stale-while-revalidate=20"), headOnly("Content-Length", "4"))
		s.get("/")
		after(15 * time.Second)
		r := s.do("HEAD", "/")
		r.is(t, staleServed("", "-5", "15"))
		s.asked(1)
		after(20 * time.Second)
		r = s.do("HEAD", "/")
		require.Equal(t, "MISS", r.header.Get("Weir-Cache-Status"))
		require.Equal(t, trace.ForwardStale, r.record.ForwardReason)
		s.asked(2)
		require.Equal(t, "HEAD", s.last().Method)
	})
}

// An answer to HEAD freshens the stored GET when validators and length are the
// same, makes it invalid when they differ, and leaves it alone otherwise.
func TestHeadAnswerUpdatesStoredGet(t *testing.T) {
	for _, c := range []struct {
		name   string
		script *testnet.Script
		want   string // Weir-Cache-Status of the next GET
	}{
		{"same", headOnly("Etag", `"v1"`, "Content-Length", "4", "Cache-Control", "public, max-age=90", "X-New", "new"), "HIT"},
		{"other tag", headOnly("Etag", `"v2"`, "Cache-Control", "public, max-age=90"), "MISS"},
		{"other length", headOnly("Etag", `"v1"`, "Content-Length", "5", "Cache-Control", "public, max-age=90"), "MISS"},
		{"error", testnet.Text(500, "", "Etag", `"v2"`), "EXPIRED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{}, public("page", "Etag", `"v1"`), c.script, public("next"))
				s.get("/")
				after(61 * time.Second)
				s.do("HEAD", "/")
				r := s.get("/")
				require.Equal(t, c.want, r.header.Get("Weir-Cache-Status"))
				if c.want == "HIT" {
					r.is(t, hit("page", 90, 0))
					require.Equal(t, "new", r.header.Get("X-New"))
				}
			})
		})
	}
}

// A handler outside of the cache sets fields for each request. An answer to HEAD
// that freshens the stored response doesn't take them along.
func TestHeadAnswerStoresNothingOfOuterHandlers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("page", "Etag", `"v1"`), headOnly("Etag", `"v1"`, "Cache-Control", "public, max-age=90", "Vary", "Mood"))
		inner := s.h
		s.h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "HEAD" {
				w.Header().Set("X-Request-Id", "7")
				w.Header().Set("Vary", "Origin")
			}
			inner.ServeHTTP(w, r)
		})
		s.get("/")
		after(61 * time.Second)
		r := s.do("HEAD", "/")
		require.Equal(t, "7", r.header.Get("X-Request-Id"))
		r = s.get("/")
		require.Equal(t, "HIT", r.header.Get("Weir-Cache-Status"))
		require.NotContains(t, r.header, "X-Request-Id")
		require.Equal(t, []string{"Mood"}, r.header["Vary"])
	})
}

// With HEAD not cached it goes past the cache, although a GET is stored.
func TestHeadPastTheCache(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{Default: Route{Methods: []string{"GET"}}}, public("page"), headOnly("Content-Length", "4"))
		s.get("/")
		r := s.send(httptest.NewRecorder(), request("HEAD", "/"))
		r.is(t, bypassed("", "responses to this method aren't reused"))
		s.asked(2)
	})
}
