package rfc9111

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestLifetime(t *testing.T) {
	const day = 24 * time.Hour
	css := func(kv ...string) []string {
		return append([]string{"Content-Type", "text/css", "Date", "@0"}, kv...)
	}
	for _, tc := range []struct {
		name   string
		status int
		h      []string
		p      Policy
		want   time.Duration
		source Source
	}{
		{"§4.2.1: s-maxage before max-age", 200, []string{"Cache-Control", "max-age=3600, s-maxage=1"}, Policy{}, time.Second, FromSMaxAge},
		{"§4.2.1: over lines", 200, []string{"Cache-Control", "max-age=1", "Cache-Control", "s-maxage=3600"}, Policy{}, time.Hour, FromSMaxAge},
		{"§4.2.1: past Expires doesn't count", 200, []string{"Cache-Control", "max-age=0, s-maxage=3600", "Expires", "@-10"}, Policy{}, time.Hour, FromSMaxAge},
		{"§4.2.1: max-age before Expires", 200, []string{"Cache-Control", "max-age=0", "Expires", "@3600"}, Policy{}, 0, FromMaxAge},
		{"§5.3: max-age before an invalid Expires", 200, []string{"Cache-Control", "max-age=3600", "Expires", "0"}, Policy{}, time.Hour, FromMaxAge},
		{"§4.2.1: Expires minus Date", 200, []string{"Expires", "@30", "Date", "@-10"}, Policy{}, 40 * time.Second, FromExpires},
		{"§4.2.1: both ahead", 200, []string{"Expires", "@20", "Date", "@10"}, Policy{}, 10 * time.Second, FromExpires},
		{"§4.2.1: before Date", 200, []string{"Expires", "@300", "Date", "@400"}, Policy{}, 0, FromExpires},
		{"§4.2.1: at Date", 200, []string{"Expires", "@0", "Date", "@0"}, Policy{}, 0, FromExpires},
		{"§5.3: invalid Date", 200, []string{"Expires", "@10", "Date", "foo"}, Policy{}, 10 * time.Second, FromExpires},
		{"§5.3: no Date", 200, []string{"Expires", "@10"}, Policy{}, 10 * time.Second, FromExpires},
		{"two Dates: the later", 200, []string{"Expires", "@10", "Date", "@-10", "Date", "@5"}, Policy{}, 5 * time.Second, FromExpires},
		{"§5.3: invalid", 200, []string{"Expires", "0", "Date", "@0"}, Policy{}, 0, FromExpires},
		{"§5.3: another zone", 200, []string{"Expires", "Thu, 18 Aug 2050 02:01:18 UTC"}, Policy{}, 0, FromExpires},
		{"§4.2.1: twice", 200, []string{"Expires", "@30", "Expires", "@30"}, Policy{}, 0, FromExpires},
		{"§5.3: far away", 200, []string{"Expires", "Sun, 21 Nov 2286 04:46:39 GMT"}, Policy{}, farFuture, FromExpires},
		{"RFC 9213: targeted before s-maxage", 200, []string{"Cache-Control", "s-maxage=3600", "CDN-Cache-Control", "max-age=1"}, Policy{}, time.Second, FromTargeted},
		{"RFC 9213: s-maxage within", 200, []string{"CDN-Cache-Control", "max-age=1, s-maxage=5"}, Policy{}, 5 * time.Second, FromTargeted},
		{"RFC 9213 §2.2: Expires doesn't count", 200, []string{"Expires", "@3600", "CDN-Cache-Control", "foobar"}, Policy{}, 0, FromNothing},
		{"route: this status", 200, []string{"Cache-Control", "max-age=1"}, Policy{TTLByStatus: map[int]time.Duration{200: day}, TTLByClass: [6]time.Duration{2: time.Hour}}, day, FromRouteStatus},
		{"route: its class", 203, []string{"Cache-Control", "max-age=1"}, Policy{TTLByStatus: map[int]time.Duration{200: day}, TTLByClass: [6]time.Duration{2: time.Hour}}, time.Hour, FromRouteClass},
		{"route: never", 404, []string{"Cache-Control", "max-age=1"}, Policy{TTLByStatus: map[int]time.Duration{404: 0}}, 0, FromRouteStatus},
		{"route: counts from receipt", 200, []string{"Age", "100"}, Policy{TTLByStatus: map[int]time.Duration{200: 10 * time.Second}}, 110 * time.Second, FromRouteStatus},
		{"route: a status out of range", 999, nil, Policy{TTLByClass: [6]time.Duration{5: day}}, 0, FromNothing},
		{"floor", 200, []string{"Cache-Control", "max-age=1"}, Policy{Floor: time.Minute}, time.Minute, FromMaxAge},
		{"floor: not from zero", 200, []string{"Cache-Control", "max-age=x"}, Policy{Floor: time.Minute}, 0, FromMaxAge},
		{"floor: not for errors", 404, []string{"Cache-Control", "max-age=1"}, Policy{Floor: time.Minute}, time.Second, FromMaxAge},
		{"ceiling", 200, []string{"Cache-Control", "max-age=86400"}, Policy{Ceiling: time.Minute}, time.Minute, FromMaxAge},
		{"5xx: short", 503, []string{"Cache-Control", "max-age=86400"}, Policy{}, DefaultErrorMax, FromMaxAge},
		{"5xx: as given", 503, []string{"Cache-Control", "max-age=86400"}, Policy{ErrorMax: -1}, day, FromMaxAge},
		{"§4.2.2: a tenth", 200, css("Last-Modified", "@-600"), Policy{}, time.Minute, FromHeuristic},
		{"§4.2.2: an hour at most", 200, css("Last-Modified", "@-864000"), Policy{}, time.Hour, FromHeuristic},
		{"§4.2.2: other bound", 200, css("Last-Modified", "@-864000"), Policy{HeuristicMax: time.Minute}, time.Minute, FromHeuristic},
		{"§4.2.2: none", 200, css("Last-Modified", "@-864000"), Policy{HeuristicMax: -1}, 0, FromNothing},
		{"§4.2.2: modified later than sent", 200, css("Last-Modified", "@60"), Policy{}, 0, FromNothing},
		{"§4.2.2: no Last-Modified", 200, css("ETag", `"a"`), Policy{}, 0, FromNothing},
		{"§4.2.2: two of them", 200, css("Last-Modified", "@-600", "Last-Modified", "@-600"), Policy{}, 0, FromNothing},
		{"§4.2.2: explicit goes first", 200, css("Last-Modified", "@-600", "Cache-Control", "max-age=0"), Policy{}, 0, FromMaxAge},
		{"§4.2.2: no-cache", 200, css("Last-Modified", "@-600", "Cache-Control", "no-cache"), Policy{}, 0, FromNothing},
		{"§5.4: Pragma in a response", 200, css("Last-Modified", "@-600", "Pragma", "no-cache"), Policy{HeuristicForAll: true}, 0, FromNothing},
		{"static: not a page", 200, []string{"Last-Modified", "@-600", "Date", "@0", "Content-Type", "text/html"}, Policy{}, 0, FromNothing},
		{"static: not without a type", 200, []string{"Last-Modified", "@-600", "Date", "@0"}, Policy{}, 0, FromNothing},
		{"static: not for 404", 404, css("Last-Modified", "@-600"), Policy{}, 0, FromNothing},
		{"§4.2.2: for all", 404, []string{"Last-Modified", "@-600", "Date", "@0"}, Policy{HeuristicForAll: true}, time.Minute, FromHeuristic},
		{"§5.2.2.9: public, any status", 599, []string{"Last-Modified", "@-600", "Date", "@0", "Cache-Control", "public"}, Policy{HeuristicForAll: true, ErrorMax: -1}, time.Minute, FromHeuristic},
		{"RFC 9110 §15.1: not every status", 599, []string{"Last-Modified", "@-600", "Date", "@0"}, Policy{HeuristicForAll: true}, 0, FromNothing},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := Decide(get(tc.status, header(tc.h...)), &tc.p).Life
			assert.Equal(t, tc.want, l.Lifetime)
			assert.Equal(t, tc.source, l.Source, l.Source)
		})
	}
}

func TestHeuristicStatuses(t *testing.T) { // RFC 9110 §15.1
	p := ByTheRFC()
	for status, want := range map[int]bool{
		200: true, 201: false, 202: false, 203: true, 204: true, 300: true, 301: true, 302: false, 308: true, 403: false, 404: true,
		405: true, 410: true, 414: true, 429: false, 500: false, 501: true, 502: false, 503: false, 504: false, 599: false,
	} {
		assert.Equal(t, want, Decide(get(status, header("Last-Modified", "@-86400", "Date", "@0")), &p).Store, status)
	}
}

func TestExplicitStatuses(t *testing.T) { // §3
	for _, status := range []int{200, 203, 204, 299, 301, 302, 303, 307, 308, 400, 404, 410, 499, 500, 502, 503, 504, 599} {
		fresh := Decide(get(status, header("Expires", "@100000", "Last-Modified", "@0", "Date", "@0")), &Policy{})
		assert.True(t, fresh.Store, status)
		assert.Equal(t, UseFresh, Judge(&fresh.Life, RequestDirectives{}, &Policy{}, after(3*time.Second)).Use, status)
		stale := Decide(get(status, header("Expires", "@-5000", "Last-Modified", "@-100000", "Date", "@0")), &Policy{})
		assert.Equal(t, UseValidate, Judge(&stale.Life, RequestDirectives{}, &Policy{}, t0).Use, status)
	}
}

func TestAge(t *testing.T) {
	for _, tc := range []struct {
		name  string
		h     []string
		delay time.Duration
		want  time.Duration // at receipt
	}{
		{"none", nil, 0, 0},
		{"§4.2.3: Date", []string{"Date", "@-7200"}, 0, 2 * time.Hour},
		{"§4.2.3: Date ahead", []string{"Date", "@7200"}, 0, 0},
		{"§4.2.3: Age", []string{"Age", "30", "Date", "@0"}, 0, 30 * time.Second},
		{"§4.2.3: delay counts", []string{"Age", "30"}, 1500 * time.Millisecond, 31500 * time.Millisecond},
		{"§4.2.3: the larger", []string{"Age", "30", "Date", "@-40"}, 5 * time.Second, 40 * time.Second},
		{"two Dates: the earlier", []string{"Date", "@0", "Date", "@-9"}, 0, 9 * time.Second},
		{"clock set back under way", []string{"Age", "3"}, -time.Hour, 3 * time.Second},
		{"§5.1: no number", []string{"Age", "abc"}, 0, 0},
		{"§5.1: negative", []string{"Age", "-7200"}, 0, 0},
		{"§5.1: decimal", []string{"Age", "7200.0"}, 0, 0},
		{"§1.2.2: huge", []string{"Age", "2147483649"}, 0, farFuture},
		{"§1.2.2: beyond all types", []string{"Age", "99999999999999999999999"}, time.Second, farFuture},
		{"§5.1: first of a list", []string{"Age", "7200, 0"}, 0, 2 * time.Hour},
		{"§5.1: first of a list, the other way", []string{"Age", "0, 7200"}, 0, 0},
		{"§5.1: first line", []string{"Age", "7200", "Age", "0"}, 0, 2 * time.Hour},
		{"§5.1: first line, the other way", []string{"Age", "0", "Age", "7200"}, 0, 0},
		{"§5.1: parameters don't hide it", []string{"Age", "7200;foo=bar"}, 0, 2 * time.Hour},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ex := get(200, header(tc.h...))
			ex.RequestedAt = t0.Add(-tc.delay)
			l := Decide(ex, &Policy{}).Life
			assert.Equal(t, tc.want, l.InitialAge)
			assert.Equal(t, tc.want, l.Age(t0))
			assert.Equal(t, tc.want+1500*time.Millisecond, l.Age(after(1500*time.Millisecond)))
			assert.Equal(t, tc.want, l.Age(after(-time.Hour)), "a clock set back")
		})
	}
	l := Life{InitialAge: farFuture, ReceivedAt: time.Time{}, Lifetime: farFuture}
	assert.Equal(t, 2*farFuture, l.Age(t0))
	assert.Negative(t, l.TTL(t0))
}

// Date has whole seconds: a response isn't a second old because the clock is
// past the middle of one.
func TestApparentAgeInSeconds(t *testing.T) {
	ex := get(200, header("Date", "@0"))
	ex.RequestedAt, ex.ReceivedAt = t0.Add(900*time.Millisecond), t0.Add(950*time.Millisecond)
	assert.Equal(t, 50*time.Millisecond, Decide(ex, &Policy{}).Life.InitialAge)
}
