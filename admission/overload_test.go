package admission

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// newGuard returns a guard whose lag is what the test tells.
func newGuard(t testing.TB, options OverloadOptions) *Overload {
	t.Helper()
	o, err := newOverload(options, func() ([]uint64, []float64) { return nil, nil })
	require.NoError(t, err)
	t.Cleanup(o.Close)
	return o
}

// fill enters n times, which must succeed.
func fill(t testing.TB, o *Overload, a Arrival, n int) (out []Token) {
	t.Helper()
	for i := range n {
		token, d := o.Enter(a)
		require.Equal(t, Decision{}, d, "number %d", i)
		out = append(out, token)
	}
	return out
}

func enterAll(o *Overload, a Arrival) (n int, last Reason) {
	for {
		_, d := o.Enter(a)
		if !d.OK() {
			return n, d.Reason
		}
		n++
	}
}

func refusal(o *Overload, a Arrival) Reason {
	token, d := o.Enter(a)
	token.Leave()
	return d.Reason
}

func tenantOf(name string) Arrival { return Arrival{From: FromTenant, Tenant: name} }

func TestOverloadDefaults(t *testing.T) {
	g, err := OverloadOptions{}.resolve()
	require.NoError(t, err)
	assert.Equal(t, guarding{4096, 8192, 16384, 1024, 32, 10 * time.Millisecond, 50 * time.Millisecond, 250 * time.Millisecond}, g)
	assert.Equal(t, guarding{DefaultKnee, DefaultOverloadLimit, DefaultOperatorLimit, DefaultTenantFloor, DefaultProbeReserve,
		DefaultLagKnee, DefaultLagLimit, DefaultLagWindow}, g)
	g, err = OverloadOptions{Knee: 100, LagKnee: 2 * time.Millisecond}.resolve()
	require.NoError(t, err)
	assert.Equal(t, guarding{100, 200, 400, 25, 32, 2 * time.Millisecond, 10 * time.Millisecond, DefaultLagWindow}, g)
	g, err = OverloadOptions{Limit: 100, LagLimit: 100 * time.Millisecond}.resolve()
	require.NoError(t, err)
	assert.Equal(t, guarding{50, 100, 200, 12, 32, 20 * time.Millisecond, 100 * time.Millisecond, DefaultLagWindow}, g)
	g, err = OverloadOptions{LagKnee: -1}.resolve()
	require.NoError(t, err)
	assert.Equal(t, guarding{4096, 8192, 16384, 1024, 32, -1, 0, 0}, g)
}

func TestOverloadContradictions(t *testing.T) {
	for _, c := range []struct {
		o    OverloadOptions
		want []string
	}{
		{OverloadOptions{Knee: -1, Limit: -1, OperatorLimit: -1, TenantFloor: -1, ProbeReserve: -1, LagLimit: -1, LagWindow: -1},
			[]string{"Knee", "Limit", "OperatorLimit", "TenantFloor", "ProbeReserve", "LagLimit", "LagWindow"}},
		{OverloadOptions{Knee: 2 << 20, Limit: 2 << 20, OperatorLimit: 4 << 20, TenantFloor: 2 << 20, ProbeReserve: 2000, LagWindow: time.Minute},
			[]string{"Knee", "Limit", "OperatorLimit", "TenantFloor", "ProbeReserve", "LagWindow"}},
		{OverloadOptions{Knee: 100, Limit: 100, LagKnee: 50 * time.Millisecond, LagLimit: 50 * time.Millisecond}, []string{"Knee", "LagKnee"}},
		{OverloadOptions{Knee: 100, Limit: 50}, []string{"Knee"}},
		{OverloadOptions{Limit: 1}, []string{"Limit"}},
		{OverloadOptions{OperatorLimit: 8191, TenantFloor: 8193}, []string{"OperatorLimit", "TenantFloor"}},
		{OverloadOptions{LagKnee: -1, LagLimit: time.Second, LagWindow: time.Second}, []string{"LagLimit", "LagWindow"}},
		{OverloadOptions{LagKnee: time.Hour}, []string{"LagKnee"}},
		{OverloadOptions{LagLimit: time.Hour}, []string{"LagLimit"}},
		{OverloadOptions{LagWindow: time.Millisecond}, []string{"LagWindow"}},
	} {
		o, err := NewOverload(c.o)
		assert.Nil(t, o)
		assert.Equal(t, c.want, fields(t, err), "%+v", c.o)
	}
	_, err := NewOverload(OverloadOptions{Knee: 9000, Limit: 8192})
	assert.EqualError(t, err, "admission: Knee = 9000: must be below Limit (8192), or tenants above their share would never be shed before the others; lower it or raise Limit")
}

// The numbers of requests in flight at which each sender is shed.
func TestKneeAndLimits(t *testing.T) {
	o := newGuard(t, OverloadOptions{})
	sites := make([]Arrival, 40)
	for i := range sites {
		sites[i] = tenantOf(fmt.Sprint(i))
	}
	fill(t, o, sites[0], 1024) // far above its share, but below the knee
	unknown := fill(t, o, Arrival{}, 1)
	fill(t, o, sites[1], 1100)
	for _, site := range sites[8:11] {
		fill(t, o, site, 657)
	}
	assert.Equal(t, Busy, o.Stats().Level)
	assert.Equal(t, UnknownHost, refusal(o, Arrival{}))
	assert.Equal(t, UnknownHost, refusal(o, Arrival{From: 77}))
	assert.Equal(t, ShareExceeded, refusal(o, sites[0]))
	assert.Equal(t, ShareExceeded, refusal(o, sites[1]))
	unknown[0].Leave()
	fill(t, o, Arrival{}, 1) // as many as the knee
	for _, site := range sites[2:6] {
		fill(t, o, site, 1023)
	}
	fill(t, o, sites[6], 4)
	assert.Equal(t, 8192, o.Stats().InFlight)
	assert.Equal(t, 10, o.Stats().Tenants)
	assert.Equal(t, TenantsShed, refusal(o, sites[7]))
	assert.Equal(t, UnknownHost, refusal(o, Arrival{}))
	fill(t, o, Arrival{From: FromOperator}, 8192)
	assert.Equal(t, OperatorShed, refusal(o, Arrival{From: FromOperator}))
	n, why := enterAll(o, Arrival{From: FromProbe})
	assert.Equal(t, 32, n)
	assert.Equal(t, ProbesFull, why)
	s := o.Stats()
	s.Refused = nil
	assert.Equal(t, OverloadStats{InFlight: 16384 + 32, Tenants: 10, Probes: 32, Level: Shedding, Open: 1, Admitted: 16384 + 32 + 1}, s)
}

// Probes above their reserve are welcome as long as there is no overload.
func TestProbesBelowKnee(t *testing.T) {
	o := newGuard(t, OverloadOptions{Knee: 100, ProbeReserve: 2})
	fill(t, o, Arrival{From: FromProbe}, 100)
	assert.Equal(t, ProbesFull, refusal(o, Arrival{From: FromProbe}))
}

func TestSharesFollowWeights(t *testing.T) {
	o := newGuard(t, OverloadOptions{Knee: 100, Limit: 200, TenantFloor: 1})
	a := Arrival{From: FromTenant, Tenant: "a", Weight: 3}
	b := Arrival{From: FromTenant, Tenant: "b"}
	fill(t, o, b, 1)
	fill(t, o, a, 75)
	fill(t, o, Arrival{From: FromOperator}, 24)
	assert.Equal(t, ShareExceeded, refusal(o, a))
	n, why := enterAll(o, b)
	assert.Equal(t, ShareExceeded, why)
	// As more is in flight, there is less to share: 25 at first, 20 of them at 120.
	assert.Equal(t, 20, n+1)
	assert.Equal(t, 119, o.Stats().InFlight)
}

// A tenant alone has all of the knee, one that has nothing in flight is always
// let in before the limit.
func TestShareOfOne(t *testing.T) {
	o := newGuard(t, OverloadOptions{Knee: 100, Limit: 200, TenantFloor: 1})
	n, why := enterAll(o, tenantOf("a"))
	assert.Equal(t, 100, n)
	assert.Equal(t, ShareExceeded, why)
	for i := range 100 {
		fill(t, o, tenantOf(fmt.Sprint(i)), 1)
	}
	assert.Equal(t, TenantsShed, refusal(o, tenantOf("b")))
}

func TestLagSheds(t *testing.T) {
	o := newGuard(t, OverloadOptions{Knee: 1000, TenantFloor: 10})
	a, operator, probe := tenantOf("a"), Arrival{From: FromOperator}, Arrival{From: FromProbe}
	tell := func(lag time.Duration) {
		o.tellLag(lag)
		o.tellLag(lag)
	}
	verdict := func() string {
		return fmt.Sprint(refusal(o, Arrival{}), " ", refusal(o, a), " ", refusal(o, operator), " ", refusal(o, probe))
	}
	assert.Equal(t, "admitted admitted admitted admitted", verdict())
	tell(11 * time.Millisecond)
	assert.Equal(t, "unknown-host admitted admitted admitted", verdict())
	n, why := enterAll(o, a)
	assert.Equal(t, 716*1000/1024, n)
	assert.Equal(t, ShareExceeded, why)
	tell(51 * time.Millisecond)
	assert.Equal(t, "unknown-host tenants-shed admitted admitted", verdict())
	assert.Equal(t, TenantsShed, refusal(o, tenantOf("b")))
	tell(0)
	assert.Equal(t, Recovering, o.Stats().Level)
	passed := 0
	for range 1024 {
		switch why := refusal(o, tenantOf("b")); why {
		case Admitted:
			passed++
		default:
			require.Equal(t, PartlyShed, why)
		}
	}
	assert.InDelta(t, 256, passed, 2, "a quarter")
	for range 10 {
		tell(0)
	}
	assert.Equal(t, "admitted admitted admitted admitted", verdict())
}

// While part of the clients is let in, it is the same ones for a while, and each
// has its turn.
func TestClientsMeetTheSameFate(t *testing.T) {
	o := newGuard(t, OverloadOptions{})
	o.lag = lagState{level: Recovering, open: openFirst}
	admitted := func() (out [400]bool) {
		for i := range out {
			a := tenantOf("a")
			a.Client = rand.New(rand.NewPCG(uint64(i), 9)).Uint64() | 1
			out[i] = refusal(o, a) == Admitted
		}
		return out
	}
	first := admitted()
	assert.Equal(t, first, admitted())
	var turns [400]bool
	for range 60 {
		n := 0
		for i, ok := range admitted() {
			turns[i] = turns[i] || ok
			if ok {
				n++
			}
		}
		assert.InDelta(t, 100, n, 60)
		o.windows += 32
	}
	for i, ok := range turns {
		assert.True(t, ok, "client %d never had its turn", i)
	}
}

func TestTokenIsReleasedOnce(t *testing.T) {
	o := newGuard(t, OverloadOptions{})
	Token{}.Leave()
	a := fill(t, o, tenantOf("a"), 2)
	b := a[0]
	a[0].Leave()
	a[0].Leave()
	b.Leave()
	assert.Equal(t, 1, o.Stats().InFlight)
	c := fill(t, o, Arrival{From: FromProbe}, 1)[0] // in the slot that a[0] had
	require.Equal(t, b.slot, c.slot)
	b.Leave()
	assert.Equal(t, OverloadStats{InFlight: 2, Tenants: 1, Probes: 1, Open: 1, Admitted: 3, Refused: map[Reason]uint64{}}, o.Stats())
	a[1].Leave()
	o.Close()
	c.Leave()
	nothingLeft(t, o)
}

func nothingLeft(t *testing.T, o *Overload) {
	t.Helper()
	assert.Zero(t, o.inFlight)
	assert.Zero(t, o.probes)
	assert.Zero(t, o.tenants.weight)
	assert.Len(t, o.tenants.byName, o.tenants.idle)
	for _, s := range o.tenants.byName {
		assert.Zero(t, s.inFlight)
	}
}

// However many tenants come and go, only those in flight and a few more are
// remembered.
func TestTenantsAreBounded(t *testing.T) {
	o := newGuard(t, OverloadOptions{})
	var tokens []Token
	for i := range 3000 {
		tokens = append(tokens, fill(t, o, tenantOf(fmt.Sprint(i)), 1)...)
	}
	for _, token := range tokens {
		token.Leave()
	}
	for i := range 20000 {
		fill(t, o, tenantOf(fmt.Sprint("x", i)), 1)[0].Leave()
	}
	assert.Len(t, o.tenants.byName, keepShares)
	assert.LessOrEqual(t, len(o.tokens.list), 3000)
	nothingLeft(t, o)
	assert.Equal(t, OverloadStats{Open: 1, Admitted: 23000, Refused: map[Reason]uint64{}}, o.Stats())
}

// In any state: who is shed while someone less important would be let in? Nobody.
// The counts are compared with plain ones.
func TestShedOrder(t *testing.T) {
	t.Parallel()
	for seed := range 60 {
		rng := rand.New(rand.NewPCG(uint64(seed), 6))
		knee := 4 + rng.IntN(40)
		limit := knee + 1 + rng.IntN(40)
		o := newGuard(t, OverloadOptions{Knee: knee, Limit: limit, OperatorLimit: limit + rng.IntN(40),
			TenantFloor: 1 + rng.IntN(min(limit, 5)), ProbeReserve: 1 + rng.IntN(3)})
		type stay struct {
			a     Arrival
			token Token
		}
		var inside []stay
		for range 400 {
			if rng.IntN(20) == 0 {
				o.tellLag(time.Duration(rng.IntN(80)) * time.Millisecond)
				o.tellLag(time.Duration(rng.IntN(80)) * time.Millisecond)
			}
			if rng.IntN(3) == 0 && len(inside) > 0 {
				i := rng.IntN(len(inside))
				inside[i].token.Leave()
				inside = append(inside[:i], inside[i+1:]...)
			} else {
				a := Arrival{From: Sender(rng.IntN(4)), Tenant: fmt.Sprint(rng.IntN(6)), Weight: rng.IntN(3), Client: rng.Uint64()}
				if token, d := o.Enter(a); d.OK() {
					inside = append(inside, stay{a, token})
				}
			}
			tenants, probes := map[string]int{}, 0
			for _, s := range inside {
				switch s.a.From {
				case FromTenant:
					tenants[s.a.Tenant]++
				case FromProbe:
					probes++
				}
			}
			stats := o.Stats()
			require.Equal(t, []int{len(inside), len(tenants), probes}, []int{stats.InFlight, stats.Tenants, stats.Probes})
			require.LessOrEqual(t, stats.InFlight, int(o.config.operator)+int(o.config.probes))
			orderHolds(t, o, tenants, rng.Uint64()|1)
		}
		for _, s := range inside {
			s.token.Leave()
		}
		nothingLeft(t, o)
	}
}

func orderHolds(t *testing.T, o *Overload, tenants map[string]int, client uint64) {
	t.Helper()
	ask := func(a Arrival) Reason {
		a.Client = client
		return o.judge(&a)
	}
	unknown, operator, probe := ask(Arrival{}), ask(Arrival{From: FromOperator}), ask(Arrival{From: FromProbe})
	calm := o.lag.level == Calm && o.inFlight < o.config.knee
	require.Equal(t, calm, unknown == Admitted)
	require.Equal(t, o.probes < o.config.probes || calm, probe == Admitted)
	for i := range 7 {
		name := fmt.Sprint(i)
		fate := ask(tenantOf(name))
		if calm {
			require.Equal(t, Admitted, fate, "below the knee nobody is shed")
			continue
		}
		if fate != Admitted {
			require.NotEqual(t, Admitted, unknown, "a tenant is shed but an unknown host is not")
		}
		if operator != Admitted {
			require.NotEqual(t, Admitted, fate, "the operator is shed but a tenant is not")
		}
		// One that has more, at the same weight, doesn't fare better.
		for j := range 7 {
			if other := fmt.Sprint(j); fate != Admitted && tenants[other] > tenants[name] && o.weightIn(other) == o.weightIn(name) {
				require.NotEqual(t, Admitted, ask(tenantOf(other)), "%v with %d is shed, but %v with %d is not",
					name, tenants[name], other, tenants[other])
			}
		}
		if fate == ShareExceeded {
			require.GreaterOrEqual(t, tenants[name], int(o.config.floor))
		}
	}
}

func (o *Overload) weightIn(name string) int64 {
	if s := o.tenants.byName[name]; s != nil {
		return s.weight
	}
	return 0
}

func TestOverloadConcurrently(t *testing.T) {
	o := newGuard(t, OverloadOptions{Knee: 8, Limit: 16, TenantFloor: 1})
	var all sync.WaitGroup
	for g := range 16 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 7))
			for i := range 500 {
				token, d := o.Enter(Arrival{From: Sender(rng.IntN(4)), Tenant: fmt.Sprint(rng.IntN(5))})
				if i%50 == 0 {
					o.tellLag(time.Duration(rng.IntN(80)) * time.Millisecond)
					o.Stats()
				}
				if d.OK() {
					go token.Leave()
				}
				token.Leave()
			}
		})
	}
	all.Wait()
	nothingLeft(t, o)
}

func TestOverloadAllocations(t *testing.T) {
	o := newGuard(t, OverloadOptions{Knee: 20, TenantFloor: 2})
	names, i := []string{"a", "b", "c"}, 0
	for _, a := range []Arrival{{From: FromUnknown}, {From: FromOperator}, {From: FromProbe}, {From: FromTenant}} {
		testnet.Allocs(t, 0, func() {
			i++
			a.Tenant = names[i%3]
			token, _ := o.Enter(a)
			token.Leave()
		}, a.From)
	}
	fill(t, o, tenantOf("a"), 20)
	testnet.Allocs(t, 0, func() { o.Enter(tenantOf("a")) }, "refusal")
}

// Once it's closed nobody would see that the lag is over: it sheds nobody for it.
func TestClosedGuardShedsNobodyForLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, err := newOverload(OverloadOptions{}, func() ([]uint64, []float64) { return nil, nil })
		require.NoError(t, err)
		for range 2 {
			o.tellLag(time.Second)
		}
		_, d := o.Enter(tenantOf("a"))
		require.Equal(t, TenantsShed, d.Reason)
		o.Close()
		token, d := o.Enter(tenantOf("a"))
		require.True(t, d.OK(), "%v", d)
		token.Leave()
		require.Equal(t, Calm, o.Stats().Level)
	})
}
