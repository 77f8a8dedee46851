package admission

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRerateKeepsWhatIsLeft(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to Rate
		used     int
		left     float64
	}{
		{"higher", Rate{10, 20}, Rate{20, 40}, 5, 15},
		{"lower", Rate{10, 20}, Rate{1, 5}, 5, 5},
		{"lower, and less is left", Rate{10, 20}, Rate{1, 5}, 18, 2},
		{"empty stays empty and isn't in debt", Rate{10, 20}, Rate{1, 1}, 20, 0},
		{"full isn't filled up", Rate{10, 20}, Rate{10, 100}, 0, 20},
		{"same", Rate{10, 20}, Rate{10, 20}, 7, 13},
		{"slow", Rate{1e6, 1e6}, Rate{1e-3, 1e6}, 1, 999_999},
		{"fast", Rate{1e-3, 1e6}, Rate{1e6, 1e6}, 1, 999_999},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s Buckets
				b := newBucket(t, &s, c.from, nil)
				if c.used > 0 {
					ok, _ := s.Take(c.used, b)
					require.True(t, ok)
				}
				require.NoError(t, s.Rerate(Change{Bucket: b, Rate: c.to}))
				assert.InDelta(t, c.left, s.Left(b), 1e-6)
				time.Sleep(time.Millisecond)
				assert.InDelta(t, min(c.to.Burst, c.left+c.to.PerSecond/1000), s.Left(b), 1e-6)
			})
		})
	}
}

func TestRerateErrorsChangeNothing(t *testing.T) {
	var s, other Buckets
	parent := newBucket(t, &s, Rate{10, 20}, nil)
	child := newBucket(t, &s, Rate{10, 20}, parent)
	table, err := s.Addresses(Rate{1, 1}, 4, child)
	require.NoError(t, err)
	before := []Bucket{*parent, *child, table.sample}
	for name, changes := range map[string][]Change{
		"PerSecond": {{Bucket: parent, Rate: Rate{PerSecond: 5, Burst: 20}}, {Bucket: child, Rate: Rate{PerSecond: 6, Burst: 20}}},
		"Burst":     {{Bucket: child, Rate: Rate{PerSecond: 1, Burst: 21}}},
		"Bucket":    {{Bucket: newBucket(t, &other, Rate{1, 1}, nil), Rate: Rate{1, 1}}},
	} {
		var bad *ConfigError
		require.ErrorAs(t, s.Rerate(changes...), &bad)
		assert.Equal(t, name, bad.Field)
	}
	assert.Error(t, s.Rerate(Change{Rate: Rate{1, 1}}))
	assert.Error(t, s.Rerate(Change{Bucket: child, Rate: Rate{}}))
	assert.Error(t, s.Rerate(Change{Bucket: child, Rate: Rate{1, 1}}, Change{Bucket: child, Rate: Rate{2, 2}}))
	assert.Error(t, s.Rerate(Change{Addresses: table, Rate: Rate{11, 1}}))
	assert.Equal(t, before, []Bucket{*parent, *child, table.sample})
	// Together they may go where each alone could not.
	assert.NoError(t, s.Rerate(Change{Bucket: child, Rate: Rate{50, 50}}, Change{Bucket: parent, Rate: Rate{60, 60}}, Change{Addresses: table, Rate: Rate{40, 40}}))
}

func TestRerateReachesAllAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Buckets
		a, err := s.Addresses(Rate{1, 10}, 1, nil)
		require.NoError(t, err)
		seen, shared := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
		a.Take(seen, 8)
		a.Take(shared, 9)
		require.NoError(t, s.Rerate(Change{Addresses: a, Rate: Rate{PerSecond: 5, Burst: 5}}))
		ok, refused, wait := a.Debit(seen, 3)
		assert.False(t, ok)
		assert.Nil(t, refused)
		assert.Equal(t, 200*time.Millisecond, wait)
		ok, _, wait = a.Debit(shared, 2)
		assert.False(t, ok)
		assert.Equal(t, 200*time.Millisecond, wait)
		time.Sleep(time.Hour)
		_, _, wait = a.Debit(shared, 6)
		assert.Equal(t, time.Second, wait, "a new address has the new burst")
		assert.Equal(t, 1, a.Len())
	})
}

func TestDebitSaysWhichBucketRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Buckets
		root := newBucket(t, &s, Rate{10, 10}, nil)
		fast := newBucket(t, &s, Rate{10, 5}, root)
		slow := newBucket(t, &s, Rate{1, 5}, nil)
		s.Take(5, fast, slow)
		ok, refused, wait := s.Debit(1, fast, slow)
		assert.False(t, ok)
		assert.Same(t, slow, refused, "the one that takes longest")
		assert.Equal(t, time.Second, wait)
		s.Take(5, root)
		ok, refused, _ = s.Debit(2, fast)
		assert.False(t, ok)
		assert.True(t, refused == root || refused == fast)
		assert.True(t, s.Full(newBucket(t, &s, Rate{1, 1}, nil)))
		assert.False(t, s.Full(root))
		a, err := s.Addresses(Rate{1, 5}, 0, root)
		require.NoError(t, err)
		_, refused, _ = a.Debit(netip.Addr{}, 1)
		assert.Same(t, root, refused)
	})
}

func TestRateChecks(t *testing.T) {
	assert.NoError(t, Rate{PerSecond: 1}.Check())
	assert.Error(t, Rate{}.Check())
	assert.NoError(t, Rate{PerSecond: 1}.CheckWithin(Rate{PerSecond: 1}))
	assert.Error(t, Rate{PerSecond: 1}.CheckWithin(Rate{PerSecond: 0.5, Burst: 9}))
	assert.Error(t, Rate{PerSecond: 1}.CheckWithin(Rate{PerSecond: 1, Burst: 1}))
	assert.Error(t, Rate{}.CheckWithin(Rate{PerSecond: 1}))
	assert.Error(t, Rate{PerSecond: 1}.CheckWithin(Rate{}))
	assert.True(t, Rate{PerSecond: 1}.Fits(2))
	assert.False(t, Rate{PerSecond: 1}.Fits(3))
	assert.False(t, Rate{}.Fits(1))
	// Equal bursts stay equal, however they're rounded.
	for range 1000 {
		burst := 1 + 1000*rand.Float64()
		parent := Rate{PerSecond: 1 + 1e6*rand.Float64(), Burst: burst}
		parent.PerSecond = min(parent.PerSecond, 1e6)
		assert.NoError(t, Rate{PerSecond: parent.PerSecond * rand.Float64(), Burst: burst}.CheckWithin(parent))
	}
}

// However often rates change, no more passes in any time than the largest burst and
// what the rates of that time add up to.
func TestRerateProperty(t *testing.T) {
	for seed := range 50 {
		rng := rand.New(rand.NewPCG(uint64(seed), 7))
		random := func() Rate { return Rate{PerSecond: 0.1 + 20*rng.Float64(), Burst: 1 + 50*rng.Float64()} }
		synctest.Test(t, func(t *testing.T) {
			var s Buckets
			r := random()
			b := newBucket(t, &s, r, nil)
			passed, allowed, most := 0.0, 0.0, r.Burst
			for range 500 {
				if rng.IntN(10) == 0 {
					r = random()
					require.NoError(t, s.Rerate(Change{Bucket: b, Rate: r}))
					most = max(most, r.Burst)
				}
				d := time.Duration(rng.ExpFloat64() * 1e8)
				time.Sleep(d)
				allowed += r.PerSecond * d.Seconds()
				cost := 1 + rng.IntN(3)
				if ok, _ := s.Take(cost, b); ok {
					passed += float64(cost)
				}
				require.LessOrEqual(t, passed, most+allowed+1e-6)
				require.LessOrEqual(t, s.Left(b), r.Burst+1e-6)
				require.GreaterOrEqual(t, s.Left(b), -1e-6)
			}
		})
	}
}

// What a change costs while 65,536 addresses are remembered; debits wait for it.
func BenchmarkRerateAddresses(b *testing.B) {
	var s Buckets
	a, err := s.Addresses(Rate{1e-3, 10}, 0, nil)
	require.NoError(b, err)
	for i := range DefaultAddresses {
		a.Take(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 1)
	}
	rates := []Rate{{1e-3, 10}, {2e-3, 20}}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		_ = s.Rerate(Change{Addresses: a, Rate: rates[i%2]})
	}
}
