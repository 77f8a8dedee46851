// Package storetest has the contract of a [store.Tier] as a test, for those who
// write one.
package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/store"
)

// Bounds that the tiers under test are made with.
const (
	MaxBytes  = 1 << 20
	MaxObject = 100_000
)

// TestTier tests that the tiers that make returns keep the contract. Each is
// empty, bounded by MaxBytes, and takes bodies of up to MaxObject bytes. The
// test closes them.
func TestTier(t *testing.T, make func(t *testing.T) store.Tier) {
	for name, test := range map[string]func(t *testing.T, tier store.Tier){
		"keeps all of an object":  keepsAll,
		"replaces and deletes":    replaces,
		"takes bodies at limits":  limits,
		"refuses for a reason":    refuses,
		"stays within its bound":  bounded,
		"counts":                  counts,
		"is like a map":           likeMap,
		"is safe in parallel":     parallel,
		"keeps each key's object": noMixUp,
	} {
		t.Run(name, func(t *testing.T) {
			tier := make(t)
			test(t, tier)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			assert.NoError(t, tier.Close(ctx))
		})
	}
}

// Key returns a key that belongs to n.
func Key(n int) (k store.Key) {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	for i := range k {
		k[i] = byte(r.Uint32())
	}
	return k
}

// Object returns an object that doesn't vary, under Key(n), with a body of the
// size whose bytes tell n and the version.
func Object(n, version, size int) *store.Object {
	return &store.Object{
		Key: Key(n), Primary: Key(n), Status: 200,
		Header: store.EncodeBlock(map[string][]string{"Etag": {fmt.Sprintf(`"%d-%d"`, n, version)}}),
		Body:   body(n, version, size), Length: strconv.Itoa(size),
	}
}

func body(n, version, size int) []byte {
	return []byte(strings.Repeat(fmt.Sprintf("%d.%d;", n, version), size/4+1)[:size])
}

// assertSame compares what was put with what came back.
func assertSame(t *testing.T, want, got *store.Object) {
	t.Helper()
	assert.Equal(t, want.Key, got.Key)
	assert.Equal(t, want.Primary, got.Primary)
	assert.Equal(t, want.Status, got.Status)
	assert.Equal(t, want.Header, got.Header)
	assert.Equal(t, want.Trailer, got.Trailer)
	assert.Equal(t, string(want.Body), string(got.Body))
	assert.Equal(t, want.VaryNames, got.VaryNames)
	assert.Equal(t, want.Selecting, got.Selecting)
	assert.Equal(t, want.Length, got.Length)
	assert.True(t, want.RequestedAt.Equal(got.RequestedAt))
	assert.True(t, want.Life.ReceivedAt.Equal(got.Life.ReceivedAt))
	a, b := want.Life, got.Life
	a.ReceivedAt, b.ReceivedAt = time.Time{}, time.Time{}
	assert.Equal(t, a, b)
}

func keepsAll(t *testing.T, tier store.Tier) {
	now := time.Now()
	life := rfc9111.Life{
		ReceivedAt: now, InitialAge: time.Second, Lifetime: time.Hour, StaleWhileRevalidate: time.Minute,
		StaleIfError: time.Hour, Source: rfc9111.FromSMaxAge, MustRevalidate: true, SharedMaxAge: true, SharedExplicit: true,
	}
	header := store.EncodeBlock(map[string][]string{"Content-Type": nil, "Vary": {"Accept", "Cookie"}, "X": {""}})
	for _, o := range []*store.Object{
		{Key: Key(1), Primary: Key(1), Status: 200, Header: header, Body: []byte("body"), Length: "4", RequestedAt: now, Life: life},
		{Key: Key(2), Primary: Key(1000), Status: 404, Header: header, Trailer: header, Body: []byte{0, 255, 10}, Length: "3",
			VaryNames: []string{"accept", "cookie"}, Selecting: "a\x00b", RequestedAt: now, Life: life},
		{Key: Key(3), Primary: Key(3), Status: 204, Length: "0", RequestedAt: now},
	} {
		require.Equal(t, store.Kept, tier.Put(o))
		got, ok := tier.Get(o.Key)
		require.True(t, ok)
		assertSame(t, o, got)
	}
	_, ok := tier.Get(Key(1000))
	assert.False(t, ok, "only the store makes indexes")
}

func replaces(t *testing.T, tier store.Tier) {
	_, ok := tier.Get(Key(1))
	assert.False(t, ok)
	assert.False(t, tier.Delete(Key(1)))
	for version := range 3 {
		o := Object(1, version, 1000-version)
		require.Equal(t, store.Kept, tier.Put(o))
		got, ok := tier.Get(Key(1))
		require.True(t, ok)
		assertSame(t, o, got)
	}
	assert.Equal(t, int64(1), tier.Stats().Objects)
	assert.True(t, tier.Delete(Key(1)))
	assert.False(t, tier.Delete(Key(1)))
	_, ok = tier.Get(Key(1))
	assert.False(t, ok)
	assert.Zero(t, tier.Stats().Objects)
	assert.Zero(t, tier.Stats().Bytes)
}

func limits(t *testing.T, tier store.Tier) {
	for n, size := range []int{0, 1, 4095, 4096, 4097, MaxObject - 1, MaxObject} {
		o := Object(n, 0, size)
		require.Equal(t, store.Kept, tier.Put(o), "%d bytes", size)
		got, ok := tier.Get(o.Key)
		require.True(t, ok, "%d bytes", size)
		assertSame(t, o, got)
	}
}

func refuses(t *testing.T, tier store.Tier) {
	old := Object(1, 0, 10)
	require.Equal(t, store.Kept, tier.Put(old))
	for _, size := range []int{MaxObject + 1, MaxBytes, 2 * MaxBytes} {
		r := tier.Put(Object(1, 1, size))
		assert.NotEqual(t, store.Kept, r)
		assert.NotContains(t, []string{"", "unknown", "stored"}, r.String())
	}
	bad := Object(1, 2, 10)
	bad.VaryNames = []string{"accept"}
	assert.Equal(t, store.BadKey, tier.Put(bad), "a variant must not stand where the index does")
	st := tier.Stats()
	assert.Equal(t, int64(3), st.Rejected(store.TooLarge))
	assert.Equal(t, int64(1), st.Rejected(store.BadKey))
	got, ok := tier.Get(Key(1))
	require.True(t, ok, "a refused object leaves what is there")
	assertSame(t, old, got)
}

func bounded(t *testing.T, tier store.Tier) {
	for n := range 300 {
		require.Equal(t, store.Kept, tier.Put(Object(n, 0, 20_000)))
		// Eviction may come a little later than the write.
		assert.LessOrEqual(t, tier.Stats().Bytes, int64(2*MaxBytes))
	}
	st := tier.Stats()
	assert.Equal(t, int64(MaxBytes), st.MaxBytes)
	assert.LessOrEqual(t, st.Bytes, st.MaxBytes)
	assert.Greater(t, st.Objects, int64(10), "the room is used")
	assert.Positive(t, st.Evictions)
	there := int64(0)
	for n := range 300 {
		if o, ok := tier.Get(Key(n)); ok {
			there++
			assertSame(t, Object(n, 0, 20_000), o)
		}
	}
	assert.Equal(t, st.Objects, there)
}

func counts(t *testing.T, tier store.Tier) {
	for n := range 5 {
		tier.Put(Object(n, 0, 100))
	}
	for n := range 8 {
		tier.Get(Key(n))
	}
	st := tier.Stats()
	assert.Equal(t, int64(5), st.Objects)
	assert.Equal(t, int64(5), st.Puts)
	assert.Equal(t, int64(5), st.Hits)
	assert.Equal(t, int64(3), st.Misses)
	assert.Zero(t, st.Evictions)
	assert.GreaterOrEqual(t, st.Bytes, int64(500))
	tier.Delete(Key(1))
	assert.Equal(t, int64(4), tier.Stats().Objects)
	assert.Zero(t, tier.Stats().Evictions, "a deletion is none")
}

// likeMap runs random programs. An object may be gone, but never be an old one.
func likeMap(t *testing.T, tier store.Tier) {
	rnd := rand.New(rand.NewPCG(1, 2))
	model := map[int]*store.Object{}
	for step := range 5000 {
		n := rnd.IntN(60)
		switch rnd.IntN(4) {
		case 0:
			o := Object(n, step, rnd.IntN(40_000))
			require.Equal(t, store.Kept, tier.Put(o))
			model[n] = o
		case 1:
			if tier.Delete(Key(n)) {
				require.NotNil(t, model[n])
			}
			model[n] = nil
		default:
			if o, ok := tier.Get(Key(n)); ok {
				require.NotNil(t, model[n], "step %d: %d was deleted", step, n)
				require.Equal(t, model[n].Header, o.Header, "step %d: an old version", step)
				require.Len(t, o.Body, len(model[n].Body))
			}
		}
	}
}

func noMixUp(t *testing.T, tier store.Tier) {
	a, b := Object(1, 0, 10), Object(2, 0, 20)
	b.Key = a.Key
	b.Key[31]++ // as alike as keys can be
	b.Primary = b.Key
	require.Equal(t, store.Kept, tier.Put(a))
	_, ok := tier.Get(b.Key)
	assert.False(t, ok)
	require.Equal(t, store.Kept, tier.Put(b))
	tier.Delete(a.Key)
	got, ok := tier.Get(b.Key)
	require.True(t, ok)
	assertSame(t, b, got)
}

func parallel(t *testing.T, tier store.Tier) {
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 3))
			for i := range 500 {
				n := rnd.IntN(20)
				switch rnd.IntN(4) {
				case 0:
					tier.Put(Object(n, i, 5000))
				case 1:
					tier.Delete(Key(n))
				default:
					o, ok := tier.Get(Key(n))
					if !ok {
						continue
					}
					var version int
					tag, _ := o.Header.Get("Etag")
					var of int
					if _, err := fmt.Sscanf(tag, `"%d-%d"`, &of, &version); err != nil || of != n ||
						string(o.Body) != string(body(n, version, 5000)) {
						t.Errorf("key %d: header of %s and a body that isn't its", n, tag)
					}
				}
				if i%100 == 0 {
					tier.Stats()
				}
			}
		})
	}
	wg.Wait()
}
