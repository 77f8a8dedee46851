package rfc9111

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/weirhttp/weir/internal/field"
)

func TestConditionalFor(t *testing.T) { // §4.3.1
	const lm = "Sun, 29 Nov 2026 12:00:00 GMT"
	for _, tc := range []struct {
		name     string
		h        http.Header
		inm, ims string
	}{
		{"none", header(), "", ""},
		{"both", header("ETag", `"a"`, "Last-Modified", lm), `"a"`, lm},
		{"weak", header("ETag", `W/"a"`), `W/"a"`, ""},
		{"unquoted, as sent", header("ETag", `abc`), `abc`, ""},
		{"a tag that would match anything", header("ETag", `*`), "", ""},
		{"a tag that would be a list", header("ETag", `a, "b"`), "", ""},
		{"a comma in quotes", header("ETag", `"a,b"`), `"a,b"`, ""},
		{"two tags", header("ETag", `"a"`, "ETag", `"b"`), "", ""},
		{"no date", header("Last-Modified", "yesterday"), "", ""},
	} {
		inm, ims := ConditionalFor(tc.h)
		assert.Equal(t, [2]string{tc.inm, tc.ims}, [2]string{inm, ims}, tc.name)
	}
}

func TestNotModifiedFits(t *testing.T) { // §4.3.4
	for _, tc := range []struct {
		name           string
		stored, update http.Header
		want           bool
	}{
		{"same tag", header("ETag", `"a"`), header("ETag", `"a"`), true},
		{"other tag", header("ETag", `"a"`), header("ETag", `"b"`), false},
		{"strong speaks of no weak", header("ETag", `W/"a"`), header("ETag", `"a"`), false},
		{"weak", header("ETag", `"a"`), header("ETag", `W/"a"`), true},
		{"unquoted", header("ETag", `a`), header("ETag", `a`), true},
		{"same date, other form", header("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT"), header("Last-Modified", "Sun Nov  6 08:49:37 1994"), true},
		{"other date", header("Last-Modified", "@-5"), header("Last-Modified", "@-6"), false},
		{"tag not stored", header(), header("ETag", `"a"`), false},
		{"no validator", header("ETag", `"a"`), header(), true},
	} {
		assert.Equal(t, tc.want, NotModifiedFits(tc.stored, tc.update), tc.name)
	}
}

func TestFreshen(t *testing.T) { // §3.2, §4.3.4
	for _, tc := range []struct {
		name                 string
		stored, update, want http.Header
		p                    Policy
	}{
		{"replaces, keeps, adds", header("A", "1", "A", "2", "B", "1", "Date", "@-60"), header("A", "3", "C", "4", "Date", "@0"), header("A", "3", "B", "1", "C", "4", "Date", "@0"), Policy{}},
		{"what describes the body stays",
			header("Content-Type", "text/plain", "Content-Encoding", "br", "Content-Length", "5", "Content-Range", "x", "Date", "@0", "Content-Location", "/a"),
			header("Content-Type", "text/html", "Content-Encoding", "gzip", "Content-Length", "10", "Content-Range", "y", "Date", "@0", "Content-Location", "/b"),
			header("Content-Type", "text/plain", "Content-Encoding", "br", "Content-Length", "5", "Content-Range", "x", "Date", "@0", "Content-Location", "/b"), Policy{}},
		{"an identity body gets no coding", header("Date", "@0"), header("Content-Encoding", "gzip", "Date", "@0"), header("Date", "@0"), Policy{}},
		{"§7.6.1: hop-by-hop", header("Date", "@0", "X", "1"), header("Connection", "x, close", "X", "2", "Keep-Alive", "y", "Date", "@0"), header("Date", "@0", "X", "1"), Policy{}},
		{"§4.2.3: Age and Date are the update's", header("Age", "90", "Date", "@-900"), header(), header("Date", "@0"), Policy{}},
		{"cookies stay out", header("Date", "@0"), header("Set-Cookie", "a=b", "Date", "@0"), header("Date", "@0"), Policy{}},
		{"cookies, allowed", header("Date", "@0", "Set-Cookie", "a=b"), header("Set-Cookie", "a=c", "Date", "@0"), header("Date", "@0", "Set-Cookie", "a=c"), Policy{StoreSetCookie: true}},
		{"§5.2.2.4: newly qualified", header("Date", "@0", "X", "1", "Y", "1"), header("Cache-Control", `no-cache="x"`, "X", "2", "Date", "@0"), header("Date", "@0", "Y", "1", "Cache-Control", `no-cache="x"`), Policy{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			stored, update := tc.stored.Clone(), tc.update.Clone()
			assert.Equal(t, tc.want, Freshen(tc.stored, tc.update, t0, &tc.p))
			assert.Equal(t, stored, tc.stored)
			assert.Equal(t, update, tc.update)
		})
	}
}

// A 304 with a new lifetime makes the stored response fresh again for as long.
func TestFreshenRenewsLife(t *testing.T) {
	stored := header("Cache-Control", "max-age=1", "ETag", `"a"`, "Date", "@0", "Age", "40")
	now := after(time.Minute)
	merged := Freshen(stored, header("Cache-Control", "max-age=60", "ETag", `"a"`, "Date", "@60"), now, &Policy{})
	d := Decide(&Exchange{Method: "GET", Status: 200, Header: merged, Path: "/", RequestedAt: now, ReceivedAt: now}, &Policy{})
	assert.Equal(t, Verdict{UseFresh, Fresh, 59 * time.Second}, Judge(&d.Life, RequestDirectives{}, &Policy{}, now.Add(time.Second)))
}

func TestStoredHeader(t *testing.T) { // §3.1
	for _, tc := range []struct {
		name     string
		in, want http.Header
		p        Policy
	}{
		{"nominated by Connection", header("Connection", "a, b", "A", "1", "B", "2", "C", "3", "Date", "@0"), header("C", "3", "Date", "@0"), Policy{}},
		{"for one connection, for one proxy", header("Keep-Alive", "x", "Proxy-Authenticate", "x", "Proxy-Authentication-Info", "x", "Proxy-Authorization", "x", "Proxy-Connection", "x", "TE", "x", "Transfer-Encoding", "x", "Upgrade", "x", "Date", "@0"), header("Date", "@0"), Policy{}},
		{"§5.2.2.4, §5.2.2.7: qualified", header("Cache-Control", `no-cache="a, b", private="d"`, "A", "1", "B", "2", "C", "3", "D", "4", "Date", "@0"), header("Cache-Control", `no-cache="a, b", private="d"`, "C", "3", "Date", "@0"), Policy{}},
		{"cookies", header("Set-Cookie", "a", "Set-Cookie2", "b", "Date", "@0"), header("Date", "@0"), Policy{}},
		{"cookies, allowed", header("Set-Cookie", "a", "Set-Cookie2", "b", "Date", "@0"), header("Set-Cookie", "a", "Set-Cookie2", "b", "Date", "@0"), Policy{StoreSetCookie: true}},
		{"RFC 9110 §6.6.1: Date", header("X", "1"), header("X", "1", "Date", "@0"), Policy{}},
		{"an invalid Date stays", header("Date", "foo"), header("Date", "foo"), Policy{}},
		{"Age", header("Age", "5", "Date", "@0"), header("Date", "@0"), Policy{}},
		{"no header at all", nil, header("Date", "@0"), Policy{}},
		{"everything else", header("WWW-Authenticate", "x", "Content-MD5", "x", "Strict-Transport-Security", "x", "CDN-Cache-Control", "x", "Date", "@0"), header("WWW-Authenticate", "x", "Content-MD5", "x", "Strict-Transport-Security", "x", "CDN-Cache-Control", "x", "Date", "@0"), Policy{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.in.Clone()
			assert.Equal(t, tc.want, StoredHeader(tc.in, t0, &tc.p))
			assert.Equal(t, before, tc.in)
		})
	}
}

func TestHeadEffect(t *testing.T) { // §4.3.5
	stored := header("ETag", `"a"`, "Last-Modified", "@-60")
	for _, tc := range []struct {
		name   string
		status int
		head   http.Header
		want   HeadOutcome
	}{
		{"all the same", 200, header("ETag", `"a"`, "Last-Modified", "@-60", "Content-Length", "42"), HeadRefreshes},
		{"nothing to compare", 200, header("X", "2"), HeadSaysNothing},
		{"the length alone", 200, header("Content-Length", "42"), HeadSaysNothing},
		{"other tag", 200, header("ETag", `"b"`), HeadInvalidates},
		{"other date", 200, header("Last-Modified", "@-50"), HeadInvalidates},
		{"other length", 200, header("Content-Length", "43"), HeadInvalidates},
		{"no length", 200, header("Content-Length", "x"), HeadInvalidates},
		{"another status", 410, header("ETag", `"b"`), HeadSaysNothing},
		{"an error", 503, header(), HeadSaysNothing},
	} {
		assert.Equal(t, tc.want, HeadEffect(stored, 42, tc.status, tc.head), tc.name)
	}
}

func TestInvalidation(t *testing.T) { // §4.4
	for _, tc := range []struct {
		method string
		status int
		want   bool
	}{
		{"POST", 200, true}, {"PUT", 204, true}, {"DELETE", 303, true}, {"M-SEARCH", 200, true}, {"PATCH", 201, true},
		{"POST", 500, false}, {"POST", 404, false}, {"GET", 200, false}, {"HEAD", 200, false}, {"OPTIONS", 200, false},
	} {
		assert.Equal(t, tc.want, Invalidates(tc.method, tc.status), tc)
	}
	target, _ := url.Parse("https://u:p@Example.com/dir/a?x=1#frag")
	for _, tc := range []struct {
		name string
		h    http.Header
		want []string
	}{
		{"only the target", header(), nil},
		{"relative", header("Location", "b", "Content-Location", "/c?y"), []string{"https://Example.com/dir/b", "https://Example.com/c?y"}},
		{"same origin, spelt otherwise", header("Location", "HTTPS://example.COM:443/d"), []string{"https://example.COM:443/d"}},
		{"other host", header("Location", "https://evil.test/d", "Content-Location", "//evil.test/e"), nil},
		{"other scheme", header("Location", "http://example.com/d"), nil},
		{"other port", header("Location", "https://example.com:8443/d"), nil},
		{"the target again", header("Location", "a?x=1#z", "Content-Location", "/dir/a?x=1"), nil},
		{"two lines", header("Location", "b", "Location", "c"), nil},
		{"no URI", header("Location", "%zz"), nil},
		{"empty is the target", header("Content-Location", ""), nil},
		{"dot segments", header("Location", "/x/../y/./z?q", "Content-Location", "./../w"),
			[]string{"https://Example.com/y/z?q", "https://Example.com/x/../y/./z?q", "https://Example.com/w"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, u := range InvalidationTargets(target, tc.h) {
				got = append(got, u.String())
			}
			assert.Equal(t, append([]string{"https://Example.com/dir/a?x=1"}, tc.want...), got)
		})
	}
	assert.Equal(t, "frag", target.Fragment)
}

func TestGroups(t *testing.T) { // RFC 9875
	assert.Equal(t, []string{"a b", "c"}, Groups(header("Cache-Groups", `"a b"`, "Cache-Groups", `"c";x`)))
	assert.Nil(t, Groups(header("Cache-Groups", `"a", b`)))
	h := header("Cache-Group-Invalidation", `"a"`)
	assert.Equal(t, []string{"a"}, InvalidatedGroups("POST", h))
	assert.Nil(t, InvalidatedGroups("GET", h))
}

func TestVaryNames(t *testing.T) {
	var many []string
	for i := range MaxVaryNames + 1 {
		many = append(many, "x-"+strings.Repeat("y", i))
	}
	for _, tc := range []struct {
		name  string
		lines []string
		want  []string
		star  bool
	}{
		{"none", nil, nil, false},
		{"RFC 9110 §12.5.5", []string{"Foo, BAR", "foo", "", " , baz"}, []string{"bar", "baz", "foo"}, false},
		{"*", []string{"*"}, nil, true},
		{"twice", []string{"*, *"}, nil, true},
		{"two lines", []string{"*", "*"}, nil, true},
		{"after nothing", []string{", *"}, nil, true},
		{"after an empty line", []string{"", "*"}, nil, true},
		{"before a name", []string{"*, Foo"}, nil, true},
		{"after a name", []string{"Foo, *"}, nil, true},
		{"on the next line", []string{"Foo", "*"}, nil, true},
		{"with a blemish", []string{`"*"`}, nil, true},
		{"no name", []string{"foo bar"}, nil, true},
		{"quoted", []string{`"foo"`}, nil, true},
		{"as many as allowed", many[1:], slices.Sorted(slices.Values(many[1:])), false},
		{"too many", many, nil, true},
		{"one name a thousand times", slices.Repeat([]string{"a"}, 200), []string{"a"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			names, star := VaryNames(tc.lines)
			assert.Equal(t, tc.want, names)
			assert.Equal(t, tc.star, star)
		})
	}
}

func FuzzVary(f *testing.F) {
	f.Add("Foo, bar\n*")
	f.Add("a,,A\n b ")
	f.Fuzz(func(t *testing.T, s string) {
		names, star := VaryNames(strings.Split(s, "\n"))
		if star != (names == nil) && (star || strings.Trim(s, ", \t\n") != "") {
			t.Fatalf("%q: %q %v", s, names, star)
		}
		if !star && strings.Contains(s, "*") {
			t.Fatalf("%q: %q", s, names)
		}
		again, star := VaryNames([]string{field.Join(names)})
		if star || !slices.Equal(names, again) || !slices.IsSorted(names) {
			t.Fatalf("%q became %q", names, again)
		}
	})
}

func FuzzFreshen(f *testing.F) {
	f.Add("Connection", "x, close", "X")
	f.Add("Cache-Control", `private="x"`, "Set-Cookie")
	f.Fuzz(func(t *testing.T, name, value, other string) {
		stored := header("Content-Type", "text/css", "Etag", `"a"`, "Date", "@0", "X", "1")
		update := http.Header{http.CanonicalHeaderKey(name): {value}, http.CanonicalHeaderKey(other): {"1"}}
		before := update.Clone()
		out := Freshen(stored, update, t0, &Policy{})
		if !assert.ObjectsAreEqual(before, update) || out.Get("Content-Type") != "text/css" {
			t.Fatal(out)
		}
		for _, gone := range []string{"Connection", "Set-Cookie", "Transfer-Encoding", "Age"} {
			if _, ok := out[gone]; ok {
				t.Fatal(out)
			}
		}
	})
}
