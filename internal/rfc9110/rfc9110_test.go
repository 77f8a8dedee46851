package rfc9110

import (
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

var received = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func header(kv ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(kv); i += 2 {
		h.Add(kv[i], kv[i+1])
	}
	return h
}

func TestParseETag(t *testing.T) {
	for s, want := range map[string]ETag{
		`"a"`: {Opaque: "a"}, `W/"a"`: {Weak: true, Opaque: "a"}, `""`: {}, `"a,b\"`: {Opaque: `a,b\`}, "\"\xfc\"": {Opaque: "\xfc"},
	} {
		got, ok := ParseETag(s)
		assert.True(t, ok, s)
		assert.Equal(t, want, got, s)
		assert.Equal(t, s, got.String())
	}
	for _, s := range []string{``, `a`, `"a`, `w/"a"`, `W"a"`, `W\"a"`, `"a"b`, `"a" `, `"a b"`, `*`, `W/`} {
		_, ok := ParseETag(s)
		assert.False(t, ok, s)
	}
}

func TestETagMatch(t *testing.T) { // RFC 9110 §8.8.3.2, the table
	for _, tc := range []struct {
		a, b         string
		strong, weak bool
	}{
		{`W/"1"`, `W/"1"`, false, true},
		{`W/"1"`, `W/"2"`, false, false},
		{`W/"1"`, `"1"`, false, true},
		{`"1"`, `"1"`, true, true},
	} {
		a, _ := ParseETag(tc.a)
		b, _ := ParseETag(tc.b)
		assert.Equal(t, tc.strong, a.StrongMatch(b), tc)
		assert.Equal(t, tc.weak, a.WeakMatch(b), tc)
	}
	assert.True(t, SameETag(`W/"1"`, `W/"1"`))
	assert.False(t, SameETag(`W/"1"`, `"1"`))
	assert.True(t, SameETag(`abc`, `abc`))
	assert.False(t, SameETag(``, ``))
}

func TestEvaluate(t *testing.T) {
	const (
		lm     = "Sun, 29 Nov 2026 12:00:00 GMT"
		before = "Sun, 29 Nov 2026 11:59:59 GMT"
		after  = "Sun, 29 Nov 2026 12:00:01 GMT"
		date   = "Mon, 30 Nov 2026 11:59:00 GMT"
	)
	strong := header("ETag", `"a"`, "Last-Modified", lm, "Date", date)
	weak := header("ETag", `W/"a"`)
	for _, tc := range []struct {
		name    string
		request http.Header
		status  int
		stored  http.Header
		want    Outcome
	}{
		{"no condition", header(), 200, strong, Proceed},
		{"§13.1.2: same tag", header("If-None-Match", `"a"`), 200, strong, NotModified},
		{"§13.1.2: weak comparison", header("If-None-Match", `W/"a"`), 200, strong, NotModified},
		{"§13.1.2: stored weak", header("If-None-Match", `"a"`), 200, weak, NotModified},
		{"§13.1.2: first of several", header("If-None-Match", `"a", "1", "2"`), 200, strong, NotModified},
		{"§13.1.2: middle one", header("If-None-Match", `"1", "a", "2"`), 200, strong, NotModified},
		{"§13.1.2: last one", header("If-None-Match", `"1" , W/"2",, "a" `), 200, strong, NotModified},
		{"§13.1.2: on the next line", header("If-None-Match", `"1"`, "If-None-Match", `"a"`), 200, strong, NotModified},
		{"§13.1.2: a comma in a tag", header("If-None-Match", `"b,", "a,b"`), 200, header("ETag", `"a,b"`), NotModified},
		{"§13.1.2: *", header("If-None-Match", ` * `), 200, header(), NotModified},
		{"§13.1.2: * in a list is nothing", header("If-None-Match", `*, "b"`), 200, strong, Proceed},
		{"§13.1.2: another tag", header("If-None-Match", `"b"`), 200, strong, Proceed},
		{"§13.1.2: no stored tag", header("If-None-Match", `"b"`), 200, header(), Proceed},
		{"§8.8.3: obs-text", header("If-None-Match", "\"\xc3\xbc\""), 200, header("ETag", "\"\xc3\xbc\""), NotModified},
		{"unquoted against quoted", header("If-None-Match", `a`), 200, strong, Proceed},
		{"unquoted against unquoted", header("If-None-Match", `b, a`), 200, header("ETag", "a"), NotModified},
		{"quoted against unquoted", header("If-None-Match", `"a"`), 200, header("ETag", "a"), Proceed},
		{"two stored tags are none", header("If-None-Match", `"a"`), 200, header("ETag", `"a"`, "ETag", `"b"`), Proceed},
		{"§13.1.3: tag before date, differs", header("If-None-Match", `"b"`, "If-Modified-Since", lm), 200, strong, Proceed},
		{"§13.1.3: tag before date, same", header("If-None-Match", `"a"`, "If-Modified-Since", before), 200, strong, NotModified},
		{"§13.1.3: equal", header("If-Modified-Since", lm), 200, strong, NotModified},
		{"§13.1.3: later", header("If-Modified-Since", after), 200, strong, NotModified},
		{"§13.1.3: earlier", header("If-Modified-Since", before), 200, strong, Proceed},
		{"§13.1.3: no date", header("If-Modified-Since", "yesterday"), 200, strong, Proceed},
		{"§13.1.3: two dates", header("If-Modified-Since", after, "If-Modified-Since", after), 200, strong, Proceed},
		{"RFC 9111 §4.3.2: Date stands in", header("If-Modified-Since", date), 200, header("Date", date), NotModified},
		{"RFC 9111 §4.3.2: receipt stands in", header("If-Modified-Since", "Mon, 30 Nov 2026 12:00:00 GMT"), 200, header(), NotModified},
		{"RFC 9111 §4.3.2: receipt is later", header("If-Modified-Since", date), 200, header(), Proceed},
		{"§13.2.1: not for a 404", header("If-None-Match", `"a"`), 404, strong, Proceed},
		{"§13.1.1: strong match", header("If-Match", `"b", "a"`), 200, strong, Proceed},
		{"§13.1.1: *", header("If-Match", `*`), 200, strong, Proceed},
		{"§13.1.1: weak is no match", header("If-Match", `W/"a"`), 200, strong, PreconditionFailed},
		{"§13.1.1: other", header("If-Match", `"b"`), 200, strong, PreconditionFailed},
		{"§13.1.4: modified since", header("If-Unmodified-Since", before), 200, strong, PreconditionFailed},
		{"§13.1.4: unmodified", header("If-Unmodified-Since", lm), 200, strong, Proceed},
		{"§13.1.4: If-Match goes first", header("If-Match", `"a"`, "If-Unmodified-Since", before), 200, strong, Proceed},
		{"§13.2.2: then If-None-Match", header("If-Match", `"a"`, "If-None-Match", `"a"`), 200, strong, NotModified},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.want, Evaluate(tc.request, tc.status, tc.stored, received))
		})
	}
}

func TestIfRange(t *testing.T) {
	const lm, date = "Sun, 29 Nov 2026 12:00:00 GMT", "Mon, 30 Nov 2026 11:59:00 GMT"
	for _, tc := range []struct {
		name            string
		request, stored http.Header
		want            bool
	}{
		{"absent", header(), header(), true},
		{"§13.1.5: strong tag", header("If-Range", `"a"`), header("ETag", `"a"`), true},
		{"§13.1.5: other tag", header("If-Range", `"a"`), header("ETag", `"b"`), false},
		{"§13.1.5: weak in the request", header("If-Range", `W/"a"`), header("ETag", `"a"`), false},
		{"§13.1.5: weak in the store", header("If-Range", `"a"`), header("ETag", `W/"a"`), false},
		{"§13.1.5: same date", header("If-Range", lm), header("Last-Modified", lm, "Date", date), true},
		{"§13.1.5: later date is no match", header("If-Range", date), header("Last-Modified", lm, "Date", date), false},
		{"§8.8.2.2: modified in the second it was sent", header("If-Range", lm), header("Last-Modified", lm, "Date", lm), false},
		{"§8.8.2.2: no Date", header("If-Range", lm), header("Last-Modified", lm), false},
		{"neither", header("If-Range", "a"), header("ETag", "a"), false},
		{"twice", header("If-Range", `"a"`, "If-Range", `"a"`), header("ETag", `"a"`), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.want, IfRange(tc.request, tc.stored))
		})
	}
}

func TestRange(t *testing.T) {
	many := "bytes=0-0"
	for range MaxRanges {
		many += ",2-2"
	}
	for _, tc := range []struct {
		name, value string
		size        int64
		want        []Range
		outcome     RangeOutcome
	}{
		{"RFC 9110 §14.1.2: first and last", "bytes=0-1", 11, []Range{{0, 2}}, RangePartial},
		{"§14.1.2: open", "bytes=1-", 11, []Range{{1, 10}}, RangePartial},
		{"§14.1.2: suffix", "bytes=-1", 11, []Range{{10, 1}}, RangePartial},
		{"§14.1.2: suffix longer than the whole", "bytes=-50", 11, []Range{{0, 11}}, RangePartial},
		{"§14.1.2: last beyond the end", "bytes=5-99", 11, []Range{{5, 6}}, RangePartial},
		{"§14.1.2: several, one beyond", "bytes= 0-0 , ,99-, -1", 11, []Range{{0, 1}, {10, 1}}, RangePartial},
		{"§14.1: unit in any case", "BYTES=0-0", 11, []Range{{0, 1}}, RangePartial},
		{"§14.1.2: overflow saturates", "bytes=0-99999999999999999999999999", 11, []Range{{0, 11}}, RangePartial},
		{"overflowing first", "bytes=99999999999999999999999999-", 11, nil, RangeUnsatisfiable},
		{"overflowing suffix", "bytes=-99999999999999999999999999", 11, []Range{{0, 11}}, RangePartial},
		{"§15.5.17: beyond the end", "bytes=11-", 11, nil, RangeUnsatisfiable},
		{"§14.1.2: suffix of none", "bytes=-0", 11, nil, RangeUnsatisfiable},
		{"empty content", "bytes=0-", 0, nil, RangeUnsatisfiable},
		{"suffix of empty content", "bytes=-5", 0, nil, RangeIgnored},
		{"§14.2: backwards", "bytes=5-2", 11, nil, RangeIgnored},
		{"§14.2: one of them backwards", "bytes=0-1,5-2", 11, nil, RangeIgnored},
		{"§14.2: none", "bytes=", 11, nil, RangeIgnored},
		{"§14.2: unknown unit", "lines=0-1", 11, nil, RangeIgnored},
		{"blank before =", "bytes =0-1", 11, nil, RangeIgnored},
		{"only a dash", "bytes=-", 11, nil, RangeIgnored},
		{"no dash", "bytes=5", 11, nil, RangeIgnored},
		{"sign", "bytes=+1-2", 11, nil, RangeIgnored},
		{"two dashes", "bytes=1-2-3", 11, nil, RangeIgnored},
		{"letters", "bytes=a-b", 11, nil, RangeIgnored},
		{"§17.15: too many", many, 1000, nil, RangeIgnored},
		{"§17.15: more than the whole", "bytes=0-,0-", 11, nil, RangeIgnored},
		{"the whole in two parts", "bytes=0-4,5-", 11, []Range{{0, 5}, {5, 6}}, RangePartial},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rs, ok := ParseRange([]string{tc.value})
			var got []Range
			outcome := RangeIgnored
			if ok {
				got, outcome = rs.Resolve(tc.size)
			}
			assert.Equal(t, tc.want, got)
			assert.Equal(t, tc.outcome, outcome)
		})
	}
	_, ok := ParseRange(nil)
	assert.False(t, ok)
	_, ok = ParseRange([]string{"bytes=0-1", "bytes=0-1"})
	assert.False(t, ok)
	rs, _ := ParseRange([]string{"bytes=1-,-2,3-4"})
	assert.Equal(t, Ranges{{1, math.MaxInt64}, {-1, 2}, {3, 4}}, rs)
	assert.True(t, rs[0].Open() && !rs[0].Suffix() && rs[1].Suffix() && !rs[1].Open() && !rs[2].Open())
}

func TestContentRange(t *testing.T) { // RFC 9110 §14.4
	assert.Equal(t, "bytes 4-9/10", Range{4, 6}.ContentRange(10))
	assert.Equal(t, "bytes */10", UnsatisfiedRange(10))
	r, size, ok := ParseContentRange("Bytes 4-9/*")
	assert.True(t, ok)
	assert.Equal(t, Range{4, 6}, r)
	assert.Equal(t, int64(-1), size)
	for _, s := range []string{"", "bytes", "bytes */10", "bytes 4-9", "bytes 9-4/10", "bytes 4-10/10", "lines 1-2/3", "bytes 4-9/x", "bytes 0-99999999999999999999/*", "bytes -1/2"} {
		_, _, ok := ParseContentRange(s)
		assert.False(t, ok, s)
	}
}

func TestRemoveHopByHop(t *testing.T) { // RFC 9110 §7.6.1
	h := header("Connection", "close, a", "Connection", "B", "A", "1", "B", "2", "C", "3",
		"Keep-Alive", "x", "Proxy-Connection", "x", "TE", "x", "Trailer", "x", "Transfer-Encoding", "x", "Upgrade", "x",
		"Proxy-Authenticate", "x", "Proxy-Authorization", "x", "Proxy-Authentication-Info", "x")
	RemoveHopByHop(h)
	assert.Equal(t, header("C", "3"), h)
	assert.True(t, IsHopByHop("Te"))
}

func TestSemantics(t *testing.T) {
	for status, want := range map[int][3]bool{ // understood, heuristic, body
		200: {true, true, true}, 204: {true, true, false}, 206: {false, false, true}, 299: {false, false, true},
		302: {true, false, true}, 304: {false, false, false}, 404: {true, true, true}, 599: {false, false, true}, 101: {false, false, false},
	} {
		assert.Equal(t, want, [3]bool{Understood(status), HeuristicallyCacheable(status), BodyAllowed(status)}, status)
	}
	assert.True(t, OriginFailed(502))
	assert.False(t, OriginFailed(429))
	assert.True(t, IsSafe("GET"))
	for _, m := range []string{"POST", "M-SEARCH", "get", ""} {
		assert.False(t, IsSafe(m), m)
	}
	assert.Equal(t, "not modified", NotModified.String())
	assert.Equal(t, "unsatisfiable", RangeUnsatisfiable.String())
}

func FuzzRange(f *testing.F) {
	f.Add("bytes=0-1,5-,-3", int64(100))
	f.Add("bytes=99999999999999999999-", int64(0))
	f.Fuzz(func(t *testing.T, s string, size int64) {
		if size < 0 {
			return
		}
		rs, ok := ParseRange([]string{s})
		if !ok {
			return
		}
		if len(rs) == 0 || len(rs) > MaxRanges {
			t.Fatal(len(rs))
		}
		got, outcome := rs.Resolve(size)
		if (outcome == RangePartial) != (len(got) > 0) {
			t.Fatal(outcome, got)
		}
		var sum int64
		for _, r := range got {
			if r.Start < 0 || r.Length < 1 || r.Start > size-r.Length {
				t.Fatalf("%q of %d: %v", s, size, r)
			}
			sum += r.Length
			back, n, ok := ParseContentRange(r.ContentRange(size))
			if size < math.MaxInt64-1 && (!ok || back != r || n != size) {
				t.Fatalf("%v of %d became %v of %d", r, size, back, n)
			}
		}
		if sum > size {
			t.Fatalf("%q of %d: %d bytes", s, size, sum)
		}
	})
}

func FuzzIfNoneMatch(f *testing.F) {
	f.Add(`"a", W/"b"`, `"b"`)
	f.Add(`*`, ``)
	f.Fuzz(func(t *testing.T, list, stored string) {
		matches := matchETags([]string{list}, stored, false)
		if matchETags([]string{list}, stored, true) && !matches {
			t.Fatal("matches strongly, not weakly")
		}
		if _, ok := ParseETag(stored); ok && !matches {
			if !matchETags([]string{stored + "," + list}, stored, false) {
				t.Fatalf("%q not found in %q", stored, stored+","+list)
			}
		}
	})
}

func TestParseUnsatisfiedRange(t *testing.T) {
	for value, want := range map[string]int64{"bytes */10": 10, "Bytes */0": 0, UnsatisfiedRange(1 << 40): 1 << 40} {
		size, ok := ParseUnsatisfiedRange(value)
		assert.True(t, ok, value)
		assert.Equal(t, want, size)
	}
	for _, value := range []string{"", "bytes", "bytes */", "bytes */*", "bytes 0-1/2", "bytes */-1", "bytes */1 ", "lines */3", "bytes */99999999999999999999", "*/3"} {
		_, ok := ParseUnsatisfiedRange(value)
		assert.False(t, ok, value)
	}
}
