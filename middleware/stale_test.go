package middleware

import (
	"errors"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/trace"
)

func staleServed(body string, ttl string, age string) want {
	return want{body: body, word: "STALE", cache: "hit;ttl=" + ttl, age: age, reason: "the response is within its stale-while-revalidate window"}
}

// fails is an origin that a reverse proxy can't reach.
func fails(err error) *testnet.Script {
	return &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) { ProxyErrorHandler(w, r, err) }}
}

// The window counts from the end of freshness, and beyond it the origin is asked
// before the client gets an answer.
func TestStaleWhileRevalidateWindow(t *testing.T) {
	for name, c := range map[string]struct {
		control string
		route   time.Duration
	}{
		"the origin's":         {"public, max-age=600, stale-while-revalidate=30", 0},
		"the route's":          {"public, max-age=600", 30 * time.Second},
		"the origin's first":   {"public, max-age=600, stale-while-revalidate=30", time.Hour},
		"s-maxage forbids not": {"s-maxage=600, stale-while-revalidate=30", 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{Default: Route{StaleWhileRevalidate: c.route}}, text("one", c.control), text("two", c.control), text("three", c.control))
				s.get("/")
				after(599 * time.Second)
				r := s.get("/")
				r.is(t, hit("one", 1, 599))
				after(16 * time.Second)
				r = s.get("/")
				r.is(t, staleServed("one", "-15", "615"))
				s.asked(2) // the refresh
				r = s.get("/")
				r.is(t, hit("two", 600, 0))
				after(630*time.Second + 1)
				r = s.get("/")
				w := missed("three", 600)
				w.word, w.cache, w.forward, w.reason = "EXPIRED", "fwd=stale;fwd-status=200;ttl=600;stored", trace.ForwardStale, "the stored response is stale"
				r.is(t, w)
				s.asked(3)
			})
		})
	}
}

// Many visitors come for a page that turned stale. One request refreshes it, and
// it's conditional.
func TestOneBackgroundRefresh(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := testnet.NewGate()
		slow := testnet.Text(304, "", "Etag", `"v1"`)
		slow.Gate = gate
		s := newSite(t, Options{}, text("page", "public, max-age=1, stale-while-revalidate=60", "Etag", `"v1"`), slow)
		s.get("/")
		after(2 * time.Second)
		for range 100 {
			r := s.get("/", "If-None-Match", `"other"`)
			r.is(t, staleServed("page", "-1", "2"))
		}
		s.asked(2)
		require.Equal(t, `"v1"`, s.last().Header.Get("If-None-Match"))
		gate.Open()
		synctest.Wait()
		r := s.get("/")
		r.is(t, hit("page", 1, 0))
	})
}

// The origin fails while stale copies are served. After a failed refresh, whether
// it answered an error, broke off, or couldn't be reached, the next one waits for
// five seconds from the end of the attempt.
func TestFailedRefreshIsHeldBack(t *testing.T) {
	for name, bad := range map[string]*testnet.Script{
		"503":         testnet.Text(503, "down"),
		"abort":       {Panic: http.ErrAbortHandler},
		"unreachable": fails(errors.New("refused")),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				gate := testnet.NewGate()
				first := *bad
				if bad.Do == nil {
					first.Gate = gate
				} else {
					first = testnet.Script{Gate: gate, Do: bad.Do}
				}
				s := newSite(t, Options{}, text("page", "public, max-age=1, stale-while-revalidate=60"), &first, bad)
				s.get("/")
				after(2 * time.Second)
				s.get("/")
				after(time.Second) // the attempt takes a second
				gate.Open()
				synctest.Wait()
				for range 49 {
					after(100 * time.Millisecond)
					r := s.get("/")
					require.Equal(t, "STALE", r.header.Get("Weir-Cache-Status"))
					require.Equal(t, "page", r.body)
				}
				s.asked(2)
				after(101 * time.Millisecond)
				s.get("/")
				s.asked(3)
			})
		})
	}
}

// A stale copy stands in for a failing origin where the origin or the route
// allows it, as long as they say, and not where it must be validated.
func TestStaleIfError(t *testing.T) {
	for _, c := range []struct {
		name    string
		control string
		route   time.Duration
		age     time.Duration
		status  int // of the origin
		stale   bool
	}{
		{"origin's window", "max-age=10, stale-if-error=60", 0, 70 * time.Second, 502, true},
		{"beyond it", "max-age=10, stale-if-error=60", 0, 71 * time.Second, 502, false},
		{"route's window", "max-age=10", time.Minute, 70 * time.Second, 500, true},
		{"origin's first", "max-age=10, stale-if-error=5", time.Minute, 20 * time.Second, 500, false},
		{"nobody's", "max-age=10", 0, 11 * time.Second, 503, false},
		{"must-revalidate", "max-age=10, must-revalidate, stale-if-error=60", 0, 11 * time.Second, 502, false},
		{"proxy-revalidate", "max-age=10, proxy-revalidate", time.Minute, 11 * time.Second, 502, false},
		{"s-maxage with a window", "s-maxage=10, stale-if-error=60", 0, 11 * time.Second, 504, true},
		{"not for a 404", "max-age=10, stale-if-error=60", 0, 11 * time.Second, 404, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{Default: Route{StaleIfError: c.route}}, text("page", c.control), testnet.Text(c.status, "broken"))
				s.get("/")
				after(c.age)
				r := s.get("/")
				s.asked(2)
				if !c.stale {
					require.Equal(t, c.status, r.status)
					require.Equal(t, "broken", r.body)
					return
				}
				require.Equal(t, 200, r.status)
				require.Equal(t, "page", r.body)
				require.Equal(t, "STALE-ERROR", r.header.Get("Weir-Cache-Status"))
				require.Contains(t, r.header.Get("Cache-Status"), "weir;fwd=stale")
				require.Contains(t, r.header.Get("Cache-Status"), ";ttl=-")
				require.Equal(t, "the origin failed and the response is within its stale-if-error window", r.record.Cache.Reason)
				require.Equal(t, int(c.age/time.Second), int(r.record.Cache.Age/time.Second))
			})
		})
	}
}

// The origin can't be reached. Where nothing forbids it a stale copy is the
// answer for a day; else 502, or 504 after a timeout.
func TestUnreachableOrigin(t *testing.T) {
	refused, timeout := errors.New("refused"), os.ErrDeadlineExceeded
	for _, c := range []struct {
		name    string
		control string
		route   Route
		err     error
		age     time.Duration
		status  int
		reason  string
	}{
		{"stale", "max-age=10", Route{}, refused, time.Hour, 200, "the origin can't be reached and nothing forbids a stale response"},
		{"a day and no longer", "max-age=10", Route{}, refused, 25 * time.Hour, 502, "the origin can't be reached"},
		{"timeout", "max-age=10, must-revalidate", Route{}, timeout, 11 * time.Second, 504, "the origin didn't answer in time"},
		{"must-revalidate", "max-age=2, must-revalidate", Route{}, refused, 3 * time.Second, 502, "the origin can't be reached"},
		{"no-cache", "no-cache", Route{}, refused, time.Second, 502, "the origin can't be reached"},
		{"s-maxage", "s-maxage=10", Route{}, refused, 11 * time.Second, 502, "the origin can't be reached"},
		{"off", "max-age=10", Route{StaleOnDisconnect: -1}, refused, 11 * time.Second, 502, "the origin can't be reached"},
		{"shorter", "max-age=10", Route{StaleOnDisconnect: time.Second}, refused, 12 * time.Second, 502, "the origin can't be reached"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{Default: c.route}, text("page", c.control, "Etag", `"v1"`), fails(c.err))
				s.get("/")
				after(c.age)
				r := s.get("/")
				require.Equal(t, c.status, r.status)
				require.Equal(t, c.reason, r.record.Cache.Reason)
				require.Equal(t, trace.ForwardStale, r.record.ForwardReason)
				if c.status == 200 {
					require.Equal(t, "page", r.body)
					require.Equal(t, "STALE-ERROR", r.header.Get("Weir-Cache-Status"))
					return
				}
				require.Equal(t, http.StatusText(c.status)+"\n", r.body)
				require.Equal(t, "EXPIRED", r.header.Get("Weir-Cache-Status"))
				require.Equal(t, "weir;fwd=stale", r.header.Get("Cache-Status"))
				require.Equal(t, "no-store", r.header.Get("Cache-Control"))
			})
		})
	}
}

// Nothing is stored and the origin can't be reached: 502 and 504 are weir's own
// and say what was looked for.
func TestUnreachableOriginWithNothingStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, fails(errors.New("refused")), fails(os.ErrDeadlineExceeded))
		r := s.get("/")
		r.is(t, want{status: 502, body: "Bad Gateway\n", word: "MISS", cache: "fwd=uri-miss", reason: "the origin can't be reached", forward: trace.ForwardURIMiss})
		r = s.get("/")
		r.is(t, want{status: 504, body: "Gateway Timeout\n", word: "MISS", cache: "fwd=uri-miss", reason: "the origin didn't answer in time", forward: trace.ForwardURIMiss})
	})
}

// Past the cache a reverse proxy's failure is a plain 502 or 504.
func TestProxyErrorHandlerOutsideOfAFetch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, fails(errors.New("refused")), fails(os.ErrDeadlineExceeded))
		for _, status := range []int{502, 504} {
			r := s.do("POST", "/")
			require.Equal(t, status, r.status)
			require.Equal(t, "no-store", r.header.Get("Cache-Control"))
			require.Equal(t, "BYPASS", r.header.Get("Weir-Cache-Status"))
		}
	})
}
