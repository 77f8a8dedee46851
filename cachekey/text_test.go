package cachekey

import (
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseReadsWhatRenderWrites(t *testing.T) {
	parts := []Ingredient{
		{Kind: KindHost, Value: "example.com"},
		{Kind: KindPath, Value: "/a b:3"},
		{Kind: KindQuery, Name: "a:1 q", Value: ""},
		{Kind: KindQuery, Name: "", State: Bare},
		{Kind: KindHeader, Name: "rsc", State: Absent},
		{Kind: KindExtra, Name: "x", Value: strings.Repeat("y", 123)},
	}
	text := Render(parts)
	assert.Equal(t, "host:11:example.com path:6:/a b:3 q:5:a:1 q:0: q:0::! h:3:rsc:- x:1:x:123:"+strings.Repeat("y", 123), text)
	back, err := Parse(text)
	require.NoError(t, err)
	assert.Equal(t, parts, back)

	none, err := Parse(Render(nil))
	require.NoError(t, err)
	assert.Empty(t, none)
	assert.Equal(t, "host:0:", Render([]Ingredient{{Kind: 0}, {Kind: KindHost}, {Kind: 99}}), "unknown kinds are left out")
}

func TestParseRefusesWhatRenderNeverWrites(t *testing.T) {
	for _, text := range []string{
		" ", "host", "host:", "host:1", "host:1:", "host:2:a", "host:01:a", "host:+1:a", "host:-1:a", "host:-", "host:!",
		"host:1:a ", " host:1:a", "host:1:a  path:0:", "host:1:apath:0:", "host:1:a\tpath:0:", "HOST:1:a", "zone1:1:a",
		"q:1:a", "q:1:a:", "q:1:a:-x", "q:1:a:1", "q:1:a1:1", "q:1:a:?", ":1:a", "1:a", "?:1:a",
		"host:99999999999999999999999:a", "host:18446744073709551617:a", "unknown:1:a",
	} {
		parts, err := Parse(text)
		assert.Error(t, err, "%q", text)
		assert.Nil(t, parts, "%q", text)
	}
}

func TestKindsAndStatesHaveNames(t *testing.T) {
	data, err := json.Marshal(Ingredient{Kind: KindQuery, Name: "a", State: Bare})
	require.NoError(t, err)
	assert.JSONEq(t, `{"kind":"q","name":"a","value":"","state":"bare"}`, string(data))
	assert.Equal(t, "?", Kind(0).String())
	assert.Equal(t, "?", Kind(200).String())
	assert.Equal(t, "valued absent", Valued.String()+" "+Absent.String())
	for k := KindZone; k < kindEnd; k++ {
		assert.NotEmpty(t, k.String())
		assert.LessOrEqual(t, len(k.String()), len("opaque"))
		assert.NotEmpty(t, keptReasons[k]+Default().keptReason(Ingredient{Kind: k}))
	}
	for p := UnknownParameter; p <= NoTarget+1; p++ {
		assert.Regexp(t, `^[A-Z].*\.$`, p.String())
	}
	assert.Empty(t, NoProblem.String())
}

// ingredientsOf reads any bytes as ingredients: the fuzzer's way to all of them.
func ingredientsOf(data []byte) []Ingredient {
	take := func(n int) string {
		n = min(n, len(data))
		s := string(data[:n])
		data = data[n:]
		return s
	}
	var parts []Ingredient
	for len(data) > 1 {
		p := Ingredient{Kind: KindZone + Kind(data[0])%(kindEnd-KindZone)}
		sizes := int(data[1])
		data = data[2:]
		if p.Kind.Named() {
			p.Name = take(sizes & 7)
			p.State = State(sizes>>3&3) % 3
		}
		if p.State == Valued {
			p.Value = take(sizes >> 5)
		}
		parts = append(parts, p)
	}
	return parts
}

func FuzzParseInvertsRender(f *testing.F) {
	f.Add([]byte("\x07\x21aq:1:a:1:1 \x08\x08rsc"))
	f.Add([]byte("\x00\xffabcdefg\x09\x12"))
	f.Fuzz(func(t *testing.T, data []byte) {
		parts := ingredientsOf(data)
		text := Render(parts)
		back, err := Parse(text)
		if err != nil || !reflect.DeepEqual(parts, back) {
			t.Fatalf("%q: %v\n%v\n%v", text, err, parts, back)
		}
	})
}

// Of any text, what Parse accepts is exactly one rendering.
func FuzzRenderInvertsParse(f *testing.F) {
	f.Add("host:11:example.com path:5:/page q:1:a:1:1 q:4:page:1:2")
	f.Add("q:0::! h:3:rsc:- v:1:a:0: user:1:1")
	f.Add("q:1:a:-1:b")
	f.Fuzz(func(t *testing.T, text string) {
		if parts, err := Parse(text); err == nil && Render(parts) != text {
			t.Fatalf("%q reads as %v", text, parts)
		}
	})
}

func FuzzDifferentIngredientsNeverShareAText(f *testing.F) {
	f.Add([]byte("\x07\x21a1"), []byte("\x07\x22a1"))
	f.Add([]byte("\x07\x08a\x07\x08b"), []byte("\x07\x10a\x07\x08b"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		x, y := ingredientsOf(a), ingredientsOf(b)
		if reflect.DeepEqual(x, y) != (Render(x) == Render(y)) {
			t.Fatalf("%v\n%v\n%q", x, y, Render(x))
		}
	})
}

// Two requests share a text only if a plain reading of the rules calls them the
// same.
func FuzzDifferentRequestsNeverShareAText(f *testing.F) {
	f.Add("a.test", "/p", "a=1&b", "x", "A.test", "/p", "a=1&b", "x")
	f.Add("a.test", "/p", "a=1", "", "a.test", "/p q:1:a:1:1", "", "")
	f.Add("a", "/", "b=1&a=2", "a=1", "a", "/", "a=2&b=1", "a=1; b=2")
	s := mustSpec(f, Options{KeepQueryOrder: true, Headers: []string{"X-A"}, Cookies: []string{"c"}})
	f.Fuzz(func(t *testing.T, host1, path1, query1, value1, host2, path2, query2, value2 string) {
		build := func(host, path, query, value string) (string, []string) {
			u := &url.URL{Path: path, RawQuery: query}
			r := &http.Request{Host: host, URL: u, RequestURI: "/", Header: http.Header{"X-A": {value}, "Cookie": {"c=" + value}}}
			cookie, _, _ := strings.Cut(value, ";")
			plain := []string{CanonicalHost("http", host), u.EscapedPath(), query, value, strings.Trim(cookie, " \t")}
			return s.Text(&Input{Request: r, Scheme: "http"}), plain
		}
		text1, plain1 := build(host1, path1, query1, value1)
		text2, plain2 := build(host2, path2, query2, value2)
		if host1 == "" || host2 == "" || strings.Contains(value1+value2, ";") {
			return // the host comes from elsewhere; a second cookie may be one more
		}
		if (text1 == text2) != reflect.DeepEqual(plain1, plain2) {
			t.Fatalf("%q\n%q", text1, text2)
		}
	})
}
