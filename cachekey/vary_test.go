package cachekey

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func selecting(s *Spec, h http.Header, names ...string) string {
	return string(s.AppendSelecting(nil, names, h))
}

func TestSelectingText(t *testing.T) {
	h := http.Header{
		"Accept-Encoding": {"br, gzip"}, "X-Empty": {""}, "X-Many": {"b", "a"}, "X-None": {}, "Cookie": {"a=1"},
	}
	plain := Default()
	normal := mustSpec(t, Options{Normalize: map[string]Normalizer{"accept-encoding": AcceptEncoding("gzip")}})
	without := mustSpec(t, Options{Cookies: []string{"id"}, DropOtherCookies: true})
	cases := []struct {
		name  string
		spec  *Spec
		names []string
		text  string
	}{
		{"nothing", plain, nil, ""},
		{"raw value", plain, []string{"accept-encoding"}, "v:15:accept-encoding:8:br, gzip"},
		{"normalised value", normal, []string{"accept-encoding"}, "v:15:accept-encoding:4:gzip"},
		{"normalised absence", mustSpec(t, Options{Normalize: map[string]Normalizer{"Accept-Language": AcceptLanguage("en")}}),
			[]string{"accept-language"}, "v:15:accept-language:2:en"},
		{"absent", plain, []string{"x-absent"}, "v:8:x-absent:-"},
		{"no lines is absent", plain, []string{"x-none"}, "v:6:x-none:-"},
		{"empty", plain, []string{"x-empty"}, "v:7:x-empty:0:"},
		{"lines keep number and order", plain, []string{"x-many"}, "v:6:x-many:1:b v:6:x-many:1:a"},
		{"names in any form", plain, []string{"X-Many ", "x-empty", "x-many", "X-EMPTY"},
			"v:7:x-empty:0: v:6:x-many:1:b v:6:x-many:1:a"},
		{"cookies", plain, []string{"cookie"}, "v:6:cookie:3:a=1"},
		{"cookies that the origin isn't sent", without, []string{"cookie"}, "v:6:cookie:-"},
		{"asterisk", plain, []string{"*"}, "v:1:*:-"},
		{"not a name", plain, []string{"", "a b"}, "v:0::- v:3:a b:-"},
		{"long name", plain, []string{strings.Repeat("n", 70)}, "v:70:" + strings.Repeat("n", 70) + ":-"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.text, selecting(c.spec, h, c.names...))
			_, err := Parse(c.text)
			assert.NoError(t, err)
		})
	}
	assert.Equal(t, "before v:3:foo:-", string(plain.AppendSelecting([]byte("before "), []string{"foo"}, nil)))
}

// An index record without selecting fields and a variant had one key, and replaced
// each other.
func TestVariantKeysAreNeverPrimaryKeys(t *testing.T) {
	s := Default()
	in := &Input{Request: request("http://a.test/")}
	primary, _ := s.Primary(in)
	seen := map[Key]bool{primary: true}
	for _, names := range [][]string{nil, {"a"}, {"b"}, {"a", "b"}} {
		k := s.WithVary(primary, names, in.Request.Header)
		assert.False(t, seen[k], names)
		seen[k] = true
	}
	assert.NotEqual(t, s.WithVary(Key{1}, nil, nil), s.WithVary(Key{2}, nil, nil))
	assert.Equal(t, s.WithVary(Key{}, []string{}, nil), s.WithVary(Key{}, nil, http.Header{}))
}

// Four codings whose checksums cancelled each other out were taken for plain gzip,
// and a client got a coding that it can't read.
func TestVariantsOfDifferentCodingListsDiffer(t *testing.T) {
	s, names := Default(), []string{"accept-encoding"}
	many := s.WithVary(Key{}, names, http.Header{"Accept-Encoding": {"br,gzip,xxx,jdcqiab"}})
	one := s.WithVary(Key{}, names, http.Header{"Accept-Encoding": {"gzip"}})
	assert.NotEqual(t, many, one)
}

func FuzzFieldLinesFindsWhatHeaderGetFinds(f *testing.F) {
	for _, name := range []string{"accept", "x-a--b", "-", "", "a b", "é", "x-1a", strings.Repeat("a-", 40), "a\x00"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		lower := lowerASCII(name)
		h := http.Header{}
		h.Set(lower, "v")
		assert.Equal(t, []string{"v"}, fieldLines(h, lower))
		assert.Empty(t, fieldLines(http.Header{}, lower))
	})
}
