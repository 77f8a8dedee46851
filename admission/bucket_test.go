package admission

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

func newBucket(t testing.TB, s *Buckets, r Rate, parent *Bucket) *Bucket {
	t.Helper()
	b, err := s.Bucket(r, parent)
	require.NoError(t, err)
	return b
}

func TestBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Buckets
		b := newBucket(t, &s, Rate{PerSecond: 10}, nil)
		take := func(cost int, wantOK bool, want time.Duration) {
			t.Helper()
			ok, wait := s.Take(cost, b, nil)
			assert.Equal(t, wantOK, ok)
			assert.Equal(t, want, wait)
		}
		take(20, true, 0) // two seconds of the rate
		take(0, false, 100*time.Millisecond)
		take(5, false, 500*time.Millisecond)
		take(21, false, 2*time.Second) // never
		time.Sleep(500 * time.Millisecond)
		take(5, true, 0)
		take(1, false, 100*time.Millisecond)
		time.Sleep(time.Hour)
		take(21, false, 2*time.Second)
		take(20, true, 0)
	})
}

func TestBucketErrors(t *testing.T) {
	var s, other Buckets
	parent := newBucket(t, &s, Rate{PerSecond: 10, Burst: 15}, nil)
	for _, c := range []struct {
		r      Rate
		parent *Bucket
		field  string
	}{
		{Rate{}, nil, "PerSecond"},
		{Rate{PerSecond: -1}, nil, "PerSecond"},
		{Rate{PerSecond: 2e6}, nil, "PerSecond"},
		{Rate{PerSecond: 1, Burst: 0.5}, nil, "Burst"},
		{Rate{PerSecond: 1e-6, Burst: 1e6}, nil, "Burst"},
		{Rate{PerSecond: 11, Burst: 1}, parent, "PerSecond"},
		{Rate{PerSecond: 10}, parent, "Burst"},
		{Rate{PerSecond: 1}, newBucket(t, &other, Rate{PerSecond: 9}, nil), "parent"},
	} {
		_, err := s.Bucket(c.r, c.parent)
		var bad *ConfigError
		require.ErrorAs(t, err, &bad, "%+v", c.r)
		assert.Equal(t, c.field, bad.Field)
	}
	_, err := s.Addresses(Rate{PerSecond: 1}, -1, nil)
	assert.Error(t, err)
	ok, _ := other.Take(1, parent)
	assert.False(t, ok, "a bucket of another set")
}

// By no time has more passed than burst + rate × T; each debit happens
// on all levels or on none.
func TestCompoundProperties(t *testing.T) {
	t.Parallel()
	for seed := range 50 {
		rng := rand.New(rand.NewPCG(uint64(seed), 5))
		var s Buckets
		root := newBucket(t, &s, Rate{PerSecond: 20, Burst: 30}, nil)
		list := []*Bucket{root,
			newBucket(t, &s, Rate{PerSecond: 1 + 19*rng.Float64(), Burst: 1 + 29*rng.Float64()}, root),
			newBucket(t, &s, Rate{PerSecond: 1 + 19*rng.Float64(), Burst: 1 + 29*rng.Float64()}, nil)}
		passed := make([]float64, len(list))
		now, start := int64(1e9), int64(1e9)
		for range 2000 {
			now += int64(rng.ExpFloat64() * 5e7)
			cost := 1 + rng.IntN(4)
			i, j := rng.IntN(len(list)), rng.IntN(len(list))
			before := []int64{list[0].filled, list[1].filled, list[2].filled}
			ok, _, wait := s.take(now, cost, list[i], list[j])
			for k, b := range list {
				in := k == i || k == j || k == 0 && (i == 1 || j == 1)
				if !ok || !in {
					require.Equal(t, before[k], b.filled)
					continue
				}
				require.Equal(t, max(before[k], now)+int64(cost)*b.interval, b.filled)
				passed[k] += float64(cost)
				require.LessOrEqual(t, passed[k], b.burst()+float64(now-start)/float64(b.interval)+1e-6)
			}
			if !ok && wait > 0 && cost <= int(min(list[i].burst(), list[j].burst(), root.burst())) {
				again := []*Bucket{list[i], list[j]}
				for _, b := range again {
					require.Zero(t, b.wait(now+int64(wait), int64(cost)), "the wait is long enough")
				}
			}
		}
	}
}

func TestNetwork(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::", "fe80::1%eth0": "fe80::",
	} {
		assert.Equal(t, want, network(netip.MustParseAddr(in)).String())
	}
	assert.Equal(t, netip.Addr{}, network(netip.Addr{}))
}

// A flood of addresses neither grows the table nor resets anyone's bucket.
func TestAddressesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Buckets
		a, err := s.Addresses(Rate{PerSecond: 1, Burst: 2}, 16, nil)
		require.NoError(t, err)
		at := func(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("2001:db8:0:%x::1", i)) }
		passed := 0
		for i := range 1000 {
			if ok, _ := a.Take(at(i), 2); ok {
				passed++
			}
		}
		assert.Equal(t, 17, passed, "one bucket each, and a shared one")
		for i := range 16 {
			ok, wait := a.Take(at(i), 1)
			assert.False(t, ok)
			assert.Equal(t, time.Second, wait)
		}
		time.Sleep(2 * time.Second)
		ok, _ := a.Take(at(5000), 2)
		assert.True(t, ok)
		assert.Len(t, a.byAddr, 16)
		assert.Len(t, a.slots, 16)
		parent := newBucket(t, &s, Rate{PerSecond: 1, Burst: 1}, nil)
		s.Take(1, parent)
		ok, _ = a.Take(at(6000), 1, parent)
		assert.False(t, ok)
		ok, _ = a.Take(at(6000), 2)
		assert.True(t, ok, "the refused one debited nothing")
	})
}

func TestBucketAllocations(t *testing.T) {
	s, list := compound(t)
	a, err := s.Addresses(Rate{PerSecond: 1}, 2, nil)
	require.NoError(t, err)
	addr := netip.MustParseAddr("2001:db8::1")
	testnet.Allocs(t, 0, func() { s.Take(1, list[0], list[1], list[2], list[3]) })
	testnet.Allocs(t, 0, func() { a.Take(addr, 1, list[0]) })
}

func compound(t testing.TB) (*Buckets, [4]*Bucket) {
	s := new(Buckets)
	var list [4]*Bucket
	for i := range list {
		list[i] = newBucket(t, s, Rate{PerSecond: 1e6, Burst: 1e6}, nil)
	}
	return s, list
}

// Four buckets at once, all of which have enough.
func BenchmarkCompound(b *testing.B) {
	s, list := compound(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%500_000 == 0 {
			for _, bucket := range list {
				bucket.filled = 0 // or nearly all would be refused
			}
		}
		if ok, _ := s.Take(1, list[0], list[1], list[2], list[3]); !ok {
			b.Fatal("refused")
		}
	}
}

// Without a burst each rate that may be is a rate: two seconds of it, or as much as a
// burst may have.
func TestDefaultBurst(t *testing.T) {
	for perSecond, burst := range map[float64]int{0.1: 1, 10: 20, 500_000: 1_000_000, 500_001: 1_000_000, 1e6: 1_000_000} {
		r := Rate{PerSecond: perSecond}
		require.NoError(t, r.Check(), "%g", perSecond)
		require.True(t, r.Fits(burst), "%g", perSecond)
		require.False(t, r.Fits(burst+1), "%g", perSecond)
	}
}
