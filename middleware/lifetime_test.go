package middleware

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/trace"
)

const longAgo = "Mon, 02 Jan 1995 15:04:05 GMT"

// The lifetime comes from the most specific source.
func TestLifetimePrecedence(t *testing.T) {
	all := []string{"Cache-Control", "max-age=30, s-maxage=40", "Cdn-Cache-Control", "max-age=50",
		"Expires", "Sat, 01 Jan 2000 00:00:20 GMT", "Content-Type", "text/css", "Last-Modified", longAgo}
	without := func(names ...string) []string {
		var out []string
	pairs:
		for i := 0; i < len(all); i += 2 {
			for _, n := range names {
				if all[i] == n {
					continue pairs
				}
			}
			out = append(out, all[i], all[i+1])
		}
		return out
	}
	byClass := TTL{ByClass: map[int]time.Duration{2: 70 * time.Second}}
	byStatus := TTL{ByClass: byClass.ByClass, ByStatus: map[int]time.Duration{200: 80 * time.Second}}
	for _, c := range []struct {
		name   string
		ttl    TTL
		header []string
		want   int
	}{
		{"status over class", byStatus, all, 80},
		{"class over the origin", byClass, all, 70},
		{"class for a status of its own", TTL{ByClass: byClass.ByClass, ByStatus: map[int]time.Duration{404: time.Hour}}, all, 70},
		{"targeted over shared", TTL{}, all, 50},
		{"own target over the CDN's", TTL{}, append([]string{"Weir-Cache-Control", "max-age=55"}, all...), 55},
		{"shared over private", TTL{}, without("Cdn-Cache-Control"), 40},
		{"max-age over Expires", TTL{}, append([]string{"Cache-Control", "max-age=30"}, without("Cdn-Cache-Control", "Cache-Control")...), 30},
		{"Expires over heuristic", TTL{}, without("Cdn-Cache-Control", "Cache-Control"), 20},
		{"heuristic, an hour at most", TTL{}, without("Cdn-Cache-Control", "Cache-Control", "Expires"), 3600},
		{"floor", TTL{Floor: time.Minute}, all, 60},
		{"ceiling", TTL{Ceiling: 10 * time.Second}, all, 10},
		{"floor leaves the route's choice", TTL{ByStatus: map[int]time.Duration{200: 5 * time.Second}, Floor: time.Minute}, all, 5},
		{"Age counts", TTL{}, append([]string{"Age", "15"}, all...), 35},
		{"Age doesn't count for the route's choice", byStatus, append([]string{"Age", "15"}, all...), 80},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{Default: Route{TTL: c.ttl}}, testnet.Text(200, "body", c.header...))
				r := s.get("/")
				require.Equal(t, time.Duration(c.want)*time.Second, r.record.Cache.TTL)
				w := missed("body", c.want)
				w.age = testnet.Header(c.header...).Get("Age") // the origin's own
				r.is(t, w)
				after(time.Duration(c.want)*time.Second - 1)
				r = s.get("/")
				require.Equal(t, "HIT", r.header.Get("Weir-Cache-Status"))
				after(1)
				r = s.get("/")
				require.Equal(t, "EXPIRED", r.header.Get("Weir-Cache-Status"))
				s.asked(2)
			})
		})
	}
}

// A route's lifetime of zero means never fresh, and a floor doesn't raise what
// the origin wants validated.
func TestNeverFresh(t *testing.T) {
	for name, c := range map[string]struct {
		ttl    TTL
		script *testnet.Script
		why    string
	}{
		"status zero":       {TTL{ByStatus: map[int]time.Duration{200: 0}}, public("body"), "the response was stale on arrival and can't be validated"},
		"class zero":        {TTL{ByClass: map[int]time.Duration{2: 0}}, public("body"), "the response was stale on arrival and can't be validated"},
		"floor":             {TTL{Floor: time.Hour}, text("body", "max-age=0"), "the response was stale on arrival and can't be validated"},
		"floor and private": {TTL{Floor: time.Hour}, text("body", "private, max-age=9"), "the response says private"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{Default: Route{TTL: c.ttl}}, c.script)
				r := s.get("/")
				r.is(t, dynamic("body", c.why))
				s.get("/")
				s.asked(2)
			})
		})
	}
}

// An operator gives everything an hour. The origin fails for a moment: its error
// isn't kept for that hour, nor at all, unless the route names errors.
func TestErrorsTakeNoLifetimeByDefault(t *testing.T) {
	hour := map[int]time.Duration{2: time.Hour, 4: time.Hour}
	for _, c := range []struct {
		name   string
		status int
		header []string
		ttl    TTL
		want   int // 0: not stored
	}{
		{"500 within a default for successes", 500, nil, TTL{ByClass: hour, Floor: time.Hour}, 0},
		{"431 within a default for its class", 431, nil, TTL{ByClass: hour}, 0},
		{"404 takes its class's", 404, nil, TTL{ByClass: hour}, 3600},
		{"the origin's own for a 500 is bounded", 500, []string{"Cache-Control", "public, max-age=86400"}, TTL{}, 60},
		{"by the route", 503, []string{"Cache-Control", "s-maxage=86400"}, TTL{ErrorMax: 5 * time.Second}, 5},
		{"or not at all", 503, []string{"Cache-Control", "s-maxage=7200"}, TTL{ErrorMax: -1}, 7200},
		{"the route names the status", 500, nil, TTL{ByStatus: map[int]time.Duration{500: 7 * time.Second}}, 7},
		{"a floor raises no error", 404, []string{"Cache-Control", "max-age=3"}, TTL{Floor: time.Hour}, 3},
		{"the origin may keep a 400", 400, []string{"Cache-Control", "max-age=3"}, TTL{}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{Default: Route{TTL: c.ttl}}, testnet.Text(c.status, "oops", c.header...), public("fine"))
				r := s.get("/")
				if c.want == 0 {
					require.Equal(t, "DYNAMIC", r.header.Get("Weir-Cache-Status"))
					require.False(t, r.record.Cache.Stored)
					r = s.get("/")
					r.is(t, missed("fine", max(60, int(c.ttl.ByClass[2]/time.Second))))
					return
				}
				r.is(t, missed("oops", c.want).at(c.status))
				after(time.Duration(c.want)*time.Second - 1)
				r = s.get("/")
				require.Equal(t, "HIT", r.header.Get("Weir-Cache-Status"))
				require.Equal(t, c.status, r.status)
				after(1)
				r = s.get("/")
				require.Equal(t, "fine", r.body)
			})
		})
	}
}

// Age is counted from the origin's Age and what has passed since, in whole
// seconds rounded down; ttl is rounded down too, so that half a second past the
// end is not zero.
func TestAgeAndFractions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{Default: Route{StaleWhileRevalidate: time.Minute}}, text("body", "max-age=23", "Age", "4"))
		r := s.get("/")
		require.Equal(t, []string{"4"}, r.header["Age"], "as the origin sent it")
		after(2*time.Second + 999*time.Millisecond)
		r = s.get("/")
		r.is(t, hit("body", 16, 6))
		require.Equal(t, []string{"6"}, r.header["Age"])
		require.Equal(t, 6*time.Second+999*time.Millisecond, r.record.Cache.Age)
		after(16*time.Second + 501*time.Millisecond)
		s.answer(&testnet.Script{Gate: closedUntilEnd(t)})
		r = s.get("/")
		r.is(t, want{body: "body", word: "STALE", cache: "hit;ttl=-1", age: "23", reason: "the response is within its stale-while-revalidate window"})
		require.Equal(t, -500*time.Millisecond, r.record.Cache.TTL)
	})
}

// Values of Age that make no sense don't make a response younger than it is.
func TestOddAges(t *testing.T) {
	for _, c := range []struct {
		lines []string
		age   string // of the hit; "" if the response is stale on arrival
	}{
		{[]string{"2147483648"}, ""},
		{[]string{"99999999999999999999"}, ""},
		{[]string{"old, 0"}, "0"},
		{[]string{"7200.5"}, "0"},
		{[]string{"-5"}, "0"},
		{[]string{"10", "20"}, "10"},
	} {
		bubble(t, func(t *testing.T) {
			script := text("body", "max-age=60")
			script.Header["Age"] = c.lines
			s := newSite(t, Options{}, script)
			s.get("/")
			r := s.get("/")
			if c.age == "" {
				require.Equal(t, "DYNAMIC", r.header.Get("Weir-Cache-Status"), "%q", c.lines)
				return
			}
			require.Equal(t, "HIT", r.header.Get("Weir-Cache-Status"), "%q", c.lines)
			require.Equal(t, []string{c.age}, r.header["Age"], "%q", c.lines)
		})
	}
}

// The origin's clock is ahead: Date and Expires are a minute apart, both in the
// future, and the response is 90 s old already. It is stale.
func TestExpiresWithFastDate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, testnet.Text(200, "body", "Date", "Sat, 01 Jan 2000 02:00:00 GMT",
			"Expires", "Sat, 01 Jan 2000 02:01:00 GMT", "Age", "90"))
		r := s.get("/")
		w := dynamic("body", "the response was stale on arrival and can't be validated")
		w.age = "90"
		r.is(t, w)
	})
}

// Targeted fields other than the configured ones mean nothing, and with an empty
// list none do.
func TestConfiguredTargets(t *testing.T) {
	bubble(t, func(t *testing.T) {
		script := text("body", "max-age=10", "Cdn-Cache-Control", "max-age=20", "Surrogate-Cache-Control", "max-age=30")
		for _, c := range []struct {
			targets []string
			want    int
		}{{nil, 20}, {[]string{}, 10}, {[]string{"surrogate-cache-control", "CDN-Cache-Control"}, 30}} {
			s := newSite(t, Options{Targets: c.targets}, script)
			r := s.get("/")
			r.is(t, missed("body", c.want))
		}
	})
}

// A response that is stale on arrival but may be validated is stored, and each
// request validates it.
func TestStoredForValidation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, text("body", "max-age=0", "Etag", `"v1"`), testnet.Text(304, "", "Etag", `"v1"`))
		r := s.get("/")
		require.True(t, r.record.Cache.Stored)
		for range 2 {
			r = s.get("/")
			r.is(t, want{body: "body", word: "REVALIDATED", cache: "fwd=stale;fwd-status=304;ttl=0;stored", age: "0",
				reason: "the origin confirmed the stored response", forward: trace.ForwardStale, stored: true})
			require.Equal(t, `"v1"`, s.last().Header.Get("If-None-Match"))
		}
		s.asked(3)
	})
}
