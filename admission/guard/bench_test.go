package guard

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/weirhttp/weir/internal/testnet"
)

func TestAllocations(t *testing.T) {
	g := newGuard(t, roomy())
	p := roomy()
	p.Operations = MaxOperations
	p.ContextAgeMS = MaxContextAgeMS
	patient := newGuard(t, p)
	known, unknown := from(bigSearch), at("2001:db8::1")
	tight := newGuard(t, policy())
	drain(tight, unknown, "search")
	ctx := patient.WithRequest(background, known)
	v := crawlers(t, 5000, nil)
	inside, outside := netip.MustParseAddr("10.7.1.1"), netip.MustParseAddr("198.51.100.1")
	lines, trusted := []string{"203.0.113.1, 198.51.100.7"}, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	proxy := netip.MustParseAddr("192.0.2.1")
	for what, f := range map[string]func(){
		"known":          func() { g.Admit(known, "search") },
		"unknown":        func() { g.Admit(unknown, "search") },
		"refused":        func() { tight.Admit(unknown, "search") },
		"no such route":  func() { g.Admit(known, "nope") },
		"operation":      func() { _ = Do(ctx, "search", nothing) },
		"by range":       func() { v.Identify(inside, browser) },
		"by range named": func() { v.Identify(inside, "Mozilla/5.0 (compatible; GoogleBot/2.1)") },
		"nobody":         func() { v.Identify(outside, browser) },
		"client address": func() { ClientAddr(proxy, trusted, XForwardedFor, lines) },
	} {
		testnet.Allocs(t, 0, f, what)
	}
	testnet.Allocs(t, 2, func() { g.WithRequest(background, known) })
}

const browser = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"

// crawlers is a verifier with n prefixes, and two providers by name.
func crawlers(t testing.TB, n int, r Resolver) *Verifier {
	t.Helper()
	var list []netip.Prefix
	for i := range n {
		list = append(list, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24))
	}
	v, err := NewVerifier(VerifierOptions{Resolver: r, Sources: []Source{
		{Identity: Identity{"big", "range"}, Prefixes: append(list, netip.MustParsePrefix("10.0.0.0/8"))},
		{Identity: bigSearch, Domains: []string{"googlebot.com", "Google.com."}, Agents: []string{"Googlebot"}},
		{Identity: smallOnly, Domains: []string{"crawl.example.net"}, Agents: []string{"SmallBot", "tinybot"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close(background) })
	return v
}

// Six budgets at most, debited together.
func BenchmarkAdmit(b *testing.B) {
	g := newGuard(b, roomy())
	for name, r := range map[string]Request{"known": from(bigSearch), "unknown": at("2001:db8::1")} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				g.Admit(r, "search")
			}
		})
	}
}

func BenchmarkDo(b *testing.B) {
	g := newGuard(b, roomy())
	b.ReportAllocs()
	for b.Loop() {
		_ = Do(g.WithRequest(background, Request{Identity: bigSearch, Began: time.Now()}), "search", nothing)
	}
}

// Grows with the logarithm of the number of prefixes.
func BenchmarkIdentifyByRange(b *testing.B) {
	for _, n := range []int{10, 1000, 60000} {
		v := crawlers(b, n, nil)
		for name, addr := range map[string]string{"in": "10.0.9.9", "out": "198.51.100.1"} {
			at := netip.MustParseAddr(addr)
			b.Run(fmt.Sprint(n, "/", name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					v.Identify(at, browser)
				}
			})
		}
	}
}
