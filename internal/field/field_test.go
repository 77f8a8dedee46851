package field

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestMembers(t *testing.T) {
	for _, tc := range []struct {
		name  string
		lines []string
		want  []string
	}{
		{"RFC 9110 §5.6.1: blanks and empty members", []string{" , a ,\tb,, c ,"}, []string{"a", "b", "c"}},
		{"RFC 9110 §5.3: lines are one list", []string{"a", "", "b, c"}, []string{"a", "b", "c"}},
		{"RFC 9110 §5.6.4: a comma in quotes", []string{`x="a, b", y`}, []string{`x="a, b"`, "y"}},
		{"RFC 9110 §5.6.4: a quoted quote", []string{`x="a\", b", y`}, []string{`x="a\", b"`, "y"}},
		{"an open quote hides nothing", []string{`x="a, b`, "c"}, []string{`x="a`, "b", "c"}},
		{"a backslash at the end", []string{`x="a\`, "c"}, []string{`x="a\`, "c"}},
		{"nothing", nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, tc.want, slices.Collect(Members(tc.lines)))
		})
	}
}

func TestMembersStopsEarly(t *testing.T) {
	for m := range Members([]string{"a, b", "c"}) {
		assert.Equal(t, "a", m)
		break
	}
}

func TestWellQuoted(t *testing.T) {
	for line, want := range map[string]bool{
		``:                             true,
		`a, b=c`:                       true,
		`a="b, c", d`:                  true,
		`a="b" ;c="d"`:                 true,
		`"a", "b"`:                     true,
		`a="b`:                         false,
		`a="b"c`:                       false,
		`a"b"`:                         false,
		`x="a, no-store, y="z"`:        false,
		`x="a\", no-store`:             false,
		`x="a\"b", y`:                  true,
		`no-cache="a, b", max-age="1"`: true,
	} {
		assert.Equal(t, want, WellQuoted(line), line)
	}
}

func TestQuotedStrings(t *testing.T) {
	for s, want := range map[string]string{
		`"a"`:       "a",
		`""`:        "",
		`"a\"b\\c"`: `a"b\c`,
		"\"\xfc\"":  "\xfc",
	} {
		got, ok := Unquote(s)
		assert.True(t, ok, s)
		assert.Equal(t, want, got, s)
	}
	for _, s := range []string{"", `"`, `a`, `"a`, `a"`, `"a"b"`, `"a" `, `"a\"`, "\"\x00\"", "\"\x7f\""} {
		_, ok := Unquote(s)
		assert.False(t, ok, s)
	}
	_, ok := Quote("a\nb")
	assert.False(t, ok)
}

func TestParameter(t *testing.T) {
	for _, tc := range []struct {
		value, name, want string
		ok                bool
	}{
		{`text/html; charset=utf-8`, "charset", "utf-8", true},
		{`text/html;Charset="utf;8";x=y`, "charset", "utf;8", true},
		{`text/html;Charset="utf;8";x=y`, "x", "y", true},
		{`text/html; charset = utf-8`, "charset", "", false},
		{`text/html`, "charset", "", false},
		{`a; q=b"c; q=d`, "q", "d", true},
	} {
		got, ok := Parameter(tc.value, tc.name)
		assert.Equal(t, tc.want, got, tc.value)
		assert.Equal(t, tc.ok, ok, tc.value)
	}
}

func TestTokens(t *testing.T) {
	assert.True(t, IsToken("x-A*1"))
	for _, s := range []string{"", "a b", "a,b", "a=", `"a"`, "ü"} {
		assert.False(t, IsToken(s), s)
	}
	assert.Equal(t, "a-\xc4b", Lower("A-\xc4B"))
	assert.True(t, EqualFold("Vary", "vARY"))
	assert.False(t, EqualFold("k", "\u212a"))
	assert.False(t, EqualFold("ab", "a"))
}

func TestSeconds(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"0": 0, "003600": time.Hour, "2147483647": 2147483647 * time.Second,
		"2147483648": MaxSeconds * time.Second, "99999999999999999999999999": MaxSeconds * time.Second,
	} {
		got, ok := Seconds(s)
		assert.True(t, ok, s)
		assert.Equal(t, want, got, s)
	}
	for _, s := range []string{"", "-1", "+1", "1.0", "1a", "a1", " 1", "1 ", "'1'", "0x1", "１"} {
		got, ok := Seconds(s)
		assert.False(t, ok, s)
		assert.Zero(t, got, s)
	}
}

func TestParseDate(t *testing.T) {
	now := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	nov94 := time.Date(1994, 11, 6, 8, 49, 37, 0, time.UTC)
	for s, want := range map[string]time.Time{
		// RFC 9110 §5.6.7: the three forms
		"Sun, 06 Nov 1994 08:49:37 GMT":  nov94,
		"Sunday, 06-Nov-94 08:49:37 GMT": nov94,
		"Sun Nov  6 08:49:37 1994":       nov94,
		"Sun Nov 16 08:49:37 1994":       nov94.AddDate(0, 0, 10),
		// names in any case
		"SUN, 06 NOV 1994 08:49:37 gMT":  nov94,
		"sunDAY, 06-nov-94 08:49:37 Gmt": nov94,
		// years far away
		"Tue, 19 Jan 2038 14:14:08 GMT": time.Date(2038, 1, 19, 14, 14, 8, 0, time.UTC),
		"Sun, 21 Nov 2286 04:46:39 GMT": time.Date(2286, 11, 21, 4, 46, 39, 0, time.UTC),
		// two digits: at most 50 years ahead
		"Thursday, 18-Aug-50 02:01:18 GMT": time.Date(2050, 8, 18, 2, 1, 18, 0, time.UTC),
		"Monday, 30-Nov-76 00:00:00 GMT":   time.Date(2076, 11, 30, 0, 0, 0, 0, time.UTC),
		"Monday, 30-Nov-76 00:00:01 GMT":   time.Date(1976, 11, 30, 0, 0, 1, 0, time.UTC),
		"Monday, 29-Feb-00 00:00:01 GMT":   time.Date(2000, 2, 29, 0, 0, 1, 0, time.UTC),
		// a leap second
		"Sat, 31 Dec 2016 23:59:60 GMT": time.Date(2017, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		got, ok := ParseDate(s, now)
		assert.True(t, ok, s)
		assert.Equal(t, want, got, s)
	}
	for _, s := range []string{
		"", "0", "-1", "foo",
		"Thu, 18 Aug 2050 02:01:18 UTC", "Thu, 18 Aug 2050 02:01:18 AEST", "Thu, 18 Aug 2050 02:01:18 +0000", "Thu, 18 Aug 2050 02:01:18",
		"Thu, 18 Aug 50 02:01:18 GMT", "Thu 18 Aug 2050 02:01:18 GMT", "Thu, 18  Aug  2050 02:01:18 GMT",
		"Thu, 18-Aug-2050 02:01:18 GMT", "Thu, 18 Aug 2050 02.01.18 GMT", "Thu, 18 Aug 2050 2:01:18 GMT",
		"Thu,18 Aug 2050 02:01:18 GMT", "Xyz, 18 Aug 2050 02:01:18 GMT", "Thu, 18 Abc 2050 02:01:18 GMT",
		"Thu, 31 Feb 2050 02:01:18 GMT", "Thu, 00 Aug 2050 02:01:18 GMT", "Thu, 18 Aug 2050 24:01:18 GMT",
		"Thu, 18 Aug 2050 02:60:18 GMT", "Thu, 18 Aug 2050 02:01:61 GMT", "Thu, 18 Aug 2050 02:01:18 GMT ",
		" Thu, 18 Aug 2050 02:01:18 GMT", "Thu, +8 Aug 2050 02:01:18 GMT", "Thu, 18 Aug 2050 02:01:18 GMT, x",
		"Thu, 18-Aug-50 02:01:18 GMT", "Thursday, 18 Aug 2050 02:01:18 GMT", "Sun Nov 6 08:49:37 1994", "Sun Nov    08:49:37 1994",
	} {
		_, ok := ParseDate(s, now)
		assert.False(t, ok, s)
	}
	assert.Equal(t, "Sun, 06 Nov 1994 08:49:37 GMT", FormatDate(nov94.In(time.FixedZone("x", 3600))))
}

func TestParseDictionary(t *testing.T) {
	yes := Item{Kind: Boolean, Bool: true}
	for _, tc := range []struct {
		name  string
		lines []string
		want  []Member
		ok    bool
	}{
		{"RFC 9651 §3.2", []string{"a, b=1;x=y;z,c=?0"}, []Member{{"a", yes}, {"b", Item{Kind: Integer, Int: 1}}, {"c", Item{Kind: Boolean}}}, true},
		{"lines join", []string{"a", "b=-7 "}, []Member{{"a", yes}, {"b", Item{Kind: Integer, Int: -7}}}, true},
		{"all are kept", []string{"a=1, a=2"}, []Member{{"a", Item{Kind: Integer, Int: 1}}, {"a", Item{Kind: Integer, Int: 2}}}, true},
		{"types", []string{`a=1.5, b="x\"y", c=T/o:k, d=:YQ==:, e=@12, f=%"x%20y", g=(a "b";q 1), h=*x`}, []Member{
			{"a", Item{Kind: Decimal}}, {"b", Item{Kind: String, Text: `x"y`}}, {"c", Item{Kind: Token, Text: "T/o:k"}},
			{"d", Item{Kind: Bytes}}, {"e", Item{Kind: Date, Int: 12}}, {"f", Item{Kind: DisplayString}},
			{"g", Item{Kind: InnerList, Items: []Item{{Kind: Token, Text: "a"}, {Kind: String, Text: "b"}, {Kind: Integer, Int: 1}}}}, {"h", Item{Kind: Token, Text: "*x"}},
		}, true},
		{"empty", []string{""}, nil, true},
		{"none", nil, nil, true},
		{"§4.2.2: comma at the end", []string{"a,"}, nil, false},
		{"§4.2.2: empty member", []string{"a,,b"}, nil, false},
		{"§4.2.3.3: upper case", []string{"Max-Age=1"}, nil, false},
		{"blank before =", []string{"max-age =1"}, nil, false},
		{"blank after =", []string{"max-age= 1"}, nil, false},
		{"junk", []string{"max-age=1, &&&&&"}, nil, false},
		{"§4.2.4: 16 digits", []string{"a=1234567890123456"}, nil, false},
		{"§4.2.4: point without digits", []string{"a=1."}, nil, false},
		{"§4.2.4: four decimals", []string{"a=1.2345"}, nil, false},
		{"open string", []string{`a="x`}, nil, false},
		{"string over two lines", []string{`a="x`, `y"`}, []Member{{"a", Item{Kind: String, Text: "x, y"}}}, true},
		{"empty inner list", []string{"a=( )"}, []Member{{"a", Item{Kind: InnerList}}}, true},
		{"§4.2.10: bad display strings", []string{`a=%"%2G"`}, nil, false},
		{"§4.2.10: upper case", []string{`a=%"%C3%A9"`}, nil, false},
		{"§4.2.10: not UTF-8", []string{`a=%"%c3"`}, nil, false},
		{"§4.2.10: UTF-8", []string{`a=%"%c3%a9"`}, []Member{{"a", Item{Kind: DisplayString}}}, true},
		{"open inner list", []string{`a=(b`}, nil, false},
		{"inner list without blanks", []string{`a=("b""c")`}, nil, false},
		{"bad escape", []string{`a="\x"`}, nil, false},
		{"bad boolean", []string{`a=?2`}, nil, false},
		{"bad parameter", []string{`a;=1`}, nil, false},
		{"bad date", []string{`a=@1.5`}, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := ParseDictionary(tc.lines)
			assert.Equal(t, tc.ok, ok)
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestParseStrings(t *testing.T) {
	got, ok := ParseStrings([]string{`"a b";x=1, "c\"d"`, `"e"`})
	assert.True(t, ok)
	assert.Equal(t, []string{"a b", `c"d`, "e"}, got)
	for _, s := range []string{`a`, `"a", 1`, `"a" "b"`, `"a",`, `("a")`, "\"\xc3\""} {
		got, ok := ParseStrings([]string{s})
		assert.False(t, ok, s)
		assert.Nil(t, got, s)
	}
	_, ok = QuoteString("ü")
	assert.False(t, ok)
}

func FuzzList(f *testing.F) {
	f.Add("a, b=\"c, d\"\n,e")
	f.Add(`x="a\", b`)
	f.Fuzz(func(t *testing.T, s string) {
		members := slices.Collect(Members(strings.Split(s, "\n")))
		again := slices.Collect(Members([]string{Join(members)}))
		for _, m := range members {
			if m == "" || m != TrimOWS(m) {
				t.Fatalf("member %q", m)
			}
			if !WellQuoted(m) {
				return // an open quote may find a partner in the next member
			}
		}
		assert.Equal(t, members, again)
	})
}

func FuzzQuote(f *testing.F) {
	f.Add(`a"b\c`)
	f.Fuzz(func(t *testing.T, s string) {
		q, ok := Quote(s)
		if !ok {
			return
		}
		got, ok := Unquote(q)
		if !ok || got != s {
			t.Fatalf("%q became %q", s, got)
		}
		if m := slices.Collect(Members([]string{"a, x=" + q + ", b"})); len(m) != 3 || m[1] != "x="+q {
			t.Fatalf("%q in a list: %q", s, m)
		}
	})
}

func FuzzStrings(f *testing.F) {
	f.Add("a b", `c"d\`)
	f.Fuzz(func(t *testing.T, a, b string) {
		qa, okA := QuoteString(a)
		qb, okB := QuoteString(b)
		if !okA || !okB {
			return
		}
		got, ok := ParseStrings([]string{qa + ", " + qb})
		if !ok || !slices.Equal(got, []string{a, b}) {
			t.Fatalf("%q, %q became %q", a, b, got)
		}
	})
}

func FuzzDictionary(f *testing.F) {
	f.Add("max-age=1, x;y=?0, z=(a b)")
	f.Fuzz(func(t *testing.T, s string) {
		members, ok := ParseDictionary([]string{s})
		if !ok && members != nil {
			t.Fatal("members of a malformed field")
		}
		// What can be read goes on being readable with one member more.
		if ok && len(members) > 0 {
			if more, ok := ParseDictionary([]string{s, "zz=1"}); !ok || len(more) != len(members)+1 {
				t.Fatalf("%q: %v", s, more)
			}
		}
	})
}

func FuzzDate(f *testing.F) {
	for _, s := range []string{"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"} {
		f.Add(s)
	}
	now := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		d, ok := ParseDate(s, now)
		if !ok {
			return
		}
		if again, ok := ParseDate(FormatDate(d), now); !ok || !again.Equal(d) {
			t.Fatalf("%q: %v became %v", s, d, again)
		}
	})
}
