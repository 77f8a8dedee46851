package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// zone is a resolver that answers from maps.
type zone struct {
	mu       sync.Mutex
	names    map[string][]string // by address
	addrs    map[string][]string // by name, with its dot
	fail     error               // for all
	delay    time.Duration
	hang     chan struct{} // if set, waits for it and nothing else
	asked    []string
	now, max int // lookups at once
}

var absent = &net.DNSError{Err: "no such host", IsNotFound: true}

func (z *zone) ask(ctx context.Context, what string, from map[string][]string) ([]string, error) {
	z.mu.Lock()
	z.asked = append(z.asked, what)
	z.now++
	z.max = max(z.max, z.now)
	fail, delay, hang := z.fail, z.delay, z.hang
	z.mu.Unlock()
	defer func() { z.mu.Lock(); z.now--; z.mu.Unlock() }()
	if hang != nil {
		<-hang
	}
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if fail != nil {
		return nil, fail
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if got, ok := from[what]; ok {
		return got, nil
	}
	return nil, absent
}

func (z *zone) LookupAddr(ctx context.Context, addr string) ([]string, error) {
	return z.ask(ctx, addr, z.names)
}

func (z *zone) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	got, err := z.ask(ctx, host, z.addrs)
	var out []netip.Addr
	for _, s := range got {
		out = append(out, netip.MustParseAddr(s))
	}
	return out, err
}

func (z *zone) set(f func()) {
	z.mu.Lock()
	defer z.mu.Unlock()
	f()
}

func (z *zone) took() []string {
	z.mu.Lock()
	defer z.mu.Unlock()
	out := z.asked
	z.asked = nil
	return out
}

const (
	crawler = "66.249.66.1"
	bot     = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
)

func goodZone() *zone {
	return &zone{
		names: map[string][]string{crawler: {"crawl-66-249-66-1.GoogleBot.com."}, "2001:db8::5": {"x.crawl.example.net."}, "203.0.113.50": {"x.crawl.example.net."}},
		addrs: map[string][]string{"crawl-66-249-66-1.googlebot.com.": {"192.0.2.9", crawler}, "x.crawl.example.net.": {"2001:db8::5", "::ffff:203.0.113.50"}},
	}
}

// byName is a verifier of the sources of crawlers, closed at the end.
func byName(t *testing.T, z *zone, change func(*VerifierOptions)) *Verifier {
	t.Helper()
	o := VerifierOptions{Resolver: z, Sources: []Source{
		{Identity: bigImages, Domains: []string{"googlebot.com"}, Agents: []string{"googlebot-image"}},
		{Identity: bigSearch, Domains: []string{"googlebot.com", "google.com"}, Agents: []string{"googlebot"}},
		{Identity: smallOnly, Domains: []string{"crawl.example.net"}, Agents: []string{"smallbot"}},
	}}
	if change != nil {
		change(&o)
	}
	v, err := NewVerifier(o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, v.Close(background)) })
	return v
}

type answer struct {
	id    Identity
	proof Proof
}

func ask(v *Verifier, addr, agent string) answer {
	id, proof := v.Identify(netip.MustParseAddr(addr), agent)
	return answer{id, proof}
}

var (
	pending  = answer{proof: Pending}
	denied   = answer{proof: Denied}
	verified = answer{bigSearch, ByName}
)

// in runs a test in a bubble.
func in(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

func TestIdentifyByName(t *testing.T) {
	in(t, func(t *testing.T) {
		z := goodZone()
		v := byName(t, z, nil)
		assert.Equal(t, pending, ask(v, crawler, bot))
		synctest.Wait()
		assert.Equal(t, verified, ask(v, crawler, bot))
		assert.Equal(t, verified, ask(v, "::ffff:"+crawler, bot))
		assert.Equal(t, answer{bigImages, ByName}, ask(v, crawler, "Googlebot-Image/1.0"), "both are of the domain; the first counts")
		assert.Equal(t, denied, ask(v, crawler, "SmallBot"), "it's somebody else")
		assert.Equal(t, answer{}, ask(v, crawler, browser), "it doesn't say so")
		assert.Equal(t, []string{crawler, "crawl-66-249-66-1.googlebot.com."}, z.took(), "the name is asked for with its dot")
		assert.Equal(t, pending, ask(v, "2001:db8::5", "smallbot"))
		assert.Equal(t, pending, ask(v, "203.0.113.50", "smallbot"))
		synctest.Wait()
		assert.Equal(t, answer{smallOnly, ByName}, ask(v, "2001:db8::5", "smallbot"))
		assert.Equal(t, answer{smallOnly, ByName}, ask(v, "203.0.113.50", "smallbot"))
		assert.Equal(t, VerifierStats{Lookups: 3, Verified: 3, Stored: 3}, v.Stats())
	})
}

// Whoever sends a crawler's user agent from elsewhere is nobody, whatever names the
// address has.
func TestForgedCrawlersAreDenied(t *testing.T) {
	many := func(n int, last string) []string {
		out := make([]string, n, n+1)
		for i := range out {
			out[i] = fmt.Sprintf("n%d.googlebot.com.", i)
		}
		return append(out, last)
	}
	for name, names := range map[string][]string{
		"no name":               nil,
		"another domain":        {"host.attacker.net."},
		"domain in the middle":  {"evil.googlebot.com.attacker.net."},
		"no label boundary":     {"fakegooglebot.com."},
		"the crawler's name":    {"crawl-66-249-66-1.googlebot.com."},
		"the domain itself":     {"googlebot.com."},
		"a name that isn't one": {"\x00.googlebot.com", "..", "", "x.googlebot.com..", "höst.googlebot.com."},
		"very many names":       many(100_000, "crawl-66-249-66-1.googlebot.com."),
		"a very long name":      {strings.Repeat("a.", 1<<20) + "googlebot.com."},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T) {
				z := goodZone()
				z.names["203.0.113.66"] = names
				v := byName(t, z, nil)
				assert.Equal(t, pending, ask(v, "203.0.113.66", bot))
				synctest.Wait()
				assert.Equal(t, denied, ask(v, "203.0.113.66", bot))
				assert.LessOrEqual(t, len(z.took()), 1+maxForwards)
			})
		})
	}
	in(t, func(t *testing.T) {
		z := goodZone()
		v := byName(t, z, nil)
		for _, addr := range []string{"127.0.0.1", "10.0.0.1", "::1", "fe80::1", "0.0.0.0", "224.0.0.1", "fd00::1"} {
			assert.Equal(t, denied, ask(v, addr, bot))
		}
		_, proof := v.Identify(netip.Addr{}, bot)
		assert.Equal(t, Denied, proof)
		synctest.Wait()
		assert.Empty(t, z.took())
	})
}

func TestOneLookupForManyRequests(t *testing.T) {
	in(t, func(t *testing.T) {
		z := goodZone()
		z.delay = time.Second
		v := byName(t, z, nil)
		for range 1000 {
			assert.Equal(t, pending, ask(v, crawler, bot))
		}
		time.Sleep(2*time.Second + 1)
		assert.Equal(t, verified, ask(v, crawler, bot))
		assert.Len(t, z.took(), 2)
	})
}

func TestVerdictsEnd(t *testing.T) {
	in(t, func(t *testing.T) {
		z := goodZone()
		v := byName(t, z, nil)
		forged := "203.0.113.66"
		ask(v, crawler, bot)
		ask(v, forged, bot)
		synctest.Wait()
		z.took()
		time.Sleep(DefaultDeniedFor - 1)
		assert.Equal(t, denied, ask(v, forged, bot))
		time.Sleep(time.Nanosecond)
		assert.Equal(t, pending, ask(v, forged, bot))
		synctest.Wait()
		assert.Equal(t, []string{forged}, z.took())

		time.Sleep(DefaultVerifiedFor*3/4 - DefaultDeniedFor - 1)
		assert.Equal(t, verified, ask(v, crawler, bot))
		synctest.Wait()
		assert.Empty(t, z.took())
		time.Sleep(time.Nanosecond)
		assert.Equal(t, verified, ask(v, crawler, bot), "it's looked up again meanwhile")
		synctest.Wait()
		assert.Len(t, z.took(), 2)
		time.Sleep(DefaultVerifiedFor - 1)
		assert.Equal(t, verified, ask(v, crawler, bot), "for as long again")
		synctest.Wait()

		z.set(func() { z.names[crawler] = []string{"sold.attacker.net."} })
		time.Sleep(DefaultVerifiedFor * 3 / 4)
		assert.Equal(t, verified, ask(v, crawler, bot))
		synctest.Wait()
		assert.Equal(t, denied, ask(v, crawler, bot), "no longer")
	})
}

func TestResolverFails(t *testing.T) {
	for name, fail := range map[string]error{
		"any error":    errors.New("connection refused"),
		"server error": &net.DNSError{Err: "server misbehaving", IsTemporary: true},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T) {
				z := goodZone()
				v := byName(t, z, nil)
				ask(v, crawler, bot)
				synctest.Wait()
				z.set(func() { z.fail = fail })
				ask(v, "203.0.113.50", "smallbot")
				synctest.Wait()
				assert.Equal(t, answer{proof: Unavailable}, ask(v, "203.0.113.50", "smallbot"))
				time.Sleep(DefaultVerifiedFor - 1)
				assert.Equal(t, verified, ask(v, crawler, bot), "a verdict holds to its end")
				synctest.Wait()
				assert.Equal(t, verified, ask(v, crawler, bot))
				time.Sleep(time.Nanosecond)
				assert.Equal(t, pending, ask(v, crawler, bot))
				synctest.Wait()
				assert.Equal(t, answer{proof: Unavailable}, ask(v, crawler, bot), "and not longer")
				z.set(func() { z.fail = nil })
				time.Sleep(DefaultFailedFor)
				assert.Equal(t, pending, ask(v, crawler, bot))
				synctest.Wait()
				assert.Equal(t, verified, ask(v, crawler, bot))
				assert.Equal(t, uint64(3), v.Stats().Failed)
			})
		})
	}
}

// panicky is a resolver with a fault.
type panicky struct{ zone }

func (*panicky) LookupAddr(context.Context, string) ([]string, error) { panic("fault") }

func TestResolverPanics(t *testing.T) {
	in(t, func(t *testing.T) {
		v := byName(t, nil, func(o *VerifierOptions) { o.Resolver = &panicky{} })
		ask(v, crawler, bot)
		synctest.Wait()
		assert.Equal(t, answer{proof: Unavailable}, ask(v, crawler, bot))
		assert.Equal(t, VerifierStats{Lookups: 1, Failed: 1, Stored: 1}, v.Stats())
	})
}

// A slow resolver holds up nobody, and not more of it is used than allowed.
func TestResolverHangs(t *testing.T) {
	in(t, func(t *testing.T) {
		z := goodZone()
		z.delay = time.Hour
		v := byName(t, z, func(o *VerifierOptions) { o.Lookups = 2 })
		began := time.Now()
		for i := range 10 {
			assert.Equal(t, pending, ask(v, fmt.Sprintf("203.0.%d.1", i), bot))
		}
		assert.Equal(t, began, time.Now(), "no request waits")
		time.Sleep(DefaultLookupTimeout + 1)
		assert.Equal(t, answer{proof: Unavailable}, ask(v, "203.0.0.1", bot))
		assert.Equal(t, 8, v.Stats().Pending)
		z.set(func() { assert.Equal(t, 2, z.max) })
	})
}

// A million addresses that claim to be a crawler: few lookups, few goroutines,
// bounded memory; and a crawler that was verified stays so.
func TestAMillionForgedCrawlers(t *testing.T) {
	in(t, func(t *testing.T) {
		z := goodZone()
		z.delay = 20 * time.Millisecond
		v := byName(t, z, func(o *VerifierOptions) { o.Verdicts = 512 })
		ask(v, crawler, bot)
		time.Sleep(time.Second)
		z.took()
		began, goroutines := time.Now(), runtime.NumGoroutine()
		for i := range million() {
			addr := netip.AddrFrom16([16]byte{0x20, 1, byte(i >> 16), byte(i >> 8), byte(i), 0xb8})
			id, _ := v.Identify(addr, "Googlebot")
			if id.Known() {
				t.Fatal("known")
			}
			if i%1000 == 0 {
				time.Sleep(10 * time.Millisecond)
				assert.LessOrEqual(t, runtime.NumGoroutine(), goroutines+DefaultLookups)
				assert.Equal(t, verified, ask(v, crawler, bot))
			}
		}
		s := v.Stats()
		most := 2*DefaultLookupsPerSecond + int(time.Since(began).Seconds()+1)*DefaultLookupsPerSecond
		assert.LessOrEqual(t, len(z.took()), most)
		assert.LessOrEqual(t, s.Stored, 2*512)
		assert.LessOrEqual(t, s.Pending, DefaultLookupQueue+DefaultLookups)
		assert.Greater(t, s.Dropped, uint64(million()*9/10))
		assert.LessOrEqual(t, cap(v.queue), 4*DefaultLookupQueue)
	})
}

// One network can't use up the lookups of all.
func TestLookupsOfANetworkAreBounded(t *testing.T) {
	in(t, func(t *testing.T) {
		z := goodZone()
		v := byName(t, z, nil)
		for i := range 256 {
			ask(v, fmt.Sprintf("203.0.113.%d", i), bot)
			ask(v, fmt.Sprintf("2001:db8:7:%x::1", i), bot)
		}
		assert.Equal(t, pending, ask(v, crawler, bot))
		synctest.Wait()
		assert.Equal(t, verified, ask(v, crawler, bot))
		assert.Equal(t, uint64(2+2+1), v.Stats().Lookups, "two seconds of one a second for each network")
	})
}

func TestLookupQueueIsBounded(t *testing.T) {
	in(t, func(t *testing.T) {
		z := goodZone()
		z.delay = time.Second
		v := byName(t, z, func(o *VerifierOptions) { o.LookupQueue, o.Lookups, o.LookupsPerSecond = 3, 1, 1000 })
		var got []Proof
		for i := range 6 {
			got = append(got, ask(v, fmt.Sprintf("203.0.%d.1", i), bot).proof)
			synctest.Wait()
		}
		assert.Equal(t, []Proof{Pending, Pending, Pending, Pending, Unavailable, Unavailable}, got)
	})
}

func TestReplaceSources(t *testing.T) {
	in(t, func(t *testing.T) {
		z := goodZone()
		v := byName(t, z, nil)
		ask(v, crawler, bot)
		synctest.Wait()
		assert.Error(t, v.Replace([]Source{{}}))
		assert.Equal(t, verified, ask(v, crawler, bot))
		same := []Source{
			{Identity: smallOnly, Domains: []string{"crawl.example.net", "GOOGLE.com."}, Agents: []string{"smallbot"}},
			{Identity: Identity{"other", "a"}, Domains: []string{"googlebot.com"}, Agents: []string{"googlebot"}, Prefixes: []netip.Prefix{prefix("192.0.2.0/24")}},
		}
		require.NoError(t, v.Replace(same))
		assert.Equal(t, answer{Identity{"other", "a"}, ByName}, ask(v, crawler, bot), "what was looked up still counts")
		assert.Equal(t, answer{Identity{"other", "a"}, ByRange}, ask(v, "192.0.2.1", bot))
		z.set(func() { z.delay = time.Second })
		assert.Equal(t, pending, ask(v, "203.0.113.50", "smallbot"))
		synctest.Wait()
		require.NoError(t, v.Replace(same[1:]))
		assert.Equal(t, pending, ask(v, crawler, bot), "other domains: all is looked up anew")
		time.Sleep(3 * time.Second)
		assert.Equal(t, answer{Identity{"other", "a"}, ByName}, ask(v, crawler, bot))
		assert.Equal(t, 1, v.Stats().Stored, "an answer about the old domains isn't kept")
	})
}

func TestCloseEndsLookups(t *testing.T) {
	in(t, func(t *testing.T) {
		z := goodZone()
		z.delay = time.Hour
		v := byName(t, z, nil)
		for i := range 20 {
			ask(v, fmt.Sprintf("203.0.%d.1", i), bot)
		}
		synctest.Wait()
		require.NoError(t, v.Close(background))
		assert.Equal(t, answer{proof: Unavailable}, ask(v, crawler, bot))
		assert.Zero(t, z.now)
		assert.Zero(t, v.Stats().Stored, "what was broken off says nothing")
	})
}

// A resolver that doesn't mind its context holds up Close for as long as that has.
func TestCloseWaitsNoLongerThanItsContext(t *testing.T) {
	in(t, func(t *testing.T) {
		z := goodZone()
		z.hang = make(chan struct{})
		v := byName(t, z, nil)
		ask(v, crawler, bot)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		assert.ErrorIs(t, v.Close(ctx), context.DeadlineExceeded)
		close(z.hang)
		assert.NoError(t, v.Close(background))
	})
}

// The oldest verdict makes room for a new one, and none is kept twice.
func TestVerdictsAreBounded(t *testing.T) {
	v := verdicts{max: 3}
	addr := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}) }
	for i := range 4 {
		v.put(verdict{addr: addr(i)})
		v.put(verdict{addr: addr(i), domains: 1})
	}
	assert.Nil(t, v.get(addr(0)))
	assert.Equal(t, sources(1), v.get(addr(3)).domains)
	v.drop(addr(2))
	v.drop(addr(7))
	for i := 4; i < 1000; i++ {
		v.put(verdict{addr: addr(i % 200)})
		if i%3 == 0 {
			v.drop(addr((i - 1) % 200))
		}
		assert.LessOrEqual(t, len(v.by), 3)
		assert.NotNil(t, v.get(addr(i%200)))
	}
	assert.Len(t, v.ring, 3)
	for a, i := range v.by {
		assert.Equal(t, a, v.ring[i].addr)
	}
}

func refuse(v *Verifier, addr string) { v.Refused(netip.MustParseAddr(addr), bot) }

// recalled is what is known about an address.
func recalled(v *Verifier, addr string) answer {
	id, proof := v.Recall(netip.MustParseAddr(addr), bot)
	return answer{id, proof}
}

// A crawler whose requests are all refused is known in the end, and stays so.
func TestRefusedCrawlerIsLookedUp(t *testing.T) {
	in(t, func(t *testing.T) {
		v := byName(t, goodZone(), nil)
		for range 24 * 60 {
			refuse(v, crawler)
			synctest.Wait()
			require.Equal(t, verified, recalled(v, crawler))
			time.Sleep(time.Minute)
		}
		assert.LessOrEqual(t, v.Stats().Lookups, uint64(6), "looked up again when it's time only")
		v.Refused(netip.MustParseAddr("203.0.113.7"), browser)
		synctest.Wait()
		assert.LessOrEqual(t, v.Stats().Lookups, uint64(6), "it doesn't say that it's anybody")
	})
}

// A flood of refused requests from a million addresses that claim to be a crawler: few
// look-ups and queries, whatever it costs, and those of admitted requests go on.
func TestRefusedFloodCostsFewLookups(t *testing.T) {
	in(t, func(t *testing.T) {
		z := goodZone()
		v := byName(t, z, nil)
		began := time.Now()
		for i := range million() {
			v.Refused(netip.AddrFrom16([16]byte{0x20, 1, byte(i >> 16), byte(i >> 8), byte(i), 0xb8}), bot)
			if i%1000 == 0 {
				time.Sleep(10 * time.Millisecond)
			}
		}
		const perSecond = DefaultLookupsPerSecond / refusedPart
		most := perSecond + int(time.Since(began).Seconds()+1)*perSecond
		asked := len(z.took())
		assert.LessOrEqual(t, asked, most)
		assert.GreaterOrEqual(t, asked, perSecond)
		assert.Zero(t, v.Stats().Dropped)
		for i := range DefaultLookupsPerSecond {
			assert.Equal(t, pending, ask(v, fmt.Sprintf("203.0.%d.1", i), bot))
		}
	})
}

// One network's refused requests don't use up those look-ups, and no resolver that hangs
// lets them have the whole queue.
func TestRefusedLookupsAreBoundedByNetworkAndQueue(t *testing.T) {
	in(t, func(t *testing.T) {
		v := byName(t, goodZone(), nil)
		for range 21 { // seconds
			for i := range 256 {
				refuse(v, fmt.Sprintf("203.0.113.%d", i))
			}
			synctest.Wait()
			time.Sleep(time.Second)
		}
		assert.Equal(t, uint64(1+2), v.Stats().Lookups)
		refuse(v, crawler)
		synctest.Wait()
		assert.Equal(t, verified, recalled(v, crawler))
	})
	in(t, func(t *testing.T) {
		z := goodZone()
		z.delay = time.Hour
		v := byName(t, z, func(o *VerifierOptions) {
			o.LookupQueue, o.Lookups, o.LookupsPerSecond, o.LookupTimeout = 5, 1, 1000, time.Minute
		})
		for i := range 20 {
			refuse(v, fmt.Sprintf("203.0.%d.1", i))
			synctest.Wait()
		}
		assert.Equal(t, 1+3, v.Stats().Pending, "one is looked up, and half of the queue waits")
		assert.Equal(t, pending, ask(v, "198.51.100.1", bot))
		assert.Equal(t, pending, ask(v, "198.51.101.1", bot))
		assert.Equal(t, answer{proof: Unavailable}, ask(v, "198.51.102.1", bot))
	})
}

// The least budget there is makes a verifier, too.
func TestLeastBudgetOfLookups(t *testing.T) {
	in(t, func(t *testing.T) {
		v := byName(t, goodZone(), func(o *VerifierOptions) { o.LookupsPerSecond = 1 })
		refuse(v, crawler)
		synctest.Wait()
		assert.Equal(t, verified, recalled(v, crawler))
		assert.Equal(t, []Identity{bigImages, bigSearch, smallOnly}, v.Identities())
	})
}
