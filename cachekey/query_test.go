package cachekey

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestQueryModes(t *testing.T) {
	cases := []struct {
		name    string
		options Options
		query   string
		text    string
		problem Problem
	}{
		{"all sorted", Options{}, "b=2&a=1", " q:1:a:1:1 q:1:b:1:2", 0},
		{"all, values may hold equals signs", Options{}, "b=a=2&a==", " q:1:a:1:= q:1:b:3:a=2", 0},
		{"order kept", Options{KeepQueryOrder: true}, "b=2&a=1", " q:1:b:1:2 q:1:a:1:1", 0},
		{"repeated name keeps the order", Options{}, "b=2&a=1&b=1", " q:1:b:1:2 q:1:a:1:1 q:1:b:1:1", 0},
		{"names that decode alike keep the order", Options{}, "b+c=1&a=2&b%20c=3", " q:3:b+c:1:1 q:1:a:1:2 q:5:b%20c:1:3", 0},
		{"names with broken escapes", Options{}, "%zz=1&%4=2&%=3", " q:1:%:1:3 q:2:%4:1:2 q:3:%zz:1:1", 0},
		{"empty parameters", Options{}, "&=&=1", " q:0::! q:0::0: q:0::1:1", 0},
		{"nothing but the question mark", Options{}, "?", " q:0::!", 0},
		{"none", Options{Query: None()}, "b=2;x&a=1", "", 0},
		{"none, question mark", Options{Query: None()}, "?", "", 0},
		{"include", Options{Query: Include("page", "q")}, "q=x&cb=1&page=2", " q:4:page:1:2 q:1:q:1:x", 0},
		{"include compares raw names", Options{Query: Include("a")}, "%61=1&A=2&a=3", " q:1:a:1:3", 0},
		{"include, empty parameters go", Options{Query: Include("a")}, "a&&", " q:1:a:!", 0},
		{"include, question mark goes", Options{Query: Include("a")}, "?", "", 0},
		{"include, order kept", Options{Query: Include("a", "b"), KeepQueryOrder: true}, "b&x&a", " q:1:b:! q:1:a:!", 0},
		{"include, unknown bypasses", Options{Query: Include("a"), OnUnknown: Bypass}, "a=1&b=2", " q:1:a:1:1", UnknownParameter},
		{"include, unknown bypasses, order kept", Options{Query: Include("a"), OnUnknown: Bypass, KeepQueryOrder: true},
			"b=2&a=1", " q:1:a:1:1", UnknownParameter},
		{"include, empty isn't unknown", Options{Query: Include("a"), OnUnknown: Bypass}, "a=1&", " q:1:a:1:1", 0},
		{"include, all known", Options{Query: Include("a", "b"), OnUnknown: Bypass}, "b=2&a=1", " q:1:a:1:1 q:1:b:1:2", 0},
		{"exclude", Options{Query: Exclude("utm_id", "gclid")}, "utm_id=1&q=x&gclid&gclid=2", " q:1:q:1:x", 0},
		{"exclude compares raw names", Options{Query: Exclude("a")}, "%61=1&A=2&a=3", " q:1:A:1:2 q:3:%61:1:1", 0},
		{"exclude leaves the rest unique", Options{Query: Exclude("x")}, "b=1&x=1&a=2&x=2", " q:1:a:1:2 q:1:b:1:1", 0},
		{"excluded, encoded semicolon is a value", Options{Query: Exclude("x")}, "x=1%3Ba=2", "", 0},
		{"unfilled, encoded names stay", Options{Query: Include("page"), KeepUnkeyedInputs: true}, "p%61ge=2&x=1", " q:6:p%61ge:1:2", 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			address := "http://a.test/?" + strings.TrimPrefix(c.query, "?")
			text, problem := mustSpec(t, c.options).AppendText(nil, &Input{Request: request(address)})
			assert.Equal(t, "scheme:4:http host:6:a.test method:3:GET path:1:/"+c.text, string(text))
			assert.Equal(t, c.problem, problem)
		})
	}
}

// An excluded parameter hid a second one behind a semicolon: the cache saw one
// parameter to ignore, the origin a callback of the attacker's, and the answer was
// stored for everyone.
func TestParameterHiddenBehindSemicolonIsKeyed(t *testing.T) {
	const clean, cloaked = "http://a.test/js?callback=ok", "http://a.test/js?callback=ok&utm_content=x;callback=evil"
	for name, o := range map[string]Options{
		"exclude":               {Query: Exclude("utm_content")},
		"include":               {Query: Include("callback")},
		"exclude, unkeyed kept": {Query: Exclude("utm_content"), KeepUnkeyedInputs: true},
		"include, unkeyed kept": {Query: Include("callback"), KeepUnkeyedInputs: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustSpec(t, o)
			assert.NotEqual(t, textOf(s, clean), textOf(s, cloaked))
			_, changed := s.Reduce(&Input{Request: request(cloaked)})
			assert.False(t, changed, "the origin is sent what is keyed")
		})
	}
	s := mustSpec(t, Options{Query: Include("callback"), OnUnknown: Bypass})
	_, problem := s.Primary(&Input{Request: request(cloaked)})
	assert.Equal(t, UnknownParameter, problem)
}

// Ten thousand invented parameters filled a cache with copies of one page.
func TestIncludeFoldsInventedParameters(t *testing.T) {
	s := mustSpec(t, Options{Query: Include("page")})
	assert.Equal(t, textOf(s, "http://a.test/p?page=1"), textOf(s, "http://a.test/p?cb=93847&page=1&cb2"))
}

func TestManyParametersAreSortedOrKept(t *testing.T) {
	s := Default()
	for _, n := range []int{15, 16, 17, 18, 1000} {
		forward := manyParameters(n)
		parts, err := Parse(textOf(s, "http://a.test/?"+forward))
		assert.NoError(t, err)
		for i := 5; i < len(parts); i++ {
			assert.Less(t, parts[i-1].Name, parts[i].Name)
		}
		assert.Len(t, parts, 4+n)
		assert.NotEqual(t, textOf(s, "http://a.test/?p0=x&"+forward), textOf(s, "http://a.test/?"+forward+"&p0=x"))
	}
}

func TestCommonTrackingParams(t *testing.T) {
	names := CommonTrackingParams()
	assert.Len(t, names, 22)
	assert.Len(t, sortedUnique(names), 22)
	assert.Subset(t, names, []string{"utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content", "gclid", "fbclid", "mc_eid"})
	names[0] = "changed"
	assert.Equal(t, "utm_source", CommonTrackingParams()[0])
	assert.NotEqual(t, textOf(Default(), "http://a.test/?gclid=1"), textOf(Default(), "http://a.test/"), "never applied by itself")
	mustSpec(t, Options{Query: Exclude(CommonTrackingParams()...)})
}
