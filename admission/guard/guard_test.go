package guard

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOptionsErrors(t *testing.T) {
	p := policy()
	p.Version = 0
	_, err := New(Options{Policy: p, Routes: []string{"search", "serach"}, Addresses: -1, IPv6Prefix: 65})
	assert.Equal(t, []string{"IPv6Prefix", "Addresses", "Version", "Routes"}, fields(err))
	_, err = New(Options{})
	assert.Error(t, err)
	_, err = New(Options{Policy: policy(), Routes: []string{"search"}, IPv6Prefix: 31})
	assert.Equal(t, []string{"IPv6Prefix"}, fields(err))
}

// drain admits requests until one is refused, and returns how many were and what
// refused.
func drain(g *Guard, r Request, route string) (int, Decision) {
	for n := 0; ; n++ {
		if d := g.Admit(r, route); !d.OK() {
			return n, d
		}
	}
}

// refused is the decision of the tests' policy about a rate.
func refused(as Identity, why Reason, wait, retry time.Duration) Decision {
	return Decision{Reason: why, Wait: wait, RetryAfter: retry, As: as, Version: 1}
}

func TestAdmitSaysWhichBudgetRefused(t *testing.T) {
	const ms = time.Millisecond
	unknown := Identity{}
	for _, c := range []struct {
		name  string
		spend func(g *Guard)
		r     Request
		route string
		n     int
		want  Decision
	}{
		{"an address", nil, at("192.0.2.1"), "", 10, refused(unknown, RateAddress, 500*ms, time.Second)},
		{"cost of a route", nil, at("192.0.2.1"), "search", 2, refused(unknown, RateAddress, 2500*ms, 3*time.Second)},
		{"a route of its own cost", nil, at("192.0.2.1"), "page", 10, refused(unknown, RateAddress, 500*ms, time.Second)},
		{"all unknown addresses together", func(g *Guard) { drain(g, at("192.0.2.1"), ""); drain(g, at("192.0.2.2"), "") },
			at("192.0.2.3"), "", 0, refused(unknown, RateUnknown, 100*ms, time.Second)},
		{"a class", nil, from(bigSearch), "", 50, refused(bigSearch, RateClass, 25*ms, time.Second)},
		{"a provider, by its other class", func(g *Guard) { drain(g, from(bigImages), "") },
			from(bigSearch), "", 0, refused(bigSearch, RateProvider, 20*ms, time.Second)},
		{"a route, used up by others", func(g *Guard) { drain(g, from(bigSearch), "search") },
			at("192.0.2.1"), "search", 0, refused(unknown, RateRoute, 166666670*time.Nanosecond, time.Second)},
		{"no such route", nil, from(bigSearch), "nope", 0, refused(bigSearch, NoRoute, 0, 0)},
		{"a class that isn't in the policy", nil, from(Identity{"big", "other"}), "", 10, refused(unknown, RateAddress, 500*ms, time.Second)},
		{"a provider without a class", nil, from(Identity{"big", ""}), "", 10, refused(unknown, RateAddress, 500*ms, time.Second)},
		{"known clients have no budget for an address", nil, Request{Identity: bigSearch, Addr: netip.MustParseAddr("192.0.2.1")}, "", 50, refused(bigSearch, RateClass, 25*ms, time.Second)},
		{"no address", nil, Request{}, "", 10, refused(unknown, RateAddress, 500*ms, time.Second)},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGuard(t, policy())
				if c.spend != nil {
					c.spend(g)
				}
				n, d := drain(g, c.r, c.route)
				assert.Equal(t, c.n, n)
				assert.Equal(t, c.want, d)
				// It is refused until the wait is over, and then it isn't.
				if c.want.Wait > 0 {
					time.Sleep(c.want.Wait - 1)
					assert.Equal(t, c.want.Reason, g.Admit(c.r, c.route).Reason)
					time.Sleep(time.Nanosecond)
					assert.Equal(t, Decision{As: c.want.As, Version: 1}, g.Admit(c.r, c.route))
				}
			})
		})
	}
}

func TestGlobalRateRefusesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := policy()
		p.Global = rate(50, 60)
		g := newGuard(t, p)
		drain(g, from(bigImages), "")
		for _, r := range []Request{from(smallOnly), at("192.0.2.1")} {
			d := g.Admit(r, "")
			assert.Equal(t, RateGlobal, d.Reason)
			assert.Equal(t, 20*time.Millisecond, d.Wait)
		}
	})
}

// A refused request debits nothing: not the budgets that had enough either.
func TestRefusalDebitsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, policy())
		drain(g, at("192.0.2.1"), "")
		left := lefts(g)
		for range 1000 {
			assert.False(t, g.Admit(at("192.0.2.1"), "search").OK())
		}
		assert.Equal(t, left, lefts(g))
		n, _ := drain(g, at("192.0.2.2"), "")
		assert.Equal(t, 10, n)
	})
}

// lefts is what the budgets have left, by name.
func lefts(g *Guard) map[string]float64 {
	out := map[string]float64{"global": g.buckets.Left(g.global), "unknown": g.buckets.Left(g.unknown)}
	for name, b := range g.named {
		out[name] = g.buckets.Left(b)
	}
	return out
}

// A client has a whole /64, or more, and may write IPv4 as IPv6.
func TestAddressesOfOneClientShareABudget(t *testing.T) {
	for _, c := range []struct {
		bits        int
		first, same string
		other       string
	}{
		{0, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2:ffff::", "2001:db8:1:3::"},
		{56, "2001:db8:1:2::1", "2001:db8:1:ff::1", "2001:db8:1:100::1"},
		{48, "2001:db8:1::1", "2001:db8:1:ffff::1", "2001:db8:2::1"},
		{0, "192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"},
		{0, "fe80::1%eth0", "fe80::1%eth1", "fe80:0:0:1::1"},
	} {
		g, err := New(Options{Policy: policy(), IPv6Prefix: c.bits})
		require.NoError(t, err)
		drain(g, at(c.first), "")
		assert.Equal(t, RateAddress, g.Admit(at(c.same), "").Reason, c.same)
		assert.True(t, g.Admit(at(c.other), "").OK(), c.other)
	}
}

// A million addresses get no more together than unknown clients do, take bounded
// memory, and cost known clients nothing.
func TestAMillionAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := New(Options{Policy: policy(), Addresses: 1024})
		require.NoError(t, err)
		passed := 0
		for i := range million() {
			addr := netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, byte(i >> 16), byte(i >> 8), byte(i)})
			if g.Admit(Request{Addr: addr}, "").OK() {
				passed++
			}
		}
		assert.Equal(t, 20, passed, "the burst of unknown clients")
		assert.LessOrEqual(t, g.Stats().Addresses, 1024)
		n, d := drain(g, from(bigSearch), "")
		assert.Equal(t, 50, n)
		assert.Equal(t, RateClass, d.Reason)
	})
}

func TestExpiredPolicyKnowsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := policy()
		p.Expires = time.Now().Add(time.Minute)
		g := newGuard(t, p)
		time.Sleep(time.Minute - 1)
		assert.Equal(t, Decision{As: bigSearch, Version: 1}, g.Admit(from(bigSearch), ""))
		assert.False(t, g.Stats().Expired)
		time.Sleep(time.Nanosecond)
		want := Decision{Version: 1, Expired: true}
		assert.Equal(t, want, g.Admit(from(bigSearch), ""))
		n, d := drain(g, from(bigSearch), "")
		assert.Equal(t, 9, n, "the budget of an address")
		assert.Equal(t, RateAddress, d.Reason)
		assert.True(t, g.Stats().Expired)
		assert.ErrorContains(t, g.Replace(p), "has expired")
		p.Version, p.Expires = 2, time.Now().Add(time.Hour)
		require.NoError(t, g.Replace(p))
		time.Sleep(time.Second)
		n, d = drain(g, from(bigSearch), "")
		assert.Equal(t, 50, n)
		assert.Equal(t, Decision{Reason: RateClass, Wait: 25 * time.Millisecond, RetryAfter: time.Second, As: bigSearch, Version: 2}, d)
	})
}

func TestReplaceRefusesWhatIsNotNewer(t *testing.T) {
	p := policy()
	p.Version = 5
	g := newGuard(t, p)
	same := policy()
	same.Version = 5
	assert.NoError(t, g.Replace(same), "the same again changes nothing")
	same.Operations++
	assert.ErrorIs(t, g.Replace(same), ErrOldPolicy)
	same.Version = 4
	assert.ErrorIs(t, g.Replace(same), ErrOldPolicy)
	same.Version, same.ContextAgeMS = 6, 0
	assert.Equal(t, []string{"ContextAgeMS"}, fields(g.Replace(same)))
	assert.Equal(t, p, g.Policy())
	assert.Equal(t, uint64(5), g.Stats().Version)
	same.ContextAgeMS = 5
	require.NoError(t, g.Replace(same))
	assert.Equal(t, same, g.Policy())
}

func TestReplaceNeedsTheProgramsRoutes(t *testing.T) {
	names := []string{"search"}
	g, err := New(Options{Policy: policy(), Routes: names})
	require.NoError(t, err)
	names[0] = "page" // the guard has its own copy
	p := policy()
	p.Version, p.Routes = 2, p.Routes[1:]
	assert.Equal(t, []string{"Routes"}, fields(g.Replace(p)))
	assert.True(t, g.Admit(from(bigSearch), "search").OK())
}

// The caller's policy and the guard's are apart.
func TestPolicyIsCopied(t *testing.T) {
	p := policy()
	g := newGuard(t, p)
	p.Providers[0].Classes[0].Name, p.Routes[0].Name = "x", "x"
	got := g.Policy()
	got.Providers[0].Classes[0].Name, got.Routes[0].Name = "y", "y"
	assert.Equal(t, policy(), g.Policy())
}

func TestReplaceKeepsWhatWasUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, policy())
		for range 7 {
			g.Admit(from(bigSearch), "search") // 35
		}
		g.Admit(at("192.0.2.1"), "search") // 5
		p := policy()
		p.Version = 2
		p.Global, p.Providers[0].Rate = rate(200, 200), rate(60, 70)
		p.Providers[0].Classes[0].Rate = rate(20, 20)
		p.Providers = append(p.Providers, Provider{Name: "new", Rate: rate(70, 70), Classes: []Class{{Name: "a"}}})
		p.Routes = append(p.Routes[:1], Route{Name: "more", Rate: rate(3, 3), Unknown: rate(2, 3)})
		p.Address = rate(1, 6)
		require.NoError(t, g.Replace(p))
		assert.Equal(t, map[string]float64{
			"global": 60, "unknown": 15, "provider/big": 25, "provider/small": 20, "provider/new": 70,
			"class/big/search": 15, "class/small/only": 20, "route/search": 0, "route/more": 3,
			"unknown/more": 3,
		}, round(lefts(g)))
		n, _ := drain(g, at("192.0.2.1"), "")
		assert.Equal(t, 5, n)
		n, _ = drain(g, at("192.0.2.2"), "")
		assert.Equal(t, 6, n)
	})
}

// round takes away what making ratios of nanoseconds added.
func round(m map[string]float64) map[string]float64 {
	for k, v := range m {
		m[k] = float64(int(v*1e4+0.5)) / 1e4
	}
	return m
}

// A name that is left out and comes back has no more than if it had stayed, and
// isn't kept for longer than that matters.
func TestNamesThatComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, policy())
		version := uint64(1)
		replace := func(p Policy) {
			version++
			p.Version = version
			require.NoError(t, g.Replace(p))
		}
		without := policy()
		without.Providers, without.Routes = nil, nil
		drain(g, from(bigSearch), "") // 50
		replace(without)
		assert.Len(t, g.named, 2, "big and big/search")
		assert.Equal(t, RateAddress, func() Reason { _, d := drain(g, from(bigSearch), ""); return d.Reason }())
		time.Sleep(100 * time.Millisecond)
		replace(policy())
		n, d := drain(g, from(bigSearch), "")
		assert.Equal(t, 4, n, "40 a second for 0.1 s")
		assert.Equal(t, RateClass, d.Reason)
		replace(without)
		time.Sleep(time.Hour)
		replace(without)
		assert.Empty(t, g.named)
		replace(policy())
		n, _ = drain(g, from(bigSearch), "")
		assert.Equal(t, 50, n)
	})
}

func TestReasons(t *testing.T) {
	seen := map[string]bool{}
	for r := range lastReason {
		assert.NotEmpty(t, r.String())
		assert.False(t, seen[r.String()])
		seen[r.String()] = true
	}
	assert.Equal(t, "rate-address work-local no-route unknown", fmt.Sprint(RateAddress, " ", WorkLocal, " ", NoRoute, " ", lastReason))
	assert.True(t, RateRoute.Rate() && RateGlobal.Rate())
	assert.False(t, Admitted.Rate() || WorkGlobal.Rate() || ContextAge.Rate())
	assert.Equal(t, "unknown big/search", fmt.Sprint(Identity{}, " ", bigSearch))
	for p := range lastProof {
		assert.NotEmpty(t, p.String())
	}
	assert.Equal(t, "unknown", lastProof.String())
}

func TestRetryAfterIsWholeSecondsAndBounded(t *testing.T) {
	for wait, want := range map[time.Duration]time.Duration{
		1: time.Second, time.Second: time.Second, time.Second + 1: 2 * time.Second, 365 * 24 * time.Hour: time.Hour,
	} {
		var d Decision
		d.refuse(RateAddress, wait)
		assert.Equal(t, want, d.RetryAfter)
	}
	var d Decision
	assert.NoError(t, d.Err("x"))
	d.refuse(WorkLocal, 0)
	err := d.Err("search")
	assert.Equal(t, &RefusedError{"search", WorkLocal, time.Second}, err)
	assert.ErrorIs(t, err, ErrRefused)
	assert.EqualError(t, err, "guard: search refused: work-local")
	assert.EqualError(t, d.Err(""), "guard: refused: work-local")
}

func TestStatsCountDecisions(t *testing.T) {
	g := newGuard(t, policy())
	drain(g, at("192.0.2.1"), "")
	g.Admit(Request{}, "nope")
	s := g.Stats()
	assert.Equal(t, map[Reason]uint64{Admitted: 10, RateAddress: 1, NoRoute: 1}, s.Decisions)
	assert.Equal(t, 1, s.Addresses)
}
