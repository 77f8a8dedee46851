package guard

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func TestVerifierOptionsErrors(t *testing.T) {
	_, err := NewVerifier(VerifierOptions{
		Lookups: -1, LookupsPerSecond: 10_001, LookupQueue: 65537, Verdicts: -5,
		LookupTimeout: time.Hour, VerifiedFor: -1, DeniedFor: 1, FailedFor: 8 * 24 * time.Hour,
		Sources: []Source{
			{Identity: Identity{"", "Search"}},
			{Identity: bigSearch, Agents: []string{"bot"}},
			{Identity: bigSearch, Domains: []string{"googlebot.com"}},
			{Identity: bigSearch, Prefixes: []netip.Prefix{{}, prefix("0.0.0.0/0"), prefix("::/0"), prefix("::ffff:0.0.0.0/96")}},
			{Identity: bigSearch, Agents: []string{"b"}, Domains: []string{"com", "", ".a.com", "a..com", "bücher.example", "*.a.com"}},
		},
	})
	assert.Equal(t, []string{
		"Lookups", "LookupsPerSecond", "LookupQueue", "Verdicts", "LookupTimeout", "VerifiedFor", "DeniedFor", "FailedFor",
		"Sources[0].Identity.Provider", "Sources[0].Identity.Class", "Sources[0].Prefixes",
		"Sources[1].Prefixes",
		"Sources[2].Agents",
		"Sources[3].Prefixes[0]", "Sources[3].Prefixes[1]", "Sources[3].Prefixes[2]", "Sources[3].Prefixes[3]",
		"Sources[4].Domains[0]", "Sources[4].Domains[1]", "Sources[4].Domains[2]", "Sources[4].Domains[3]", "Sources[4].Domains[4]", "Sources[4].Domains[5]",
		"Sources[4].Agents[0]",
	}, fields(err))
	many := make([]Source, 65)
	for i := range many {
		many[i] = Source{Identity: bigSearch, Prefixes: []netip.Prefix{prefix("192.0.2.0/24")}}
	}
	_, err = NewVerifier(VerifierOptions{Sources: many})
	assert.Equal(t, []string{"Sources"}, fields(err))
	var domains []string
	for i := range 65 {
		domains = append(domains, fmt.Sprintf("d%d.example", i))
	}
	_, err = NewVerifier(VerifierOptions{Sources: []Source{{Identity: bigSearch, Agents: []string{"bot"}, Domains: domains}}})
	assert.Equal(t, []string{"Sources"}, fields(err))
	v, err := NewVerifier(VerifierOptions{})
	require.NoError(t, err)
	id, proof := v.Identify(netip.MustParseAddr("192.0.2.1"), "Googlebot")
	assert.Equal(t, Identity{}, id)
	assert.Equal(t, Unclaimed, proof)
	assert.NoError(t, v.Close(background))
	assert.NoError(t, v.Close(background))
}

// An address range is enough; a user agent alone is nothing, but tells classes of
// one range apart.
func TestIdentifyByRange(t *testing.T) {
	v, err := NewVerifier(VerifierOptions{Sources: []Source{
		{Identity: bigImages, Prefixes: []netip.Prefix{prefix("192.0.2.0/24")}, Agents: []string{"Googlebot-Image"}},
		{Identity: bigSearch, Prefixes: []netip.Prefix{prefix("192.0.2.0/24"), prefix("2001:db8::/32"), prefix("::ffff:198.51.100.0/120")}},
		{Identity: smallOnly, Prefixes: []netip.Prefix{prefix("192.0.2.128/25"), prefix("203.0.113.7/32")}, Agents: []string{"smallbot"}},
	}})
	require.NoError(t, err)
	for _, c := range []struct {
		addr, agent string
		want        Identity
		proof       Proof
	}{
		{"192.0.2.1", browser, bigSearch, ByRange},
		{"192.0.2.1", "", bigSearch, ByRange},
		{"192.0.2.1", "GOOGLEBOT-image/1.0", bigImages, ByRange},
		{"::ffff:192.0.2.1", browser, bigSearch, ByRange},
		{"192.0.2.200", "smallbot", bigSearch, ByRange}, // the first of the list
		{"198.51.100.9", browser, bigSearch, ByRange},
		{"2001:db8::1%eth0", browser, bigSearch, ByRange},
		{"203.0.113.7", "x smallBOT y", smallOnly, ByRange},
		{"203.0.113.7", browser, Identity{}, Unclaimed},
		{"203.0.113.8", "smallbot", Identity{}, Unclaimed},
		{"203.0.113.9", "Googlebot-Image", Identity{}, Unclaimed},
		{"203.0.113.7", strings.Repeat("x", maxAgentBytes) + "smallbot", Identity{}, Unclaimed},
		{"203.0.113.7", strings.Repeat("x", maxAgentBytes-8) + "smallbot", smallOnly, ByRange},
		{"203.0.113.7", "smallbo", Identity{}, Unclaimed},
		{"203.0.113.7", "\u017fmallbot", Identity{}, Unclaimed},
	} {
		id, proof := v.Identify(netip.MustParseAddr(c.addr), c.agent)
		assert.Equal(t, c.want, id, "%s %.40s", c.addr, c.agent)
		assert.Equal(t, c.proof, proof, "%s %.40s", c.addr, c.agent)
	}
	id, proof := v.Identify(netip.Addr{}, "smallbot")
	assert.Equal(t, Identity{}, id)
	assert.Equal(t, Unclaimed, proof)
}

// The index finds what a look at each prefix finds.
func TestRangesFindWhatLookingAtAllFinds(t *testing.T) {
	for seed := range 200 {
		rng := rand.New(rand.NewPCG(uint64(seed), 13))
		addr := func() netip.Addr {
			if rng.IntN(2) == 0 {
				return netip.AddrFrom4([4]byte{byte(rng.IntN(2)), byte(rng.IntN(3)), byte(rng.IntN(256)), byte(rng.IntN(256))})
			}
			return netip.AddrFrom16([16]byte{0: 0x20, 1: byte(rng.IntN(2)), 2: byte(rng.IntN(256)), 15: byte(rng.IntN(256))})
		}
		lists := make([][]netip.Prefix, 1+rng.IntN(5))
		for i := range lists {
			for range rng.IntN(60) {
				a := addr()
				lists[i] = append(lists[i], netip.PrefixFrom(a, 1+rng.IntN(a.BitLen())))
			}
		}
		r := newRanges(lists)
		for range 300 {
			a := addr()
			var want sources
			for i, list := range lists {
				for _, p := range list {
					if p.Contains(a) {
						want |= 1 << i
					}
				}
			}
			require.Equal(t, want, r.find(a), "%v", a)
		}
		assert.Zero(t, r.find(netip.Addr{}))
	}
}

func TestInDomains(t *testing.T) {
	domains := []string{"googlebot.com", "google.com", "crawl.example.net"}
	for name, want := range map[string]sources{
		"crawl-66-249-66-1.googlebot.com.": 1,
		"CRAWL.GoogleBot.COM.":             1,
		"googlebot.com":                    1,
		"a.b.google.com":                   2,
		"x.crawl.example.net":              4,
		"evil.googlebot.com.attacker.net":  0,
		"fakegooglebot.com":                0,
		"-googlebot.com":                   0,
		"googlebot.com.":                   1,
		"x.googlebot.com..":                0,
		".googlebot.com":                   0,
		"x..googlebot.com":                 0,
		"com":                              0,
		"":                                 0,
		".":                                0,
		"x.googleb\u00f6t.com":             0,
		"x\u3002googlebot.com":             0,
		"x.googlebot.com\x00":              0,
		"x\x00.googlebot.com":              0,
		"x y.googlebot.com":                0,
		"x\\.googlebot.com":                0,
		"xn--fake-googlebot.com":           0,
		"xn--bcher-kva.googlebot.com":      1,
		"example.net":                      0,
		"\u212aoogle.com":                  0,
		strings.Repeat("a", 64) + ".googlebot.com":      0,
		strings.Repeat("a.", 130) + "googlebot.com":     0,
		strings.Repeat("a.", 100) + "googlebot.com":     1,
		"googlebot.com" + strings.Repeat(".a", 1_000_0): 0,
	} {
		host, ok := hostName(name)
		got := sources(0)
		if ok {
			got = inDomains(host, domains)
		}
		assert.Equal(t, want, got, "%.60q", name)
	}
}
