package cachekey

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestKeyedCookies(t *testing.T) {
	cases := []struct {
		name  string
		lines []string
		text  string
	}{
		{"absent field", nil, "c:2:id:- c:1:x:-"},
		{"absent cookie", []string{"a=1; idd=2; ID=3; i=4"}, "c:2:id:- c:1:x:-"},
		{"empty value", []string{"id="}, "c:2:id:0: c:1:x:-"},
		{"no value", []string{"id"}, "c:2:id:! c:1:x:-"},
		{"sorted by name", []string{"x=1; id=2"}, "c:2:id:1:2 c:1:x:1:1"},
		{"number and order", []string{"id=2; x=0; id=1"}, "c:2:id:1:2 c:2:id:1:1 c:1:x:1:0"},
		{"several lines", []string{"id=2", "a=b", "id=1"}, "c:2:id:1:2 c:2:id:1:1 c:1:x:-"},
		{"space around", []string{" id = 2\t;x\t=\t3 4 ;"}, "c:2:id:1:2 c:1:x:3:3 4"},
		{"quotes stay", []string{`id="a b"`}, `c:2:id:5:"a b" c:1:x:-`},
		{"quotes don't hide a separator", []string{`y="1; id=2"`}, `c:2:id:2:2" c:1:x:-`},
		{"equals signs in the value", []string{"id==a="}, "c:2:id:3:=a= c:1:x:-"},
		{"encoded value stays", []string{"id=%3B"}, "c:2:id:3:%3B c:1:x:-"},
		{"garbage", []string{";;=;=v; ;", ""}, "c:2:id:- c:1:x:-"},
	}
	s := mustSpec(t, Options{Cookies: []string{"x", "id", "x"}})
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := request("http://a.test/")
			r.Header["Cookie"] = c.lines
			text := strings.TrimPrefix(s.Text(&Input{Request: r}), "scheme:4:http host:6:a.test method:3:GET path:1:/ ")
			assert.Equal(t, c.text, text)
		})
	}
}

func TestCookiesAreNotKeyedByDefault(t *testing.T) {
	assert.Equal(t, textOf(Default(), "http://a.test/"), textOf(Default(), "http://a.test/", "Cookie: a=1"))
	whole := mustSpec(t, Options{Headers: []string{"Cookie"}})
	assert.NotEqual(t, textOf(whole, "http://a.test/"), textOf(whole, "http://a.test/", "Cookie: a=1"))
}

func TestUnkeyedCookiesAreThoseThatTheOriginIsSentAllTheSame(t *testing.T) {
	for name, c := range map[string]struct {
		options      Options
		named, other bool
	}{
		"default":   {Options{}, true, true},
		"named":     {Options{Cookies: []string{"id"}}, false, true},
		"dropped":   {Options{Cookies: []string{"id"}, DropOtherCookies: true}, false, false},
		"all keyed": {Options{Headers: []string{"Cookie"}}, false, false},
	} {
		s := mustSpec(t, c.options)
		assert.Equal(t, c.named, s.CookieUnkeyed("id"), name)
		assert.Equal(t, c.other, s.CookieUnkeyed("other"), name)
	}
}
