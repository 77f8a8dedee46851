package cachekey

import (
	"context"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReduce(t *testing.T) {
	english := map[string]Normalizer{"Accept-Language": AcceptLanguage("en", "de")}
	cases := []struct {
		name    string
		options Options
		query   string
		lines   []string
		want    Reduced // zero: nothing to change
	}{
		{"all keyed", Options{}, "?b=1&a=2&", []string{"Cookie: a=1"}, Reduced{}},
		{"excluded", Options{Query: Exclude("x", "y")}, "?b=1&x=2&a&x&y=%20&b", nil, Reduced{
			Query: "b=1&a&b", QueryChanged: true, DroppedCount: 3, Dropped: []Dropped{{KindQuery, "x"}, {KindQuery, "y"}},
		}},
		{"nothing excluded", Options{Query: Exclude("x")}, "?b=1&&a=2&", nil, Reduced{}},
		{"all excluded", Options{Query: Exclude("x")}, "?x=1", nil,
			Reduced{QueryChanged: true, DroppedCount: 1, Dropped: []Dropped{{KindQuery, "x"}}}},
		{"what is left is the question mark", Options{Query: Exclude("x")}, "?x=1&", nil,
			Reduced{QueryChanged: true, ForceQuery: true, DroppedCount: 1, Dropped: []Dropped{{KindQuery, "x"}}}},
		{"unlisted", Options{Query: Include("a")}, "?b=1&a=2&&c", nil, Reduced{
			Query: "a=2", QueryChanged: true, DroppedCount: 2, Dropped: []Dropped{{KindQuery, "b"}, {KindQuery, "c"}},
		}},
		{"unlisted bypasses", Options{Query: Include("a"), OnUnknown: Bypass}, "?b=1&a=2", nil, Reduced{}},
		{"no query", Options{Query: None()}, "?b=1", nil,
			Reduced{QueryChanged: true, DroppedCount: 1, Dropped: []Dropped{{KindQuery, "b"}}}},
		{"no query, question mark", Options{Query: None()}, "?", nil, Reduced{QueryChanged: true}},
		{"no query, none sent", Options{Query: None()}, "", nil, Reduced{}},
		{"cookies stay", Options{Cookies: []string{"a"}}, "", []string{"Cookie: b=1"}, Reduced{}},
		{"other cookies", Options{Cookies: []string{"a", "c"}, DropOtherCookies: true}, "",
			[]string{"Cookie: b=1; a=\"2\";c;  a=3; =x", "Cookie: d; c = 4"}, Reduced{
				Cookie: "a=\"2\"; c; a=3; c = 4", CookieChanged: true, DroppedCount: 3,
				Dropped: []Dropped{{KindCookie, "b"}, {KindCookie, ""}, {KindCookie, "d"}},
			}},
		{"no other cookies", Options{Cookies: []string{"a"}, DropOtherCookies: true}, "", []string{"Cookie: a=1; a=2;"}, Reduced{}},
		{"all cookies", Options{DropOtherCookies: true}, "", []string{"Cookie: a=1"},
			Reduced{CookieChanged: true, DroppedCount: 1, Dropped: []Dropped{{KindCookie, "a"}}}},
		{"no cookies", Options{DropOtherCookies: true}, "", nil, Reduced{}},
		{"normalised field", Options{Normalize: english}, "", []string{"Accept-Language: de-CH, fr"},
			Reduced{Headers: []Pair{{"Accept-Language", "de"}}}},
		{"normalised field, absent", Options{Normalize: english}, "", nil, Reduced{Headers: []Pair{{"Accept-Language", "en"}}}},
		{"normalised field, nothing to do", Options{Normalize: english}, "", []string{"Accept-Language: de"}, Reduced{}},
		{"unkeyed kept", Options{Query: None(), KeepUnkeyedInputs: true, Normalize: english}, "?a", nil, Reduced{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, changed := mustSpec(t, c.options).Reduce(&Input{Request: request("http://a.test/p"+c.query, c.lines...)})
			assert.Equal(t, c.want, got)
			assert.Equal(t, got.QueryChanged || got.CookieChanged || len(got.Headers) > 0, changed)
		})
	}
	_, changed := mustSpec(t, Options{Query: None()}).Reduce(&Input{Request: request("http://a.test/?a"), Scheme: "junk"})
	assert.False(t, changed, "a request without a key goes out unchanged")
}

func TestReduceBoundsTheNamesItLists(t *testing.T) {
	got, _ := mustSpec(t, Options{Query: None()}).Reduce(&Input{Request: request("http://a.test/?" + manyParameters(1000))})
	assert.Len(t, got.Dropped, MaxDropped)
	assert.Equal(t, 1000, got.DroppedCount)
}

// An excluded parameter and an unkeyed cookie that the origin reflected were stored
// for everyone.
func TestAppliedRequestCarriesNothingThatIsNotKeyed(t *testing.T) {
	s := mustSpec(t, Options{
		Query: Exclude("utm_content"), Cookies: []string{"lang"}, DropOtherCookies: true,
		Normalize: map[string]Normalizer{"User-Agent": DeviceClass(), "X-Gone": {Value: func([]string) string { return "" }}},
	})
	type contextKey struct{}
	r := request("https://a.test/js?callback=ok&utm_content=evil",
		"Cookie: fehost=evil; lang=de", "User-Agent: curl/1 evil", "X-Gone: evil", "X-Other: kept")
	r = r.WithContext(context.WithValue(r.Context(), contextKey{}, "kept"))
	require.NoError(t, r.ParseForm())
	before := r.Header.Clone()

	in := &Input{Request: r}
	reduced, changed := s.Reduce(in)
	require.True(t, changed)
	out := reduced.Apply(r)

	assert.Equal(t, "/js?callback=ok", out.URL.String())
	assert.Equal(t, "/js?callback=ok", out.RequestURI)
	assert.Equal(t, http.Header{
		"Cookie": {"lang=de"}, "User-Agent": {genericAgent(Desktop)}, "X-Other": {"kept"},
	}, out.Header)
	assert.Empty(t, out.FormValue("utm_content"))
	assert.Equal(t, "ok", out.FormValue("callback"))
	assert.Equal(t, "kept", out.Context().Value(contextKey{}))

	assert.Equal(t, "/js?callback=ok&utm_content=evil", r.URL.String(), "the visitor's request stays as it is")
	assert.Equal(t, "/js?callback=ok&utm_content=evil", r.RequestURI)
	assert.Equal(t, before, r.Header)
	assert.Equal(t, "evil", r.FormValue("utm_content"))
	assert.Equal(t, s.Text(in), s.Text(&Input{Request: out}))
}

func TestApplyDropsTheQuestionMarkWithTheQuery(t *testing.T) {
	s := mustSpec(t, Options{Query: None()})
	for _, query := range []string{"?", "?a=1", "?a?b"} {
		r := request("http://a.test/p" + query)
		reduced, _ := s.Reduce(&Input{Request: r})
		out := reduced.Apply(r)
		assert.Equal(t, "/p", out.URL.RequestURI())
		assert.Equal(t, "/p", out.RequestURI)
	}
	r := &http.Request{URL: &url.URL{Path: "/"}}
	reduced, _ := mustSpec(t, Options{Normalize: map[string]Normalizer{"Accept-Encoding": AcceptEncoding()}}).Reduce(&Input{Request: r})
	assert.Equal(t, http.Header{"Accept-Encoding": {"identity"}}, reduced.Apply(r).Header, "a nil header")
	assert.Nil(t, r.Header)
}

// The request that fills the cache has the key of the visitor's, and there is
// nothing more to leave out of it.
func FuzzReducedRequestHasTheSameKey(f *testing.F) {
	f.Add("a=1&x=2&%78=3&&b;x", "x=1; c=\"2\"; =; c", "de;q=0.5", uint8(0))
	f.Add("x&", "c", "", uint8(1))
	f.Add("", ";;", "gzip;q=0", uint8(2))
	var specs []*Spec
	for _, q := range []Query{All(), None(), Include("x", "b"), Exclude("x", "b")} {
		for _, keep := range []bool{false, true} {
			specs = append(specs, mustSpec(f, Options{
				Query: q, KeepQueryOrder: keep && q.Mode != QueryNone, Cookies: []string{"c"}, DropOtherCookies: true,
				Headers: []string{"accept-language"},
				Normalize: map[string]Normalizer{
					"Accept-Encoding": AcceptEncoding(), "Accept-Language": AcceptLanguage("en", "de", "de-CH"), "User-Agent": DeviceClass(),
				},
			}))
		}
	}
	names := []string{"accept-encoding", "accept-language", "cookie", "user-agent"}
	f.Fuzz(func(t *testing.T, query, cookies, value string, which uint8) {
		s := specs[int(which)%len(specs)]
		r := &http.Request{
			Host: "a.test", URL: &url.URL{Path: "/", RawQuery: query, ForceQuery: which&64 != 0}, RequestURI: "/?" + query,
			Header: http.Header{"Cookie": {cookies}, "Accept-Encoding": {value}, "Accept-Language": {value}, "User-Agent": {value}},
		}
		in := &Input{Request: r}
		reduced, changed := s.Reduce(in)
		if !changed {
			return
		}
		out := &Input{Request: reduced.Apply(r)}
		if s.Text(in) != s.Text(out) {
			t.Fatalf("%q\n%q", s.Text(in), s.Text(out))
		}
		if a, b := selecting(s, r.Header, names...), selecting(s, out.Request.Header, names...); a != b {
			t.Fatalf("%q\n%q", a, b)
		}
		if again, changed := s.Reduce(out); changed {
			t.Fatalf("%+v\n%+v", reduced, again)
		}
	})
}
