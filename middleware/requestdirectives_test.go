package middleware

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/trace"
)

const whyOnlyCached = "the request says only-if-cached and nothing usable is stored"

// What a request's directives do to a response that is 20 s old and fresh for 40
// more.
func TestRequestDirectivesOnFresh(t *testing.T) {
	for _, c := range []struct {
		name   string
		header []string
		status string // Weir-Cache-Status
		reason string
		ignore IgnoreDirectives
	}{
		{"no-cache", []string{"Cache-Control", "no-cache"}, "REVALIDATED", "the origin confirmed the stored response", IgnoreDirectives{NoCache: true}},
		{"pragma", []string{"Pragma", "no-cache"}, "REVALIDATED", "the origin confirmed the stored response", IgnoreDirectives{NoCache: true}},
		{"pragma beside cache-control", []string{"Pragma", "no-cache", "Cache-Control", "max-age=30"}, "HIT", "the stored response is fresh", IgnoreDirectives{}},
		{"max-age smaller", []string{"Cache-Control", "max-age=19"}, "REVALIDATED", "the origin confirmed the stored response", IgnoreDirectives{MaxAge: true}},
		{"max-age equal", []string{"Cache-Control", "max-age=20"}, "HIT", "the stored response is fresh", IgnoreDirectives{}},
		{"max-age zero", []string{"Cache-Control", "max-age=0"}, "REVALIDATED", "the origin confirmed the stored response", IgnoreDirectives{MaxAge: true}},
		{"min-fresh within", []string{"Cache-Control", "min-fresh=40"}, "HIT", "the stored response is fresh", IgnoreDirectives{}},
		{"min-fresh beyond", []string{"Cache-Control", "min-fresh=41"}, "REVALIDATED", "the origin confirmed the stored response", IgnoreDirectives{MinFresh: true}},
		{"no-store", []string{"Cache-Control", "no-store"}, "BYPASS", "the request says no-store", IgnoreDirectives{NoStore: true}},
		{"only-if-cached", []string{"Cache-Control", "only-if-cached"}, "HIT", "the stored response is fresh", IgnoreDirectives{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, ignore := range []bool{false, true} {
				bubble(t, func(t *testing.T) {
					var route Route
					if ignore {
						route.Ignore = c.ignore
					}
					s := newSite(t, Options{Default: route}, public("page", "Etag", `"v1"`), testnet.Text(304, "", "Etag", `"v1"`))
					s.get("/")
					after(20 * time.Second)
					status, reason := c.status, c.reason
					if ignore && c.ignore != (IgnoreDirectives{}) {
						status, reason = "HIT", "the stored response is fresh"
					}
					if status == "BYPASS" {
						s.answer(public("mine"))
					}
					s.origin.Forget()
					r := s.get("/", c.header...)
					require.Equal(t, status, r.header.Get("Weir-Cache-Status"))
					require.Equal(t, reason, r.record.Cache.Reason)
					switch status {
					case "HIT":
						s.asked(0)
						require.Equal(t, "20", r.header.Get("Age"))
					case "REVALIDATED":
						s.asked(1)
						require.Equal(t, trace.ForwardRequest, r.record.ForwardReason)
						require.Equal(t, `"v1"`, s.last().Header.Get("If-None-Match"))
						require.Equal(t, "0", r.header.Get("Age"))
						r = s.get("/")
						r.is(t, hit("page", 60, 0))
					case "BYPASS":
						require.Equal(t, "mine", r.body)
						r = s.get("/")
						r.is(t, hit("page", 40, 20)) // untouched
					}
				})
			}
		})
	}
}

// A response that must be validated on each use isn't served because the request
// has one directive or another.
func TestImmutableIsNotReloaded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, text("page", "public, max-age=60, immutable", "Etag", `"v1"`), testnet.Text(304, ""))
		s.get("/")
		r := s.get("/", "Cache-Control", "max-age=0")
		r.is(t, hit("page", 60, 0))
		r = s.get("/", "Cache-Control", "no-cache")
		require.Equal(t, "REVALIDATED", r.header.Get("Weir-Cache-Status"))
	})
}

// What a request's directives do to a response that is 20 s stale.
func TestRequestDirectivesOnStale(t *testing.T) {
	for _, c := range []struct {
		name    string
		control string
		asks    string
		ignore  IgnoreDirectives
		status  string
	}{
		{"max-stale within", "public, max-age=60", "max-stale=20", IgnoreDirectives{}, "STALE"},
		{"max-stale without a bound", "public, max-age=60", "max-stale", IgnoreDirectives{}, "STALE"},
		{"max-stale beyond", "public, max-age=60", "max-stale=19", IgnoreDirectives{}, "EXPIRED"},
		{"max-stale unreadable", "public, max-age=60", "max-stale=lots", IgnoreDirectives{}, "EXPIRED"},
		{"max-stale ignored", "public, max-age=60", "max-stale", IgnoreDirectives{MaxStale: true}, "EXPIRED"},
		{"must-revalidate", "public, max-age=60, must-revalidate", "max-stale", IgnoreDirectives{}, "EXPIRED"},
		{"s-maxage", "s-maxage=60", "max-stale", IgnoreDirectives{}, "EXPIRED"},
		{"only-if-cached", "public, max-age=60", "only-if-cached", IgnoreDirectives{}, "504"},
		{"only-if-cached ignored", "public, max-age=60", "only-if-cached", IgnoreDirectives{OnlyIfCached: true}, "EXPIRED"},
		{"only-if-cached and max-stale", "public, max-age=60", "only-if-cached, max-stale=30", IgnoreDirectives{}, "STALE"},
		{"max-age wants nothing stale", "public, max-age=60, stale-while-revalidate=60", "max-age=1000", IgnoreDirectives{}, "EXPIRED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{Default: Route{Ignore: c.ignore}}, text("old", c.control), text("new", c.control))
				s.get("/")
				after(80 * time.Second)
				r := s.get("/", "Cache-Control", c.asks)
				switch c.status {
				case "STALE":
					r.is(t, want{body: "old", word: "STALE", cache: "hit;ttl=-20", age: "80", reason: "the request accepts a response this stale (max-stale)"})
					s.asked(1)
				case "504":
					r.is(t, want{status: 504, body: "Gateway Timeout\n", word: "MISS", reason: whyOnlyCached, cache: "weir"})
					s.asked(1)
				default:
					require.Equal(t, "new", r.body)
					require.Equal(t, c.status, r.header.Get("Weir-Cache-Status"))
					s.asked(2)
				}
			})
		})
	}
}

// only-if-cached never reaches the origin, not for a range, not for HEAD, and not
// beside no-store.
func TestOnlyIfCachedNeverAsksTheOrigin(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("page"))
		for _, header := range [][]string{
			{"Cache-Control", "only-if-cached"},
			{"Cache-Control", "only-if-cached", "Range", "bytes=99999999-"},
			{"Cache-Control", "only-if-cached, no-store"},
			{"Cache-Control", "only-if-cached, no-cache"},
		} {
			for _, method := range []string{"GET", "HEAD"} {
				r := s.do(method, "/", header...)
				require.Equal(t, 504, r.status)
				require.Equal(t, whyOnlyCached, r.record.Cache.Reason)
				require.Equal(t, "weir", r.header.Get("Cache-Status"))
				require.Equal(t, trace.ForwardNone, r.record.ForwardReason)
				require.Equal(t, method == "GET", r.body != "")
			}
		}
		s.asked(0)
		s.get("/")
		s.origin.Forget()
		for _, asks := range []string{"only-if-cached, no-cache", "only-if-cached, no-store", "only-if-cached, min-fresh=70"} {
			r := s.get("/", "Cache-Control", asks)
			require.Equal(t, 504, r.status, asks)
		}
		s.asked(0)
	})
}

// A request that says no-store takes nothing from the store and leaves nothing
// there.
func TestRequestNoStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("page"))
		r := s.get("/", "Cache-Control", "no-store")
		r.is(t, want{body: "page", word: "BYPASS", cache: "fwd=uri-miss;fwd-status=200", reason: "the request says no-store",
			forward: trace.ForwardURIMiss, notStored: "the cache kept out of the request"})
		r = s.get("/")
		r.is(t, missed("page", 60))
		s.asked(2)
	})
}

// With no-store ignored, such a request is like any other.
func TestRequestNoStoreIgnored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{Default: Route{Ignore: IgnoreDirectives{NoStore: true}}}, public("page"))
		r := s.get("/", "Cache-Control", "no-store")
		r.is(t, missed("page", 60))
		r = s.get("/", "Cache-Control", "no-store")
		r.is(t, hit("page", 60, 0))
	})
}
