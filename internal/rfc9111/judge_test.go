package rfc9111

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/weirhttp/weir/internal/testnet"
)

func TestJudge(t *testing.T) {
	const s = time.Second
	for _, tc := range []struct {
		name    string
		cc      string
		age     string
		request string
		after   time.Duration
		p       Policy
		want    Verdict
	}{
		{"§4.2: fresh", "max-age=10", "", "", 9999 * time.Millisecond, Policy{}, Verdict{UseFresh, Fresh, time.Millisecond}},
		{"§4.2: at the end of its lifetime", "max-age=10", "", "", 10 * s, Policy{}, Verdict{UseValidate, Expired, 0}},
		{"§4.2.3: aged", "max-age=10", "15", "", 0, Policy{}, Verdict{UseValidate, Expired, -5 * s}},
		{"§4.2.3: aged, fresh", "max-age=23", "4", "", 2 * s, Policy{}, Verdict{UseFresh, Fresh, 17 * s}},
		{"§5.2.2.4: no-cache", "max-age=10, no-cache", "", "", 0, Policy{}, Verdict{UseValidate, ResponseNoCache, 10 * s}},
		{"§5.2.2.4: max-stale doesn't help", "max-age=10, no-cache", "", "max-stale", 0, Policy{}, Verdict{UseValidate, ResponseNoCache, 10 * s}},
		{"§5.2.2.2: must-revalidate, fresh", "max-age=10, must-revalidate", "", "", 0, Policy{}, Verdict{UseFresh, Fresh, 10 * s}},
		{"§5.2.2.2: must-revalidate, stale", "max-age=2, must-revalidate, stale-while-revalidate=9", "", "", 3 * s, Policy{}, Verdict{UseValidate, ForbiddenStale, -s}},
		{"§5.2.2.8: proxy-revalidate", "max-age=2, proxy-revalidate, stale-while-revalidate=9", "", "max-stale=9", 3 * s, Policy{}, Verdict{UseValidate, ForbiddenStale, -s}},

		{"RFC 5861 §3: before the window", "max-age=600, stale-while-revalidate=30", "", "", 599 * s, Policy{}, Verdict{UseFresh, Fresh, s}},
		{"RFC 5861 §3: in the window", "max-age=600, stale-while-revalidate=30", "", "", 615 * s, Policy{}, Verdict{UseStaleWhileRevalidate, WithinStaleWhileRevalidate, -15 * s}},
		{"RFC 5861 §3: its last second", "max-age=600, stale-while-revalidate=30", "", "", 630 * s, Policy{}, Verdict{UseStaleWhileRevalidate, WithinStaleWhileRevalidate, -30 * s}},
		{"RFC 5861 §3: after it", "max-age=600, stale-while-revalidate=30", "", "", 631 * s, Policy{}, Verdict{UseValidate, Expired, -31 * s}},
		{"RFC 5861 §3: never fresh", "max-age=0, stale-while-revalidate=30", "", "", s, Policy{}, Verdict{UseStaleWhileRevalidate, WithinStaleWhileRevalidate, -s}},
		{"RFC 5861 §3: with s-maxage", "s-maxage=1, stale-while-revalidate=30", "", "", 2 * s, Policy{}, Verdict{UseStaleWhileRevalidate, WithinStaleWhileRevalidate, -s}},
		{"the route's window", "s-maxage=1", "", "", 2 * s, Policy{StaleWhileRevalidate: 5 * s}, Verdict{UseStaleWhileRevalidate, WithinStaleWhileRevalidate, -s}},

		{"§5.2.1.1: max-age=0", "max-age=3600", "", "max-age=0", 3 * s, Policy{}, Verdict{UseValidate, OlderThanRequested, 3597 * s}},
		{"§5.2.1.1: max-age=0 at once", "max-age=3600", "", "max-age=0", 0, Policy{}, Verdict{UseValidate, OlderThanRequested, 3600 * s}},
		{"§5.2.1.1: max-age=1", "max-age=3600", "", "max-age=1", 3 * s, Policy{}, Verdict{UseValidate, OlderThanRequested, 3597 * s}},
		{"§5.2.1.1: Age counts", "max-age=3600", "1800", "max-age=600", 0, Policy{}, Verdict{UseValidate, OlderThanRequested, 1800 * s}},
		{"§5.2.1.1: young enough", "max-age=3600", "", "max-age=600", 600 * s, Policy{}, Verdict{UseFresh, Fresh, 3000 * s}},
		{"§5.2.1.1: nothing stale without max-stale", "max-age=1, stale-while-revalidate=60", "", "max-age=600", 2 * s, Policy{}, Verdict{UseValidate, Expired, -s}},
		{"§5.2.1.1: stale with max-stale", "max-age=1", "", "max-age=600, max-stale=5", 2 * s, Policy{}, Verdict{UseStale, WithinMaxStale, -s}},
		{"RFC 8246 §2: reload of what is immutable", "max-age=3600, immutable", "", "max-age=0", 3 * s, Policy{}, Verdict{UseFresh, Fresh, 3597 * s}},
		{"RFC 8246 §2: forced reload", "max-age=3600, immutable", "", "no-cache", 3 * s, Policy{}, Verdict{UseValidate, NoCacheRequested, 3597 * s}},
		{"RFC 8246 §2: stale", "max-age=2, immutable", "", "max-age=0", 3 * s, Policy{}, Verdict{UseValidate, OlderThanRequested, -s}},
		{"§5.2.1.2: max-stale", "max-age=1", "", "max-stale=1000", 3 * s, Policy{}, Verdict{UseStale, WithinMaxStale, -2 * s}},
		{"§5.2.1.2: max-stale of what came stale", "max-age=1500", "2000", "max-stale=1000", 0, Policy{StoreStale: true}, Verdict{UseStale, WithinMaxStale, -500 * s}},
		{"§5.2.1.2: not that stale", "max-age=1", "", "max-stale=1", 3 * s, Policy{}, Verdict{UseValidate, TooStale, -2 * s}},
		{"§5.2.1.2: however stale", "max-age=1", "", "max-stale", 300000 * s, Policy{}, Verdict{UseStale, WithinMaxStale, -299999 * s}},
		{"§5.2.2.10: s-maxage forbids", "s-maxage=1", "", "max-stale", 3 * s, Policy{}, Verdict{UseValidate, SharedLifetimeOver, -2 * s}},
		{"§5.2.1.3: min-fresh", "max-age=1500", "", "min-fresh=2000", 0, Policy{}, Verdict{UseValidate, NotFreshLongEnough, 1500 * s}},
		{"§5.2.1.3: Age counts", "max-age=1500", "1000", "min-fresh=1000", 0, Policy{}, Verdict{UseValidate, NotFreshLongEnough, 500 * s}},
		{"§5.2.1.3: fresh enough", "max-age=1500", "", "min-fresh=1500", 0, Policy{}, Verdict{UseFresh, Fresh, 1500 * s}},
		{"§5.2.1.4: no-cache", "max-age=3600", "", "no-cache", 0, Policy{}, Verdict{UseValidate, NoCacheRequested, 3600 * s}},
		{"§5.2.1.5: no-store", "max-age=3600", "", "no-store", 0, Policy{}, Verdict{UsePass, NoStoreRequested, 3600 * s}},
		{"§5.2.1.7: only-if-cached", "max-age=3600", "", "only-if-cached", 0, Policy{}, Verdict{UseFresh, Fresh, 3600 * s}},
		{"§5.2.1.7: only-if-cached, stale", "max-age=1", "", "only-if-cached", 2 * s, Policy{}, Verdict{UseValidate, Expired, -s}},
		{"ignored", "max-age=3600", "", "no-cache, no-store, max-age=0, min-fresh=9999", 0, Policy{IgnoreRequest: RequestForcesWork}, Verdict{UseFresh, Fresh, 3600 * s}},
		{"max-stale ignored", "max-age=1", "", "max-stale", 2 * s, Policy{IgnoreRequest: RequestMaxStale}, Verdict{UseValidate, Expired, -s}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := header("Cache-Control", tc.cc, "ETag", `"a"`)
			if tc.age != "" {
				h.Set("Age", tc.age)
			}
			d := Decide(get(200, h), &tc.p)
			assert.True(t, d.Store)
			req := RequestDirectives{}
			if tc.request != "" {
				req = ParseRequest(header("Cache-Control", tc.request))
			}
			assert.Equal(t, tc.want, Judge(&d.Life, req, &tc.p, after(tc.after)))
		})
	}
}

func TestServingStaleOnFailure(t *testing.T) {
	const s = time.Second
	type answer struct {
		OK     bool
		Reason Reason
	}
	for _, tc := range []struct {
		name       string
		cc         string
		request    string
		after      time.Duration
		p          Policy
		failed     answer
		disconnect answer
	}{
		{"§4.2.4: nothing said", "max-age=2", "", 3 * s, Policy{}, answer{false, StaleNotAllowed}, answer{true, OriginUnreachable}},
		{"§4.2.4: too long ago", "max-age=2", "", 25 * time.Hour, Policy{}, answer{false, StaleNotAllowed}, answer{false, TooStale}},
		{"§4.2.4: the route's bound", "max-age=2", "", 3 * s, Policy{StaleOnDisconnect: time.Millisecond}, answer{false, StaleNotAllowed}, answer{false, TooStale}},
		{"§4.2.4: the route says never", "max-age=2", "", 3 * s, Policy{StaleOnDisconnect: -1}, answer{false, StaleNotAllowed}, answer{false, StaleNotAllowed}},
		{"§4.2.4: still fresh", "max-age=2", "no-cache", s, Policy{}, answer{true, Fresh}, answer{true, Fresh}},
		{"§5.2.2.2: must-revalidate", "max-age=2, must-revalidate, stale-if-error=60", "", 3 * s, Policy{}, answer{false, ForbiddenStale}, answer{false, ForbiddenStale}},
		{"§5.2.2.8: proxy-revalidate", "max-age=2, proxy-revalidate", "", 3 * s, Policy{StaleIfError: time.Hour}, answer{false, ForbiddenStale}, answer{false, ForbiddenStale}},
		{"§5.2.2.4: no-cache", "max-age=2, no-cache, stale-if-error=60", "", s, Policy{StaleIfError: time.Hour}, answer{false, ResponseNoCache}, answer{false, ResponseNoCache}},
		{"§5.2.2.10: s-maxage", "max-age=2, s-maxage=2", "stale-if-error=60", 3 * s, Policy{}, answer{false, SharedLifetimeOver}, answer{false, SharedLifetimeOver}},
		{"§5.2.2.10: s-maxage within the origin's window", "s-maxage=2, stale-if-error=60", "", 3 * s, Policy{}, answer{true, WithinStaleIfError}, answer{true, WithinStaleIfError}},
		{"§5.2.2.10: s-maxage within the route's window", "s-maxage=2", "", 3 * s, Policy{StaleIfError: time.Hour}, answer{true, WithinStaleIfError}, answer{true, WithinStaleIfError}},
		{"§5.2.2.10: s-maxage after it", "s-maxage=2, stale-if-error=60", "", 63 * s, Policy{}, answer{false, TooStale}, answer{false, TooStale}},
		{"RFC 5861 §4: window", "max-age=2, stale-if-error=60", "", 62 * s, Policy{}, answer{true, WithinStaleIfError}, answer{true, WithinStaleIfError}},
		{"RFC 5861 §4: over", "max-age=2, stale-if-error=1", "", 4 * s, Policy{}, answer{false, TooStale}, answer{true, OriginUnreachable}},
		{"RFC 5861 §4: the request's", "max-age=0", "stale-if-error=3600", s, Policy{}, answer{true, WithinStaleIfError}, answer{true, WithinStaleIfError}},
		{"RFC 5861 §4: the request's, over", "max-age=0", "stale-if-error=1", 3 * s, Policy{}, answer{false, TooStale}, answer{true, OriginUnreachable}},
		{"RFC 5861 §4: the request's, ignored", "max-age=0", "stale-if-error=3600", s, Policy{IgnoreRequest: RequestStaleIfError}, answer{false, StaleNotAllowed}, answer{true, OriginUnreachable}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := Decide(get(200, header("Cache-Control", tc.cc)), &tc.p).Life
			req := RequestDirectives{}
			if tc.request != "" {
				req = ParseRequest(header("Cache-Control", tc.request))
			}
			ok, r := StaleIfError(&l, req, &tc.p, after(tc.after))
			assert.Equal(t, tc.failed, answer{ok, r}, "failed")
			ok, r = StaleOnDisconnect(&l, req, &tc.p, after(tc.after))
			assert.Equal(t, tc.disconnect, answer{ok, r}, "disconnect")
		})
	}
}

func TestTextOfValues(t *testing.T) {
	assert.Equal(t, "stale while revalidate", UseStaleWhileRevalidate.String())
	assert.Equal(t, "unknown", Use(99).String())
	assert.Equal(t, "s-maxage", FromSMaxAge.String())
	assert.Equal(t, "unknown", Source(99).String())
	assert.Equal(t, "invalidates", HeadInvalidates.String())
}

// FuzzJudge demands of any life and any request what no rule may break.
func FuzzJudge(f *testing.F) {
	f.Add("max-age=5, stale-while-revalidate=9", "max-stale=3", int64(7))
	f.Add("no-cache, max-age=5", "max-age=1, min-fresh=2", int64(1))
	f.Fuzz(func(t *testing.T, cc, request string, seconds int64) {
		p := &Policy{}
		l := Decide(get(200, http.Header{"Cache-Control": {cc}, "Etag": {`"a"`}}), p).Life
		now := after(time.Duration(seconds%(1<<32)) * time.Second)
		req := ParseRequest(http.Header{"Cache-Control": {request}})
		v := Judge(&l, req, p, now)
		plain := Judge(&l, RequestDirectives{}, p, now)
		served := v.Use == UseFresh || v.Use == UseStale || v.Use == UseStaleWhileRevalidate
		stale := v.TTL <= 0
		failed, _ := StaleIfError(&l, req, p, now)
		gone, _ := StaleOnDisconnect(&l, req, p, now)
		switch {
		case v.TTL != l.Lifetime-l.Age(now):
			t.Fatal("ttl")
		case served && l.NoCache, v.Use == UseFresh && stale, served && stale && l.MustRevalidate:
			t.Fatalf("%+v: %+v", l, v)
		case served && req.Has&(RequestNoCache|RequestNoStore) != 0:
			t.Fatalf("%+v: %+v", req, v)
		case served && v.Use != UseStale && plain.Use != v.Use:
			t.Fatal("a request directive made a response more usable")
		case (failed || gone) && (l.NoCache || stale && l.MustRevalidate), failed && !gone:
			t.Fatalf("%+v", l)
		}
	})
}

func TestHotPathsDontAllocate(t *testing.T) {
	l := Decide(get(200, header("Cache-Control", "max-age=60, stale-while-revalidate=60")), &Policy{}).Life
	p, h, now := &Policy{}, http.Header{"Accept": {"*/*"}, "User-Agent": {"x"}}, after(time.Second)
	asked := http.Header{"Cache-Control": {"max-age=0"}}
	for name, f := range map[string]func(){
		"Judge":                      func() { Judge(&l, RequestDirectives{}, p, now) },
		"Judge with directives":      func() { Judge(&l, RequestDirectives{Has: RequestMaxAge, MaxAge: 5}, p, now) },
		"ParseRequest":               func() { ParseRequest(h) },
		"ParseRequest of directives": func() { ParseRequest(asked) },
		"MayReuse":                   func() { MayReuse(&l, h, p) },
		"StaleIfError":               func() { StaleIfError(&l, RequestDirectives{}, p, now) },
	} {
		testnet.Allocs(t, 0, f, name)
	}
}

var sink Verdict

func BenchmarkJudge(b *testing.B) { // flat, a few nanoseconds; fresh cheapest
	p := &Policy{}
	for _, bc := range []struct {
		name, cc, request string
	}{
		{"fresh", "max-age=60", ""},
		{"stale while revalidate", "max-age=0, stale-while-revalidate=60", ""},
		{"asked for max-age", "max-age=60", "max-age=30"},
	} {
		b.Run(bc.name, func(b *testing.B) {
			l := Decide(get(200, header("Cache-Control", bc.cc)), p).Life
			req := RequestDirectives{}
			if bc.request != "" {
				req = ParseRequest(header("Cache-Control", bc.request))
			}
			now := after(time.Second)
			b.ReportAllocs()
			for b.Loop() {
				sink = Judge(&l, req, p, now)
			}
		})
	}
}

var requestSink RequestDirectives

func BenchmarkParseRequest(b *testing.B) { // two map lookups where nothing is asked
	for name, h := range map[string]http.Header{
		"nothing":  {"Accept": {"*/*"}, "User-Agent": {"x"}, "Accept-Encoding": {"gzip"}},
		"no-cache": {"Cache-Control": {"no-cache"}, "Pragma": {"no-cache"}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				requestSink = ParseRequest(h)
			}
		})
	}
}

func BenchmarkDecide(b *testing.B) { // once a miss
	ex := get(200, header("Cache-Control", "public, max-age=60", "Vary", "Accept-Encoding", "Date", "@0", "Content-Type", "text/css"))
	p := &Policy{}
	b.ReportAllocs()
	for b.Loop() {
		Decide(ex, p)
	}
}
