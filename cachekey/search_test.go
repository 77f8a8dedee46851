package cachekey

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a field says, in its one form, or nothing where it's the default: the
// examples of the draft and what is near to them.
func TestParseSearch(t *testing.T) {
	many := func(n int) string {
		names := make([]string, n)
		for i := range names {
			names[i] = `"` + strings.Repeat("x", i+1) + `"`
		}
		return "params=(" + strings.Join(names, " ") + ")"
	}
	for field, want := range map[string]string{
		`params`:                              "params",
		`params=?1`:                           "params",
		`params;x=1`:                          "params",
		`params=("a")`:                        `params=("a")`,
		`params=("b" "a"   "b")`:              `params=("a" "b")`,
		`params=("a";x "b")`:                  `params=("a" "b")`,
		`params, except=("x")`:                `params, except=("x")`,
		`except=("x"), params`:                `params, except=("x")`,
		`params, except=()`:                   "params",
		`key-order`:                           "key-order",
		`key-order=?1`:                        "key-order",
		`key-order, params=()`:                "key-order",
		`key-order, params=?0`:                "key-order",
		`params, key-order, except=("x")`:     `key-order, params, except=("x")`,
		`params, key-order`:                   "params", // of nothing there's no order
		`key-order, unknown="x", params=("")`: `key-order, params=("")`,
		`params=("%C3%A9+%E6%B0%97")`:         `params=("%C3%A9+%E6%B0%97")`,
		`params=("%61" "a" "%2B" "a%20b")`:    `params=("%2B" "a" "a+b")`,
		`params=("\"")`:                       `params=("%22")`,
		`params=(a), params=("b")`:            `params=("b")`,
		many(MaxSearchNames):                  many(MaxSearchNames),

		"":                           "",
		`unknown-key`:                "",
		`params=?0`:                  "",
		`params=()`:                  "",
		`key-order=?0`:               "",
		`key-order="not a boolean"`:  "",
		`key-order=1, params`:        "",
		`key-order=(), params`:       "",
		`params="a"`:                 "",
		`params=a`:                   "",
		`params=(a)`:                 "",
		`params=("a" b)`:             "",
		`params=("a"), except=("x")`: "",
		`params=(), except=()`:       "",
		`params=?0, except=("x")`:    "",
		`params, except=(x)`:         "",
		`params, except="x"`:         "",
		`params, except=?1`:          "",
		`params, except`:             "",
		`except=("x")`:               "",
		`except=()`:                  "",
		`params=("a"), params=1`:     "",
		`params=("a"`:                "",
		`params=("a""b")`:            "",
		`params,`:                    "",
		`Params`:                     "",
		`params=("é")`:               "",
		`params=("%zz")`:             "",
		`params=("a%")`:              "",
		`params, except=("%4")`:      "",
		`params=("a"), x=%"%ZZ"`:     "",
		many(MaxSearchNames + 1):     "",
		`params, x="` + strings.Repeat("x", MaxSearchBytes) + `"`: "",
	} {
		r := ParseSearch([]string{field})
		assert.Equal(t, want, r.String(), field)
		assert.Equal(t, want == "", r.IsDefault(), field)
		assert.Equal(t, r, ParseSearch([]string{r.String()}), field)
	}
	assert.Equal(t, Search{}, ParseSearch(nil))
	assert.Equal(t, Search{}, ParseSearch([]string{"params", ""}))
	assert.Equal(t, ParseSearch([]string{`params, except=("x")`}), ParseSearch([]string{"params", `except=("x")`}))
	assert.NotEqual(t, ParseSearch([]string{`params=("a")`}), ParseSearch([]string{`params, except=("a")`}))
}

// searched returns the key of a query by a rule, or zero if there's none.
func searched(s *Spec, field, query string) Key {
	k, _ := s.WithSearch(Key{1}, ParseSearch([]string{field}), query)
	return k
}

// Which queries are the same: each group's are, and no two of different groups.
// "!" is before what is never the same as anything.
func TestWithSearch(t *testing.T) {
	for field, groups := range map[string][][]string{
		`key-order`: {
			{"", "&", "&&"}, {"a=1&b=2", "b=2&a=1", "b=2&&a=1&", "%62=2&a=%31"}, {"a=1"}, {"b=2"}, {"a=1&b=2&c"},
			{"a=1&a=2&b", "b&a=1&a=2", "a=1&b&a=2"}, {"a=2&a=1&b"},
			{"a=x", "%61=%78"}, {"a", "a="}, {"a=%20", "a=+"}, {"a=%2B"}, {"=", "&="}, {"=a"}, {"a=b=c", "a=b%3Dc"}, {"a%3Db=c"},
			{"a=%26b"}, {"a=%3B"}, {"a=\xff", "a=%FF"}, {"a=%FE"}, {"a==1"}, {"A=1"},
		},
		`params`: {{"", "a", "a=1&b=2", "%26=;"[:4]}},
		`params=("a" "b")`: {
			{"", "a=1", "b&a", "%61=7", "a&a&b="}, {"c=1", "a=2&c=1&b=3", "c=%31"}, {"c=1&d=2", "c=1&a&d=2"}, {"d=2&c=1"}, {"c"}, {"ab"}, {"A=1"}, {"a+"}, {"=a"},
		},
		`key-order, params=("a")`: {{"c=1&d=2", "d=2&a&c=1"}, {"c=1&c=2&d=1", "d=1&c=1&a&c=2"}, {"c=2&c=1&d=1"}},
		`params, except=("x")`: {
			{"", "a=1", "y"}, {"x=1", "a=2&x=1", "%78=1&b", "x=1&X=2"}, {"x=2"}, {"x", "x=&y=1"}, {"x=1&x=2", "x=1&y&x=2"}, {"x=2&x=1"},
		},
		`params, except=("x" "y")`:            {{"x=1&y=2", "x=1&z&y=2"}, {"y=2&x=1"}},
		`key-order, params, except=("x" "y")`: {{"x=1&y=2", "y=2&z&x=1"}, {"x=2&y=1"}},
		`params=("%C3%A9+%E6%B0%97")`:         {{"", "%C3%A9%20%E6%B0%97=3", "%C3%A9+%E6%B0%97=4", "é+気=2"}, {"%C3%A9=1"}},
		`params=("")`:                         {{"", "=", "=1&="}, {"a", "a=&=2"}},
		`params=("a+b" "c%2Bd")`:              {{"", "a+b=1", "a%20b", "c%2bd"}, {"c+d"}, {"a%2Bb"}},
	} {
		seen := map[Key]int{}
		for i, group := range groups {
			for _, query := range group {
				k := searched(Default(), field, query)
				require.False(t, k.IsZero(), "%s: %q", field, query)
				at, known := seen[k]
				require.True(t, !known || at == i, "%s: %q is the same as one of group %d", field, query, at)
				require.True(t, known || query == group[0], "%s: %q isn't the same as %q", field, query, group[0])
				seen[k] = i
			}
		}
	}
}

// However many there are, parameters of one name keep their order.
func TestWithSearchSortsStably(t *testing.T) {
	var mixed, as, bs []string
	for i := range 100 {
		a, b := "a="+strconv.Itoa(i), "b="+strconv.Itoa(i)
		mixed, as, bs = append(mixed, b, a), append(as, a), append(bs, b)
	}
	key := func(pairs ...string) Key { return searched(Default(), "key-order", strings.Join(pairs, "&")) }
	grouped := key(slices.Concat(as, bs)...)
	assert.NotZero(t, grouped)
	assert.Equal(t, grouped, key(slices.Concat(bs, as)...))
	assert.Equal(t, grouped, key(mixed...))
	slices.Reverse(as)
	assert.NotEqual(t, grouped, key(slices.Concat(as, bs)...))
}

// What isn't read alike by all origins has no key, and nothing has by the default.
func TestWithSearchRefuses(t *testing.T) {
	for _, query := range []string{
		"a=1;b=2", "b&a=;", "a;", "a=%", "a=%4", "a=%zz", "%g1=1",
		strings.Repeat("a&", MaxSearchParams+1), "a=" + strings.Repeat("a", MaxSearchQueryText),
	} {
		for _, field := range []string{"params", `key-order, params=("b")`} {
			assert.Zero(t, searched(Default(), field, query), query)
		}
	}
	assert.NotZero(t, searched(Default(), "params", strings.Repeat("a&", MaxSearchParams)))
	assert.Zero(t, searched(Default(), "", "a=1"))
	_, ok := Default().WithSearch(Key{1}, Search{}, "")
	assert.False(t, ok)
}

// What the key leaves out doesn't count, and what it orders by its own rules does.
func TestWithSearchHasTheKeysParameters(t *testing.T) {
	s, err := New(Options{Query: Exclude("utm")})
	require.NoError(t, err)
	assert.Equal(t, searched(s, `params=("a")`, "b=1"), searched(s, `params=("a")`, "utm=1&b=1&a=2"))
	assert.Zero(t, searched(s, `params=("a")`, "b=1&utm=;"), "the key keeps it")
	none, err := New(Options{Query: None()})
	require.NoError(t, err)
	assert.Equal(t, searched(none, "key-order", ""), searched(none, "key-order", "b=1;"))
}

// The base is the target without query; all the rest of the key counts. None of
// the keys is one of another kind.
func TestSearchBase(t *testing.T) {
	s, err := New(Options{Headers: []string{"X-A"}, Cookies: []string{"c"}})
	require.NoError(t, err)
	in := func(target string, change func(in *Input)) *Input {
		r := httptest.NewRequest("GET", target, nil)
		in := &Input{Request: r, Scheme: "http"}
		if change != nil {
			change(in)
		}
		return in
	}
	base := func(in *Input) Key {
		k, problem := s.SearchBase(in)
		require.Equal(t, NoProblem, problem)
		return k
	}
	plain := base(in("http://h/a", nil))
	for _, same := range []*Input{
		in("http://h/a?x=1", nil), in("http://h/a?", nil), in("http://H:80/a?y;", nil),
		in("http://h/a?x", func(in *Input) { in.Request.Method = "HEAD" }),
		in("http://h/a?x", func(in *Input) { in.Request.Method, in.Method = "POST", "GET" }),
	} {
		before := same.Request.URL.String()
		assert.Equal(t, plain, base(same))
		assert.Equal(t, before, same.Request.URL.String(), "the input isn't changed")
	}
	seen := map[Key]bool{plain: true}
	for _, other := range []*Input{
		in("http://h/b?x=1", nil), in("http://i/a?x=1", nil), in("http://h/a/?x=1", nil),
		in("http://h/a?x=1", func(in *Input) { in.Scheme = "https" }),
		in("http://h/a?x=1", func(in *Input) { in.Zone = "1" }),
		in("http://h/a?x=1", func(in *Input) { in.User = "u" }),
		in("http://h/a?x=1", func(in *Input) { in.Extra = []Pair{{"a", "b"}} }),
		in("http://h/a?x=1", func(in *Input) { in.Request.Header = http.Header{"X-A": {"1"}} }),
		in("http://h/a?x=1", func(in *Input) { in.Request.Header = http.Header{"Cookie": {"c=1"}} }),
		in("http://h/a?x=1", func(in *Input) { in.Method = "POST" }),
	} {
		k := base(other)
		assert.False(t, seen[k], other.Request.URL)
		seen[k] = true
	}
	primary, _ := s.Primary(in("http://h/a", nil))
	derived, _ := s.WithSearch(plain, ParseSearch([]string{"params"}), "")
	other, _ := s.WithSearch(primary, ParseSearch([]string{"params"}), "")
	rule, _ := s.WithSearch(plain, ParseSearch([]string{`params, except=("x")`}), "")
	for _, k := range []Key{primary, derived, other, rule, s.WithVary(plain, nil, nil), s.WithVary(derived, nil, nil)} {
		assert.False(t, seen[k])
		seen[k] = true
	}
	for _, bad := range []*Input{{}, {Request: &http.Request{URL: &url.URL{Opaque: "*"}}}, in("http://h/a", func(in *Input) { in.Scheme = "ftp" })} {
		k, problem := s.SearchBase(bad)
		assert.Zero(t, k)
		assert.NotEqual(t, NoProblem, problem)
	}
}

// readForm reads a query and keeps what matters, in the plainest way.
func readForm(query string, order, all bool, names []string) (form [][2]string) {
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		n, err1 := url.QueryUnescape(name)
		v, err2 := url.QueryUnescape(value)
		if err1 != nil || err2 != nil {
			panic("the test makes no such queries")
		}
		if slices.Contains(names, n) == all {
			form = append(form, [2]string{n, v})
		}
	}
	if !order {
		slices.SortStableFunc(form, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	}
	return form
}

// Two queries have the same key exactly if what matters of them is the same.
func TestWithSearchProperty(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	random := func() string {
		var pairs []string
		for range rnd.IntN(4) {
			pairs = append(pairs, pick("", "a", "b", "%61", "c", "+", "%20", "%26", "a%3D")+pick("", "=", "=1", "=%31", "==", "=+", "=%2B", "=&"))
		}
		return strings.Join(pairs, "&")
	}
	equal := 0
	for range 200_000 {
		order, all := rnd.IntN(2) == 0, rnd.IntN(2) == 0
		var names, quoted []string
		for range rnd.IntN(3) {
			n := pick("a", "b", " ", "&", "")
			names, quoted = append(names, n), append(quoted, `"`+url.QueryEscape(n)+`"`)
		}
		field := "params=(" + strings.Join(quoted, " ") + ")"
		if all {
			field = "params, except=(" + strings.Join(quoted, " ") + ")"
		} else if order && len(names) == 0 {
			continue // the default
		}
		if !order {
			field += ", key-order"
		}
		a, b := random(), random()
		want := slices.Equal(readForm(a, order, all, names), readForm(b, order, all, names))
		x, y := searched(Default(), field, a), searched(Default(), field, b)
		require.Equal(t, want, x == y, "%s: %q and %q", field, a, b)
		require.False(t, x.IsZero() || y.IsZero())
		if want {
			equal++
		}
	}
	require.Greater(t, equal, 10_000, "the property is tested both ways")
}

// Whatever a server says, the rule keeps to its bounds, is written as it's read, and
// what doesn't matter by it never changes a key.
func FuzzSearch(f *testing.F) {
	for _, s := range []string{"params", `key-order, params=("a" "%62+")`, `params, except=("x")`, `params=("a", x=%"%c3%a9"`, "key-order=?0;x"} {
		f.Add(s, "a=1&b=2&x=%20&&c", "x")
	}
	f.Fuzz(func(t *testing.T, field, query, name string) {
		r := ParseSearch([]string{field})
		if len(field) > MaxSearchBytes && !r.IsDefault() {
			t.Fatal("beyond the bound")
		}
		if got := ParseSearch([]string{r.String()}); got != r && len(r.String()) <= MaxSearchBytes-2 {
			t.Fatalf("%q is %q is %q", field, r, got)
		}
		k, ok := Default().WithSearch(Key{1}, r, query)
		if !ok {
			return
		}
		if r.IsDefault() || k.IsZero() {
			t.Fatal("a key by the default")
		}
		again, ok := Default().WithSearch(Key{1}, r, query+"&"+url.QueryEscape(name)+"=1")
		if ok && r.counts(name) == (again == k) {
			t.Fatalf("%q: %q added to %q", r, name, query)
		}
	})
}

func BenchmarkWithSearch(b *testing.B) {
	rule := ParseSearch([]string{`key-order, params=("utm_source" "utm_medium" "utm_campaign")`})
	s := Default()
	b.ReportAllocs()
	for b.Loop() {
		s.WithSearch(Key{1}, rule, "id=42&utm_source=newsletter&utm_campaign=spring&page=2")
	}
}
