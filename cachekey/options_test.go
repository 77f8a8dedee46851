package cachekey

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNewReportsAllProblemsAtOnce(t *testing.T) {
	_, err := New(Options{
		Query:          Query{Mode: QueryInclude, Names: []string{"ok", "", "a&b", "a b", "ü"}},
		OnUnknown:      7,
		Headers:        []string{"Host", "a b", "Cookie"},
		Cookies:        []string{"a=b", "", "ok"},
		KeepQueryOrder: true,
		Normalize: map[string]Normalizer{
			"Accept-Encoding": AcceptEncoding("*"), "accept-language": AcceptLanguage("en", "EN"),
			"Accept-Language": AcceptLanguage("en"), "X-Zero": {}, "Cookie": DeviceClass(), "X-Device": DeviceClass(), "": {},
		},
		DropOtherCookies:  true,
		KeepUnkeyedInputs: true,
	})
	var fields []string
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		var one *ConfigError
		require.True(t, errors.As(e, &one))
		assert.NotEmpty(t, one.Reason)
		assert.Contains(t, one.Error(), one.Field+": ")
		fields = append(fields, one.Field)
	}
	assert.Equal(t, []string{
		"Query.Names[1]", "Query.Names[2]", "Query.Names[3]", "Query.Names[4]", "OnUnknown",
		"Cookies[0]", "Cookies[1]",
		`Normalize[""]`, `Normalize["Accept-Encoding"]`, `Normalize["Cookie"]`, `Normalize["X-Device"]`,
		`Normalize["X-Zero"]`, `Normalize["accept-language"]`,
		"Headers[0]", "Headers[1]", "Headers[2]", "DropOtherCookies",
	}, fields)
}

func TestSettingsThatMeanNothingAreRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"names with all":          {Query: Query{Names: []string{"a"}}},
		"names with none":         {Query: Query{Mode: QueryNone, Names: []string{"a"}}},
		"include without names":   {Query: Include()},
		"exclude without names":   {Query: Exclude()},
		"unknown mode":            {Query: Query{Mode: 9}},
		"order of nothing":        {Query: None(), KeepQueryOrder: true},
		"unknown without include": {Query: Exclude("a"), OnUnknown: Bypass},
		"all cookies and some":    {Headers: []string{"cookie"}, Cookies: []string{"a"}},
		"identity first":          {Normalize: map[string]Normalizer{"Accept-Encoding": AcceptEncoding("identity", "br")}},
		"coding twice":            {Normalize: map[string]Normalizer{"Accept-Encoding": AcceptEncoding("br", "BR")}},
		"too many codings":        {Normalize: map[string]Normalizer{"Accept-Encoding": AcceptEncoding("a", "b", "c", "d", "e", "f", "g", "h", "i")}},
		"no language":             {Normalize: map[string]Normalizer{"Accept-Language": AcceptLanguage()}},
		"not a language":          {Normalize: map[string]Normalizer{"Accept-Language": AcceptLanguage("en_GB")}},
		"too many languages":      {Normalize: map[string]Normalizer{"Accept-Language": AcceptLanguage(make([]string, 33)...)}},
	} {
		s, err := New(o)
		var one *ConfigError
		assert.True(t, errors.As(err, &one), name)
		assert.Nil(t, s, name)
	}
}

func TestLaterChangesToTheOptionsHaveNoEffect(t *testing.T) {
	o := Options{
		Query: Include("a"), Headers: []string{"X-B"}, Cookies: []string{"c"},
		Normalize: map[string]Normalizer{"X-B": {Value: func([]string) string { return "b" }}},
	}
	s := mustSpec(t, o)
	before := textOf(s, "http://a.test/?a=1&z=1", "X-B: 1", "Cookie: c=1; z=1")
	o.Query.Names[0], o.Headers[0], o.Cookies[0] = "z", "Z", "z"
	delete(o.Normalize, "X-B")
	assert.Equal(t, before, textOf(s, "http://a.test/?a=1&z=1", "X-B: 1", "Cookie: c=1; z=1"))
	assert.Contains(t, before, "q:1:a:1:1 h:3:x-b:1:b c:1:c:1:1")
}
