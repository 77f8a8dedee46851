package cachekey

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
	"github.com/zeebo/blake3"
)

// request returns a GET request for an address, with "Name: value" lines.
func request(address string, lines ...string) *http.Request {
	r := served(address)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

func textOf(s *Spec, address string, lines ...string) string {
	return s.Text(&Input{Request: request(address, lines...)})
}

func TestTextHasEveryIngredientInFixedOrder(t *testing.T) {
	s := mustSpec(t, Options{Headers: []string{"X-B", "RSC"}, Cookies: []string{"lang", "ab"}})
	r := request("https://Example.com:443/page?page=2&a=1", "X-B: b", "Cookie: lang=de")
	in := &Input{
		Request: r, Zone: "shop", User: "u 7",
		Extra: []Pair{{"z", "1"}, {"b", "2"}, {"b", ""}},
	}
	assert.Equal(t, "zone:4:shop scheme:5:https host:11:example.com method:3:GET path:5:/page "+
		"q:1:a:1:1 q:4:page:1:2 h:3:rsc:- h:3:x-b:1:b c:2:ab:- c:4:lang:2:de "+
		"x:1:b:1:2 x:1:b:0: x:1:z:1:1 user:3:u 7", s.Text(in))
	assert.Equal(t, []Pair{{"z", "1"}, {"b", "2"}, {"b", ""}}, in.Extra, "the caller's slice is left alone")
}

func TestKeyIsTheHashOfTheText(t *testing.T) {
	s := Default()
	for _, address := range []string{"http://a.test/", "http://a.test/?" + manyParameters(500)} {
		in := &Input{Request: request(address)}
		key, problem := s.Primary(in)
		assert.Equal(t, NoProblem, problem)
		assert.Equal(t, Key(blake3.Sum256([]byte(s.Text(in)))), key)
		appended, _ := s.AppendText([]byte("before "), in)
		assert.Equal(t, "before "+s.Text(in), string(appended))
	}
}

func TestZeroSpecIsTheDefault(t *testing.T) {
	in := &Input{Request: request("https://a.test/p?b=1&a=2")}
	zero, err := New(Options{})
	require.NoError(t, err)
	assert.Equal(t, "scheme:5:https host:6:a.test method:3:GET path:2:/p q:1:a:1:2 q:1:b:1:1", Default().Text(in))
	assert.Equal(t, Default().Text(in), zero.Text(in))
	assert.Equal(t, Default().Text(in), new(Spec).Text(in))
}

// differ and same compare whole texts of the default rules.
func TestRequestsThatDifferAndThatAreTheSame(t *testing.T) {
	cases := []struct {
		name, a, b string
		same       bool
	}{
		// A cache keyed by path alone handed one site's pages to another.
		{"host", "http://one.test/a", "http://two.test/a", false},
		// A default key without the query answered every id with the first one.
		{"query", "http://a.test/?id=1", "http://a.test/?id=2", false},
		// A redirect from http to https, stored without the scheme, became a loop.
		{"scheme", "http://a.test/", "https://a.test/", false},
		{"port", "http://a.test/", "http://a.test:8080/", false},
		{"host case", "http://A.Test/", "http://a.test/", true},
		{"default port", "http://a.test:80/", "http://a.test/", true},
		{"other scheme's port", "https://a.test:80/", "https://a.test/", false},
		{"trailing dot", "http://a.test./", "http://a.test/", false},
		{"escaped slash", "http://a.test/a%2Fb", "http://a.test/a/b", false},
		{"escape in other case", "http://a.test/%2f", "http://a.test/%2F", false},
		{"escaped plain letter", "http://a.test/%61", "http://a.test/a", false},
		{"double slash", "http://a.test//a", "http://a.test/a", false},
		{"dot segment", "http://a.test/x/../a", "http://a.test/a", false},
		{"order", "http://a.test/?a=1&b=2", "http://a.test/?b=2&a=1", true},
		{"order with a repeated name", "http://a.test/?a=1&b=2&a=3", "http://a.test/?a=3&b=2&a=1", false},
		{"order of a repeated name", "http://a.test/?a=1&a=2", "http://a.test/?a=2&a=1", false},
		{"order of names that decode alike", "http://a.test/?a=1&%61=2", "http://a.test/?%61=2&a=1", false},
		{"order of encoded names", "http://a.test/?a%5B1%5D=1&a%5B0%5D=2", "http://a.test/?a%5B0%5D=2&a%5B1%5D=1", true},
		{"order with semicolons", "http://a.test/?a=1;b=2&b=3", "http://a.test/?b=3&a=1;b=2", false},
		{"flag", "http://a.test/?flag", "http://a.test/?flag=", false},
		{"encoded ampersand", "http://a.test/?a=1%26b=2", "http://a.test/?a=1&b=2", false},
		{"encoded equals sign", "http://a.test/?a%3D1", "http://a.test/?a=1", false},
		{"encoded letter", "http://a.test/?%61=1", "http://a.test/?a=1", false},
		{"plus and space", "http://a.test/?a=x+y", "http://a.test/?a=x%20y", false},
		{"semicolon", "http://a.test/?a=1;b=2", "http://a.test/?a=1&b=2", false},
		{"bare question mark", "http://a.test/?", "http://a.test/", false},
		{"empty parameter", "http://a.test/?a=1&", "http://a.test/?a=1", false},
		{"no path", "http://a.test", "http://a.test/", true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a, b := textOf(Default(), c.a), textOf(Default(), c.b)
			assert.Equal(t, c.same, a == b, "%s\n%s", a, b)
		})
	}
}

// A key that joined its parts with a delimiter was forged by a value that held the
// delimiter.
func TestNoPartCanImitateAnother(t *testing.T) {
	s := Default()
	honest := &Input{Request: request("http://a.test/p"), Extra: []Pair{{"a", "1"}, {"b", "2"}}}
	forged := &Input{Request: request("http://a.test/p"), Extra: []Pair{{"a", "1 x:1:b:1:2"}}}
	assert.NotEqual(t, s.Text(honest), s.Text(forged))

	shifted := &Input{Request: request("http://a.test/p"), Extra: []Pair{{"a:1", ""}}}
	other := &Input{Request: request("http://a.test/p"), Extra: []Pair{{"a", ":1"}}}
	assert.NotEqual(t, s.Text(shifted), s.Text(other))

	assert.NotEqual(t, textOf(s, "http://a.test/?q:1:a:1:1"), textOf(s, "http://a.test/?a=1"))
}

func TestHeadSharesTheKeyOfGetAndOtherMethodsDoNot(t *testing.T) {
	text := func(method string) string {
		r := request("http://a.test/p")
		r.Method = method
		return Default().Text(&Input{Request: r})
	}
	assert.Equal(t, text("GET"), text("HEAD"))
	assert.Equal(t, text("GET"), text(""), "an empty method is GET in net/http")
	assert.NotEqual(t, text("GET"), text("POST"))
	assert.NotEqual(t, text("GET"), text("get"), "methods are case-sensitive")

	r := request("http://a.test/p")
	r.Method = http.MethodPost
	assert.Equal(t, text("GET"), Default().Text(&Input{Request: r, Method: "GET"}))
}

// Two middlewares behind different prefix strippers saw the same path and shared
// their responses.
func TestZonesAreApart(t *testing.T) {
	key := func(zone string) Key {
		k, _ := Default().Primary(&Input{Request: request("http://a.test/file.png"), Zone: zone})
		return k
	}
	assert.NotEqual(t, key("c1"), key("c2"))
	assert.NotEqual(t, key(""), key("c1"))
}

func TestUsersAreApart(t *testing.T) {
	key := func(user string) Key {
		k, _ := Default().Primary(&Input{Request: request("http://a.test/me"), User: user})
		return k
	}
	assert.NotEqual(t, key("1"), key("2"))
	assert.NotEqual(t, key(""), key("1"))
}

// A raw forwarding header in the key let anyone fill the cache with copies of one
// page, one for each invented scheme.
func TestSchemeIsHttpOrHttpsOrNoKey(t *testing.T) {
	primary := func(scheme string) (Key, Problem) {
		return Default().Primary(&Input{Request: request("http://a.test/"), Scheme: scheme})
	}
	https, problem := primary("https")
	assert.Equal(t, NoProblem, problem)
	upper, _ := primary("HTTPS")
	assert.Equal(t, https, upper)
	for _, junk := range []string{"aaa1", "https,http", " https", "wss", "httpſ"} {
		key, problem := primary(junk)
		assert.Equal(t, UnknownScheme, problem, junk)
		assert.True(t, key.IsZero(), junk)
	}
}

func TestSchemeAndHostComeFromTheConnectionWhenTheCallerGivesNone(t *testing.T) {
	r := request("http://a.test/p")
	assert.Contains(t, Default().Text(&Input{Request: r}), "scheme:4:http host:6:a.test ")
	r.TLS = &tls.ConnectionState{}
	assert.Contains(t, Default().Text(&Input{Request: r}), "scheme:5:https host:6:a.test ")
	assert.Contains(t, Default().Text(&Input{Request: r, Scheme: "http", Host: "B.test:80"}), "scheme:4:http host:6:b.test ")

	own, err := http.NewRequest(http.MethodGet, "https://a.test:443/p", nil)
	require.NoError(t, err)
	r.RequestURI = "/p"
	assert.Equal(t, Default().Text(&Input{Request: r}), Default().Text(&Input{Request: own}),
		"a request the program made has its URL's scheme")
	own.Host = ""
	assert.Contains(t, Default().Text(&Input{Request: own}), "host:6:a.test ")
}

// A client wrote another scheme or host into the request line than it connected
// with; a handler that builds links from URL sees it.
func TestAbsoluteTargetsThatContradictTheKeyAreApart(t *testing.T) {
	plain := textOf(Default(), "http://a.test/p")
	absolute := func(scheme, target string) string {
		r := httptest.NewRequest(http.MethodGet, target, nil)
		r.TLS, r.Host = nil, "a.test"
		return Default().Text(&Input{Request: r, Scheme: scheme})
	}
	assert.Equal(t, plain, absolute("", "http://a.test/p"))
	assert.Equal(t, plain, absolute("", "http://A.TEST:80/p"))
	assert.Equal(t, "scheme:4:http host:6:a.test target:14:https://a.test method:3:GET path:2:/p",
		absolute("", "https://a.test/p"))
	assert.Contains(t, absolute("", "http://evil.test/p"), " target:16:http://evil.test ")
	assert.Contains(t, absolute("https", "http://a.test/p"), " target:13:http://a.test ")
	assert.Contains(t, absolute("", "http://me:pw@a.test/p"), " target:19:http://me:pw@a.test ")
}

func TestTargetsWithoutAPath(t *testing.T) {
	cases := []struct {
		name    string
		url     *url.URL
		text    string
		problem Problem
	}{
		{"asterisk", &url.URL{Path: "*"}, "path:1:*", NoProblem},
		{"authority", &url.URL{Host: "a.test"}, "path:1:/", NoProblem},
		{"opaque", &url.URL{Scheme: "foo", Opaque: "bar"}, "opaque:3:bar", NoTarget},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			in := &Input{Request: &http.Request{Method: "OPTIONS", Host: "a.test", URL: c.url, RequestURI: "x"}, Scheme: "http"}
			text, problem := Default().AppendText(nil, in)
			assert.Contains(t, string(text), c.text)
			assert.Equal(t, c.problem, problem)
		})
	}
	for _, r := range []*http.Request{nil, {}} {
		key, problem := Default().Primary(&Input{Request: r})
		assert.Equal(t, NoTarget, problem)
		assert.True(t, key.IsZero())
		assert.Empty(t, Default().Text(&Input{Request: r}))
		assert.Equal(t, Explanation{Problem: NoTarget}, Default().Explain(&Input{Request: r}))
		_, changed := mustSpec(t, Options{Query: None()}).Reduce(&Input{Request: r})
		assert.False(t, changed)
	}
	assert.NotEmpty(t, Default().Text(&Input{Request: &http.Request{URL: &url.URL{Path: "/"}}}), "a nil header")
}

func TestManyPairsFromTheApplicationAreSortedStably(t *testing.T) {
	var extra []Pair
	for i := range 20 {
		extra = append(extra, Pair{string(rune('a' + i*7%10)), string(rune('0' + i/10))})
	}
	text := Default().Text(&Input{Request: request("http://a.test/"), Extra: extra})
	_, text, _ = strings.Cut(text, "path:1:/ ")
	want := ""
	for c := 'a'; c <= 'j'; c++ {
		want += "x:1:" + string(c) + ":1:0 x:1:" + string(c) + ":1:1 "
	}
	assert.Equal(t, strings.TrimSpace(want), text)
	assert.Equal(t, "h", extra[1].Name, "the caller's slice is left alone")
}

func TestKeysOnTheHotPathAllocateNothing(t *testing.T) {
	s := mustSpec(t, Options{
		Query: Exclude(CommonTrackingParams()...), Headers: []string{"RSC", "Accept-Language", "X-Own-Field"},
		Cookies: []string{"ab"}, DropOtherCookies: true,
		Normalize: map[string]Normalizer{
			"Accept-Encoding": AcceptEncoding(), "Accept-Language": AcceptLanguage("en", "de"), "User-Agent": DeviceClass(),
		},
	})
	in := &Input{
		Request: request("https://Example.com:443/caf%C3%A9/a%2Fb?sort=price&page=2&utm_source=x&q=shoes&b=1",
			"Accept-Encoding: GZIP, br;q=0", "Accept-Language: fr, de;q=0.5", "Cookie: a=1; ab=2; ab=\"3\"",
			"User-Agent: "+genericAgent(Mobile)),
		Zone: "shop", Extra: []Pair{{"z", "1"}, {"a", "2"}},
	}
	testnet.Allocs(t, 0, func() { s.Primary(in) })

	names := []string{"accept-encoding", "cookie", "next-router-segment-prefetch", "user-agent"}
	testnet.Allocs(t, 0, func() { s.WithVary(Key{}, names, in.Request.Header) })

	clean := &Input{Request: request("https://a.test/p?page=2", "Cookie: ab=2", "Accept-Encoding: gzip",
		"Accept-Language: de", "User-Agent: "+genericAgent(Mobile))}
	_, changed := s.Reduce(clean)
	require.False(t, changed)
	testnet.Allocs(t, 0, func() { s.Reduce(clean) })
	raw := &Input{Request: request("https://a.test/p?page=2", "Cookie: x=2")}
	testnet.Allocs(t, 0, func() { Default().Reduce(raw) })
}

func TestExtremeSizes(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	many := manyParameters(10_000)
	s := mustSpec(t, Options{
		Query: Exclude(CommonTrackingParams()...), Headers: []string{"X-Big"}, Cookies: []string{"a"}, DropOtherCookies: true,
		Normalize: map[string]Normalizer{
			"Accept-Encoding": AcceptEncoding(), "Accept-Language": AcceptLanguage("en", "de"), "User-Agent": DeviceClass(),
		},
	})
	for name, r := range map[string]*http.Request{
		"parameters":     request("http://a.test/?" + many),
		"empties":        request("http://a.test/?" + strings.Repeat("&", 1<<20)),
		"semicolons":     request("http://a.test/?" + strings.Repeat("a;", 1<<19)),
		"excluded":       request("http://a.test/?" + strings.Repeat("gclid=1&", 1<<17)),
		"same name":      request("http://a.test/?" + strings.Repeat("a=1&", 1<<18)),
		"long value":     request("http://a.test/?a=" + big),
		"long name":      request("http://a.test/?" + big),
		"long path":      request("http://a.test/" + big),
		"escaped path":   request("http://a.test/" + strings.Repeat("%C3%A9", 1<<17)),
		"long header":    request("http://a.test/", "X-Big: "+big),
		"long lists":     request("http://a.test/", "Accept-Encoding: "+strings.Repeat("a,", 1<<19), "Accept-Language: "+strings.Repeat("a,", 1<<19)),
		"long agent":     request("http://a.test/", "User-Agent: "+big),
		"cookies":        request("http://a.test/", "Cookie: "+strings.Repeat("a=1;", 1<<18)),
		"other cookies":  request("http://a.test/", "Cookie: "+strings.Repeat("b=1;", 1<<18)),
		"cookie garbage": request("http://a.test/", "Cookie: "+strings.Repeat("=;", 1<<19)+strings.Repeat(" ", 1<<10)),
	} {
		t.Run(name, func(t *testing.T) {
			in := &Input{Request: r}
			key, problem := s.Primary(in)
			require.Equal(t, NoProblem, problem)
			if reduced, ok := s.Reduce(in); ok {
				again, _ := s.Primary(&Input{Request: reduced.Apply(r)})
				require.Equal(t, key, again)
				require.LessOrEqual(t, len(reduced.Dropped), MaxDropped)
			}
			s.WithVary(key, []string{"accept-encoding", "x-big", "user-agent"}, r.Header)
			// Hundreds of thousands of ingredients are slow to hold under the race detector.
			if text := s.Text(in); len(text) < 2<<20 {
				parts, err := Parse(text)
				require.NoError(t, err)
				require.NotEmpty(t, parts)
			}
		})
	}
}

func TestKeyForms(t *testing.T) {
	k := Key{0xab, 1, 2, 3, 4, 0xff}
	assert.Equal(t, "ab01020304ff"+strings.Repeat("0", 52), k.String())
	assert.Equal(t, "ab01020304ff", k.Short())
	assert.False(t, k.IsZero())
	parsed, err := ParseKey(strings.ToUpper(k.String()))
	require.NoError(t, err)
	assert.Equal(t, k, parsed)
	text, err := k.MarshalText()
	require.NoError(t, err)
	var back Key
	require.NoError(t, back.UnmarshalText(text))
	assert.Equal(t, k, back)
	for _, bad := range []string{"", k.Short(), strings.Repeat("g", 64), k.String() + "0"} {
		_, err := ParseKey(bad)
		assert.Error(t, err, bad)
		assert.Error(t, back.UnmarshalText([]byte(bad)))
	}
	assert.Equal(t, k, back, "a failed read changes nothing")
}
