package middleware

import (
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/purge"
)

// viaProxies are what two trusted proxies say of requests for the same page of
// example.com. What the first one says is in the key.
var viaProxies = map[string]struct{ get, post []string }{
	"server":         {[]string{"X-Forwarded-Server", "one"}, []string{"X-Forwarded-Server", "two"}},
	"port":           {[]string{"X-Forwarded-Port", "443"}, []string{"X-Forwarded-Port", "8443"}},
	"prefix":         {[]string{"X-Forwarded-Prefix", "/a"}, []string{"X-Forwarded-Prefix", "/b"}},
	"TLS":            {[]string{"X-Forwarded-Ssl", "on"}, nil},
	"TLS, elsewhere": {[]string{"Front-End-Https", "on"}, []string{"X-Forwarded-Ssl", "on"}},
	"host":           {[]string{"X-Forwarded-Host", "example.com", "Host", "a:8080"}, []string{"X-Forwarded-Host", "EXAMPLE.com", "Host", "b:8080"}},
	"as it came":     {[]string{"X-Forwarded-Host", "example.com", "Host", "a:8080"}, nil},
	"nothing usable": {[]string{"X-Forwarded-Server", "one"}, []string{"X-Forwarded-Server", "one", "X-Forwarded-Server", "two"}},
	"the scheme":     {[]string{"X-Forwarded-Proto", "https"}, []string{"X-Forwarded-Proto", "https,https"}},
	"directly":       {[]string{"X-Forwarded-Server", "one"}, []string{"Peer", "192.0.2.1"}},
}

// viaProxy are the fields of a request that comes by way of a trusted proxy.
func viaProxy(says []string) []string { return slices.Concat([]string{"Peer", "10.0.0.1"}, says) }

// An unsafe request invalidates its URL and what its response names, by whichever
// proxy it came and by whichever those came that had the responses stored.
func TestUnsafeMethodsInvalidateWhatOtherProxiesAskedFor(t *testing.T) {
	for name, c := range viaProxies {
		for field, target := range map[string]string{"": "/a?b=1", "Location": "/", "Content-Location": "/?c"} {
			t.Run(name+" "+field, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					s := newSite(t, trustedNet, public("old"))
					get := viaProxy(c.get)
					s.get("/a?b=1", get...)
					s.get("/a?b=2", get...)
					done := testnet.Text(200, "")
					if field != "" {
						done.Header.Set(field, "/a?b=1")
					}
					s.answer(done, public("new"))
					require.Equal(t, 200, s.do("POST", target, viaProxy(c.post)...).status)
					r := s.get("/a?b=2", get...)
					r.is(t, hit("old", 60, 0))
					r = s.get("/a?b=1", get...)
					r.is(t, missed("new", 60))
				})
			})
		}
	}
}

// What is being fetched meanwhile for another proxy isn't stored, and nobody who comes
// afterwards joins it.
func TestUnsafeMethodsDoomWhatIsFetchedForOtherProxies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := viaProxies["server"]
		get, gate := viaProxy(c.get), testnet.NewGate()
		slow := public("old")
		slow.Gate = gate
		s := newSite(t, trustedNet, slow, testnet.Text(200, ""), public("new"))
		before := s.begin("/", get...)
		s.do("POST", "/", viaProxy(c.post)...)
		after := s.begin("/", get...)
		gate.Open()
		require.Equal(t, "200 old", <-before)
		require.Equal(t, "200 new", <-after)
		synctest.Wait()
		r := s.get("/", get...)
		r.is(t, hit("new", 60, 0))
	})
}

// Kept parts go too.
func TestUnsafeMethodsInvalidatePartsThatOtherProxiesAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := forwarding()
		o.TrustedProxies = trustedNet.TrustedProxies
		c := viaProxies["prefix"]
		s := newSite(t, o, piece("4567", 4, 10, `"v1"`))
		get := append(viaProxy(c.get), "Range", "bytes=4-7")
		s.get("/", get...)
		r := s.get("/", get...)
		r.isRange(t, hitPart("4567", 60, 0), "bytes 4-7/10")
		s.answer(testnet.Text(200, ""), piece("abcd", 4, 10, `"v2"`))
		s.do("POST", "/", viaProxy(c.post)...)
		r = s.get("/", get...)
		r.isRange(t, passedPart("abcd", true), "bytes 4-7/10")
	})
}

// So does what answers other queries by No-Vary-Search.
func TestUnsafeMethodsInvalidateByQueryWhatOtherProxiesAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := searching()
		o.TrustedProxies = trustedNet.TrustedProxies
		c := viaProxies["port"]
		get := viaProxy(c.get)
		s := newSite(t, o, says(utm))
		s.get("/a?utm=1", get...)
		r := s.get("/a?utm=2", get...)
		r.is(t, ignored(`for "utm=1"`, 60, 0))
		s.answer(testnet.Text(200, ""), says(utm))
		s.do("POST", "/a?utm=2", viaProxy(c.post)...)
		r = s.get("/a?utm=2", get...)
		r.is(t, missed(`for "utm=2"`, 60))
	})
}

// What is on a disk was asked for through a proxy that this process has heard nothing
// of, and it stays invalid in the next one.
func TestUnsafeMethodsInvalidateWhatAnEarlierProcessWasAskedFor(t *testing.T) {
	d := newDiskRig(t)
	d.body = []byte("small")
	d.trusted = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	d.restart()
	ask := func(method, server string) string {
		resp, _, err := d.do(method, "/a", "X-Forwarded-Server", server)
		require.NoError(t, err)
		return resp.Header.Get("Weir-Cache-Status")
	}
	require.Equal(t, "MISS", ask("GET", "one"))
	d.restart()
	require.Equal(t, "HIT", ask("GET", "one"))
	d.restart()
	_, _, err := d.do("POST", "/a")
	require.NoError(t, err)
	d.restart()
	require.Equal(t, "MISS", ask("GET", "one"))
}

// A purge selects by the URL, whatever proxies said of the requests.
func TestPurgesSelectWhatAnyProxyAskedFor(t *testing.T) {
	for name, c := range viaProxies {
		if name == "the scheme" {
			continue
		}
		for _, sel := range []purge.Selector{
			{Kind: purge.ExactURL, Host: "example.com", Path: "/a", Query: "b=1"},
			{Kind: purge.URL, Host: "example.com", Path: "/a"},
			{Kind: purge.Prefix, Host: "example.com", Path: "/a"},
			{Kind: purge.Host, Host: "example.com"},
			{Kind: purge.Tag, Tag: "t"},
		} {
			for _, soft := range []bool{false, true} {
				t.Run(name+" "+sel.Kind.String(), func(t *testing.T) {
					bubble(t, func(t *testing.T) {
						o := tagged()
						o.TrustedProxies = trustedNet.TrustedProxies
						s := newSite(t, o, public("old", "Surrogate-Key", "t"))
						get := viaProxy(c.get)
						s.get("/a?b=1", get...)
						s.answer(public("new"))
						sel.Soft = soft
						s.purge(sel)
						r := s.get("/a?b=1", get...)
						require.Equal(t, "new", r.body)
					})
				})
			}
		}
	}
}

// Where no key has more in it than the URL, scheme and host, unsafe requests remove
// what is stored, and leave nothing behind that hits would be checked against.
func TestUnsafeMethodsAreNotRememberedWhereKeysAreTheURLs(t *testing.T) {
	for name, o := range map[string]Options{"no proxies": {}, "proxies that only say scheme and host": trustedNet} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, o, public("old"))
				get := viaProxy([]string{"X-Forwarded-Proto", "https", "X-Forwarded-Host", "example.com", "X-Forwarded-For", "192.0.2.1"})
				s.get("/", get...)
				s.do("POST", "/", get...)
				require.Zero(t, s.mw.purges.list.Stats().Targets)
			})
		})
	}
}

// However many unsafe requests come through proxies, nothing else in the zone suffers.
func TestUnsafeRequestsThroughProxiesCostNothingElse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, trustedNet, public("page"))
		get := viaProxy([]string{"X-Forwarded-Server", "one"})
		s.get("/hot", get...)
		for i := range purge.DefaultMaxTombstones + 500 {
			s.do("POST", "/posted?n="+strconv.Itoa(i), viaProxy([]string{"X-Forwarded-Server", "two"})...)
		}
		r := s.get("/hot", get...)
		r.is(t, hit("page", 60, 0))
		st := s.mw.purges.list.Stats()
		require.Equal(t, []int{0, purge.DefaultMaxTombstones + 500}, []int{st.Tombstones, st.Targets})
	})
}
