package lb

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fields returns the fields that an error names.
func fields(err error) []string {
	var out []string
	var walk func(error)
	walk = func(err error) {
		if ce, ok := err.(*ConfigError); ok {
			out = append(out, ce.Field)
			return
		}
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range many.Unwrap() {
				walk(e)
			}
		}
	}
	walk(err)
	slices.Sort(out)
	return out
}

func TestOptionsReportAllProblems(t *testing.T) {
	o := Options{
		Pools: []Pool{
			{},
			{Name: "x", Policy: "fastest", Origins: []Origin{{Address: ""}, {Address: "a.test", Weight: 9}, {Address: "b.test", ID: "a.test", Scheme: "ftp"}}, MinimumHealthy: 4},
			{Name: "x", Policy: HashCookie, HashBound: 101, Origins: []Origin{{Address: "a.test:0", HostHeader: "a/b", MaxConnections: 1 << 21}}},
			{Name: "y", HashName: "sid", HashBound: 150, Origins: []Origin{{Address: "a.test", Weight: 2}},
				Retry: Retry{Attempts: 4, Percent: 101, Floor: 1001, BodyBytes: 1 << 30, Statuses: []int{404}}},
			{Name: "z", Origins: []Origin{{Address: "a.test"}}, SlowStart: -1, Health: HealthCheck{Rise: -1}, Breaker: Breaker{Open: time.Second},
				Ejection: Ejection{MaxPercent: 101}, WarmUp: WarmUp{Timeout: time.Second}, Transport: TransportOptions{Scheme: "gopher"}},
		},
		Hosts: map[string][]string{"a.test:80": {"x"}, "*": {}, "b.test": {"none"}, "B.test": {"y", "y"}, "x.*.test": {"y"}},
	}
	_, err := New(o)
	require.Error(t, err)
	assert.Equal(t, []string{
		`Hosts["*"]`, `Hosts["B.test"]`, `Hosts["a.test:80"]`, `Hosts["b.test"]`, `Hosts["b.test"]`, `Hosts["x.*.test"]`,
		"Pools[0].Name", "Pools[0].Origins",
		"Pools[1].MinimumHealthy", "Pools[1].Origins[0].Address", "Pools[1].Origins[1].Weight", "Pools[1].Origins[2].ID", "Pools[1].Origins[2].Scheme", "Pools[1].Policy",
		"Pools[2].HashBound", "Pools[2].HashName", "Pools[2].Name", "Pools[2].Origins[0].Address", "Pools[2].Origins[0].HostHeader", "Pools[2].Origins[0].MaxConnections",
		"Pools[3].HashBound", "Pools[3].HashName", "Pools[3].Origins[0].Weight", "Pools[3].Retry.Attempts", "Pools[3].Retry.BodyBytes", "Pools[3].Retry.Floor",
		"Pools[3].Retry.Percent", "Pools[3].Retry.Statuses[0]",
		"Pools[4].Breaker.Failures", "Pools[4].Ejection.MaxPercent", "Pools[4].Health.Path", "Pools[4].Health.Rise", "Pools[4].SlowStart", "Pools[4].Transport.Scheme", "Pools[4].WarmUp.Paths",
	}, fields(err))
	var ce *ConfigError
	require.True(t, errors.As(err, &ce))
	_, err = New(Options{})
	assert.Equal(t, []string{"Pools"}, fields(err))
	_, err = New(Options{Pools: make([]Pool, maxPools+1)})
	assert.Equal(t, []string{"Pools"}, fields(err))
	_, err = New(Options{Pools: []Pool{{Name: "a", Origins: make([]Origin, maxOrigins+1)}}})
	assert.Equal(t, []string{"Pools[0].Origins"}, fields(err))
}

// The same server twice would get twice its share, and be asked twice by whoever looks
// for another origin.
func TestOneServerInTwoSpellings(t *testing.T) {
	for _, c := range []struct {
		origins []Origin
		want    []string
	}{
		{[]Origin{{Address: "10.0.0.1"}, {Address: "10.0.0.1:443"}}, []string{"Pools[0].Origins[1].Address"}},
		{[]Origin{{Address: "A.test"}, {Address: "b.test"}, {Address: "a.test"}, {Address: "a.test.:443"}}, []string{"Pools[0].Origins[2].Address", "Pools[0].Origins[3].Address"}},
		{[]Origin{{Address: "[2001:db8::1]:443"}, {Address: "2001:DB8:0::1"}}, []string{"Pools[0].Origins[1].Address"}},
		{[]Origin{{Address: "::ffff:10.0.0.1", ID: "x"}, {Address: "10.0.0.1"}}, []string{"Pools[0].Origins[1].Address"}},
		{[]Origin{{Address: "a.test"}, {Address: "a.test"}}, []string{"Pools[0].Origins[1].ID"}},
		{[]Origin{{Address: "a.test", ID: "x"}, {Address: "A.test", ID: "y"}}, nil},
		{[]Origin{{Address: "a.test"}, {Address: "A.test:80"}, {Address: "A.test", Scheme: "http", ID: "plain"}}, nil},
	} {
		_, err := New(Options{Pools: []Pool{{Name: "p", Origins: c.origins}}})
		assert.Equal(t, c.want, fields(err), "%v", c.origins)
	}
}

func TestHashNameIsAToken(t *testing.T) {
	for name, want := range map[string][]string{
		"session": nil, "X-Tenant": nil, "__Host-sid": nil, "a b": {"Pools[0].HashName"}, "a:b": {"Pools[0].HashName"}, "a=b": {"Pools[0].HashName"},
		"a;": {"Pools[0].HashName"}, "\xe9": {"Pools[0].HashName"}, "a\r\n": {"Pools[0].HashName"}, "": {"Pools[0].HashName"},
	} {
		for _, policy := range []Policy{HashHeader, HashCookie} {
			_, err := New(Options{Pools: []Pool{{Name: "p", Policy: policy, HashName: name, Origins: []Origin{{Address: "a"}}}}})
			assert.Equal(t, want, fields(err), "%q", name)
		}
	}
}

// What a request has lost when it is passed on can't choose its origin; net/http keeps
// some of it out of the header.
func TestHashNameOfALostField(t *testing.T) {
	for _, name := range []string{"content-length", "Transfer-Encoding", "Trailer", "Connection", "Te", "Upgrade", "Keep-Alive", "Proxy-Authorization"} {
		origins := []Origin{{Address: "a"}}
		_, err := New(Options{Pools: []Pool{{Name: "p", Policy: HashHeader, HashName: name, Origins: origins}}})
		assert.Equal(t, []string{"Pools[0].HashName"}, fields(err), name)
		_, err = New(Options{Pools: []Pool{{Name: "p", Policy: HashCookie, HashName: name, Origins: origins}}})
		assert.NoError(t, err, name)
	}
}

// A path is hashed in its escaped form, whether that is how net/url would write it or
// not: "/products/1" is one of the published vectors.
func TestPathsAreHashedEscaped(t *testing.T) {
	pc := &poolConfig{Pool: Pool{Policy: HashPath}}
	for target, want := range map[string]string{
		"/": "/", "/products/1": "/products/1", "/products/1?q=1": "/products/1", "/a%20b": "/a%20b", "/a%2Fb": "/a%2Fb", "/a%2fb": "/a%2fb",
		"/%61": "/%61", "/a": "/a", "/caf%C3%A9": "/caf%C3%A9", "*": "*",
	} {
		k, ok := pc.hashKey(httptest.NewRequest("OPTIONS", target, nil))
		assert.True(t, ok)
		assert.Equal(t, digestString(want), k, target)
	}
	k, _ := pc.hashKey(httptest.NewRequest("GET", "/products/1", nil))
	assert.EqualValues(t, 0x2f35821ed5340bb6, k)
}

// The defaults: port 443, weight 1, round robin, one healthy, 200 connections,
// three attempts, a fifth of the requests.
func TestDefaults(t *testing.T) {
	cfg, errs := Options{Pools: []Pool{{Name: "p", Origins: []Origin{{Address: "app.test"}, {Address: "10.0.0.1", Scheme: "http"}, {Address: "[2001:db8::1]:8443", MaxConnections: -1}}}}}.resolve()
	require.Empty(t, errs)
	p := cfg.pools[0]
	assert.Equal(t, RoundRobin, p.Policy)
	assert.Equal(t, 1, p.MinimumHealthy)
	assert.Equal(t, retryRules{attempts: 3, percent: 20, floor: 3, bodyBytes: 65536, statuses: []int{502, 503, 504}}, p.retry)
	var got []string
	for _, o := range p.origins {
		assert.Equal(t, 1, o.Weight)
		got = append(got, o.Scheme+" "+o.target.authority()+" "+o.key)
	}
	assert.Equal(t, []string{"https app.test:443 app.test", "http 10.0.0.1:80 10.0.0.1 by http", "https [2001:db8::1]:8443 [2001:db8::1]:8443"}, got)
	assert.EqualValues(t, 200, p.origins[0].limit)
	assert.EqualValues(t, 1<<31-1, p.origins[2].limit)
	cfg, errs = Options{Pools: []Pool{{Name: "p", Policy: HashPath, Retry: Retry{Attempts: -1, Percent: -1, Floor: -1, BodyBytes: -1, Statuses: []int{}}, Origins: []Origin{{Address: "a"}}}}}.resolve()
	require.Empty(t, errs)
	assert.Equal(t, retryRules{attempts: 1, statuses: []int{}}, cfg.pools[0].retry)
	assert.Equal(t, DefaultHashBound, cfg.pools[0].bound)
	for policy, bound := range map[Policy]int{HashCookie: 0, HashHeader: 0, HashClient: 125, HashKey: 125} {
		p := Pool{Name: "p", Policy: policy, Origins: []Origin{{Address: "a"}}}
		if policy == HashCookie || policy == HashHeader {
			p.HashName = "sid"
		}
		cfg, errs := Options{Pools: []Pool{p}}.resolve()
		require.Empty(t, errs)
		assert.Equal(t, bound, cfg.pools[0].bound, policy)
	}
}

// What the caller does with the options afterwards has no effect.
func TestOptionsAreCopied(t *testing.T) {
	o := Options{Pools: []Pool{plainPool("p", "10.0.0.1:80")}, Hosts: map[string][]string{"*": {"p"}}}
	o.Pools[0].Retry.Statuses = []int{503}
	b := newBalancer(t, o)
	o.Pools[0].Origins[0].Disabled = true
	o.Pools[0].Retry.Statuses[0] = 500
	delete(o.Hosts, "*")
	g := b.view.Load().groupsFor("shop.test")
	require.Len(t, g, 1)
	assert.Equal(t, []int{503}, g[0].retry.statuses)
	assert.Equal(t, StateHealthy, b.Status()[0].Origins[0].State)
}

func TestHashKeys(t *testing.T) {
	key := func(p Pool, change func(*http.Request)) (uint64, bool) {
		p.Name, p.Origins = "p", []Origin{{Address: "a"}}
		cfg, errs := Options{Pools: []Pool{p}}.resolve()
		require.Empty(t, errs)
		r := httptest.NewRequest("GET", "http://shop.test/a%2Fb?q=1", nil)
		r.RemoteAddr = "192.0.2.7:1234"
		if change != nil {
			change(r)
		}
		return cfg.pools[0].hashKey(r)
	}
	same := func(want []byte, p Pool, change func(*http.Request)) {
		t.Helper()
		k, ok := key(p, change)
		assert.True(t, ok)
		assert.Equal(t, digest(want), k)
	}
	none := func(p Pool, change func(*http.Request)) {
		t.Helper()
		_, ok := key(p, change)
		assert.False(t, ok)
	}
	header := func(name string, values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header[name] = values }
	}
	addr := func(a string) func(*http.Request) {
		return func(r *http.Request) { *r = *r.WithContext(WithClientAddr(r.Context(), netip.MustParseAddr(a))) }
	}
	same([]byte{192, 0, 2, 7}, Pool{Policy: HashClient}, nil)
	same([]byte{198, 51, 100, 1}, Pool{Policy: HashClient}, addr("198.51.100.1"))
	same([]byte{198, 51, 100, 1}, Pool{Policy: HashClient}, addr("::ffff:198.51.100.1"))
	same([]byte{0x20, 1, 0xd, 0xb8, 0, 1, 0, 2}, Pool{Policy: HashClient}, addr("2001:db8:1:2:3:4:5:6"))
	none(Pool{Policy: HashClient}, func(r *http.Request) { r.RemoteAddr = "@" })
	same([]byte("/a%2Fb"), Pool{Policy: HashPath}, nil)
	same([]byte("/plain"), Pool{Policy: HashPath}, func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/plain", "" })
	k := [32]byte{1, 2, 3}
	same(k[:], Pool{Policy: HashKey}, func(r *http.Request) { *r = *r.WithContext(WithKey(r.Context(), k)) })
	none(Pool{Policy: HashKey}, nil)
	same([]byte("t1"), Pool{Policy: HashHeader, HashName: "x-tenant"}, header("X-Tenant", "t1"))
	same([]byte("t1, t2"), Pool{Policy: HashHeader, HashName: "x-tenant"}, header("X-Tenant", "t1", "t2"))
	none(Pool{Policy: HashHeader, HashName: "x-tenant"}, nil)
	same([]byte("t1"), Pool{Policy: HashHeader, HashName: "x-tenant"}, header("X-Tenant", "\tt1 "))
	same([]byte("t1, t2"), Pool{Policy: HashHeader, HashName: "x-tenant"}, header("X-Tenant", "t1", " t2"))
	same([]byte("shop.test"), Pool{Policy: HashHeader, HashName: "host"}, func(r *http.Request) { r.Host = "Shop.Test:8080" })
	sid := Pool{Policy: HashCookie, HashName: "sid"}
	same([]byte("abc"), sid, header("Cookie", "xsid=1; sid=abc; sid=def"))
	same([]byte("abc"), sid, header("Cookie", "a=b", `sid="abc"`))
	same([]byte("a=b"), sid, header("Cookie", ";;sid=a=b"))
	none(sid, header("Cookie", "sid; SID=1; sid="))
	none(sid, nil)
	long := strings.Repeat("x", 1000)
	same([]byte(long), sid, header("Cookie", "sid="+long))
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for v, want := range map[string]time.Duration{
		"": 0, "0": 0, " 7 ": 7 * time.Second, "99999999999999999999": time.Hour, "3601": time.Hour, "-1": 0, "soon": 0, "1.5": 0,
		"Fri, 02 Jan 2026 03:04:35 GMT": 30 * time.Second, "Fri, 02 Jan 2026 03:00:00 GMT": 0, "Fri, 02 Jan 2099 03:00:00 GMT": time.Hour,
	} {
		assert.Equal(t, want, retryAfter(v, now), v)
	}
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("120")
	f.Add("Fri, 02 Jan 2026 03:04:35 GMT")
	f.Fuzz(func(t *testing.T, v string) {
		d := retryAfter(v, time.Now())
		if d < 0 || d > time.Hour {
			t.Fatal(d)
		}
	})
}

func TestCookieThatIsHashed(t *testing.T) {
	for line, want := range map[string]string{
		"": "", "sid": "", "sid=": "", "ssid=1": "", "SID=1": "", "b=2; sid=1; sid=3": "1", "sid=;sid=1": "1",
		"sid =1": "1", " sid\t=\t1 ;": "1", `sid="x y"`: "x y",
	} {
		got, ok := cookie([]string{"a=0", line}, "sid")
		assert.Equal(t, want, got, line)
		assert.Equal(t, want != "", ok, line)
	}
}
