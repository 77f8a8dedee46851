package store

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOptions(t *testing.T) {
	fields := func(o Options) (names []string) {
		_, err := New(o)
		if err == nil {
			return nil
		}
		for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
			names = append(names, e.(*ConfigError).Field)
			assert.NotEmpty(t, e.(*ConfigError).Reason)
		}
		return names
	}
	assert.Empty(t, fields(Options{}))
	assert.Empty(t, fields(Options{MemoryBytes: 64 << 10}), "the largest object follows the memory")
	assert.Empty(t, fields(Options{MemoryBytes: 64 << 10, MaxMemoryObjectBytes: 64 << 10, MaxVariants: 4096, FillBytes: 1 << 20}))
	assert.Empty(t, fields(Options{MaxMemoryObjectBytes: 1, MaxVariants: 1}))
	assert.Equal(t, []string{"MemoryBytes", "MaxMemoryObjectBytes", "MaxVariants", "FillBytes"},
		fields(Options{MemoryBytes: -1, MaxMemoryObjectBytes: -1, MaxVariants: -1, FillBytes: -1}))
	assert.Equal(t, []string{"MemoryBytes"}, fields(Options{MemoryBytes: 64<<10 - 1}))
	assert.Equal(t, []string{"MaxMemoryObjectBytes"}, fields(Options{MemoryBytes: 1 << 20, MaxMemoryObjectBytes: 1<<20 + 1}))
	assert.Equal(t, []string{"MaxMemoryObjectBytes"}, fields(Options{MemoryBytes: 4 << 30, MaxMemoryObjectBytes: 1<<30 + 1}))
	assert.Equal(t, []string{"MaxVariants", "FillBytes"}, fields(Options{MaxVariants: 4097, FillBytes: 1<<20 - 1}))

	s := newStore(t, Options{})
	assert.Equal(t, int64(2<<20), s.MaxObject())
	assert.Equal(t, int64(32<<20), s.Stats().Memory.MaxBytes)
	assert.Equal(t, int64(64<<20), s.Stats().MaxFillBytes)
	_, err := NewMemoryTier(1, 1)
	assert.Error(t, err)
}

func TestVariantsOldestOut(t *testing.T) {
	s := newStore(t, Options{MaxVariants: 4})
	p := key(0)
	for i := 1; i <= 10; i++ {
		require.Equal(t, Kept, s.Put(variant(p, key(i), 10, "accept")))
		_, x := s.Get(p)
		require.NotNil(t, x)
		assert.Equal(t, [][]string{{"accept"}}, x.Sets)
		for j := 1; j <= 10; j++ {
			o, _ := s.Get(key(j))
			assert.Equal(t, j <= i && j > i-4, o != nil, "variant %d after %d", j, i)
		}
	}
	assert.Equal(t, int64(5), s.Stats().Memory.Objects, "what fell out is gone")
}

// One without Vary matches every request, and the newest response counts: the
// variants go. One with Vary takes its place in the same way.
func TestVaryComesAndGoes(t *testing.T) {
	s := newStore(t, Options{})
	p, v := key(0), key(1)
	s.Put(plain(p, 1))
	s.Put(variant(p, v, 2, "accept"))
	o, x := s.Get(p)
	assert.Nil(t, o)
	assert.NotNil(t, x)
	whole := plain(p, 3)
	s.Put(whole)
	o, x = s.Get(p)
	assert.Same(t, whole, o)
	assert.Nil(t, x)
	o, _ = s.Get(v)
	assert.Nil(t, o)
	s.Put(variant(p, key(2), 2, "accept"))
	o, _ = s.Get(v)
	assert.Nil(t, o, "what was replaced doesn't come back with the next index")
	assert.True(t, s.Delete(p))
	assert.False(t, s.Delete(p))
	assert.Zero(t, s.Stats().Memory.Objects)
}

// The tier may drop an index and keep its variants. A purge then knows nothing
// of them, so they must not be found again when the key gets a new index.
func TestPurgedVariantsNeverComeBack(t *testing.T) {
	for name, purge := range map[string]func(s *Store, p Key){
		"deleted":             func(s *Store, p Key) { s.Delete(p) },
		"replaced":            func(s *Store, p Key) { s.Put(plain(p, 1)) },
		"only the index lost": func(*Store, Key) {},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, Options{MemoryBytes: 1 << 20})
			p, v := key(0), key(1)
			s.Put(variant(p, v, 10, "accept"))
			s.memory.cache.SetMaximum(0)
			s.memory.cache.CleanUp()
			s.memory.cache.SetMaximum(1 << 20)
			s.Put(variant(p, v, 10, "accept"))
			// As an eviction of the index alone does.
			s.memory.cache.Invalidate(p)
			purge(s, p)
			s.Put(variant(p, key(2), 10, "accept"))
			o, _ := s.Get(v)
			assert.Nil(t, o)
			o, _ = s.Get(key(2))
			assert.NotNil(t, o)
			assert.LessOrEqual(t, s.Stats().Memory.Objects, int64(2), "the orphan is removed when it's met")
			again := variant(p, v, 10, "accept")
			s.Put(again)
			o, _ = s.Get(v)
			assert.Same(t, again, o)
		})
	}
}

// An eviction ends the lineage too.
func TestEvictionOrphansVariants(t *testing.T) {
	s := newStore(t, Options{MemoryBytes: 64 << 10, MaxVariants: 1})
	p := key(0)
	v := variant(p, key(1), 10, "accept")
	s.Put(v)
	l := v.lineage.Load()
	for i := 0; i < 10_000 && !l.ended.Load(); i++ {
		s.Put(plain(key(100+i), 1000))
		s.Get(key(100 + i))
		s.Get(key(1)) // the variant is used, its index isn't
	}
	require.True(t, l.ended.Load(), "the index was never evicted")
	o, _ := s.Get(key(1))
	assert.Nil(t, o)
}

func TestLimits(t *testing.T) {
	s := newStore(t, Options{MemoryBytes: 1 << 20, MaxMemoryObjectBytes: 100_000})
	header := EncodeBlock(map[string][]string{"X": {string(make([]byte, 99_000))}})
	tests := map[string]struct {
		o    *Object
		want Rejection
	}{
		"empty":                       {plain(key(1), 0), Kept},
		"at the limit":                {plain(key(1), 100_000), Kept},
		"at the limit, with a header": {&Object{Key: key(1), Primary: key(1), Header: header, Body: make([]byte, 100_000)}, Kept},
		"a variant at the limit":      {variant(key(1), key(2), 100_000, "accept"), Kept},
		"a byte more":                 {plain(key(1), 100_001), TooLarge},
		"a variant with a byte more":  {variant(key(1), key(2), 100_001, "accept"), TooLarge},
		"a header larger than that":   {&Object{Key: key(1), Primary: key(1), Header: header + header}, TooLarge},
		"endless names":               {variant(key(1), key(2), 1, string(make([]byte, 20_000))), TooLarge},
		"varies under its primary":    {variant(key(1), key(1), 1, "accept"), BadKey},
		"doesn't, under another":      {&Object{Key: key(2), Primary: key(1)}, BadKey},
	}
	var refused [numRejections]int64
	for name, tt := range tests {
		s.Delete(key(1))
		assert.Equal(t, tt.want, s.Put(tt.o), name)
		got, _ := s.Get(tt.o.Key)
		assert.Equal(t, tt.want == Kept, got == tt.o, name)
		if tt.want != Kept {
			refused[tt.want]++
		}
		assert.NotEqual(t, "unknown", tt.want.String())
	}
	st := s.Stats().Memory
	assert.Equal(t, refused, st.Rejections)
	assert.Equal(t, refused[TooLarge], st.Rejected(TooLarge))
	assert.Zero(t, st.Rejected(200))

	tiny := newStore(t, Options{MemoryBytes: 64 << 10})
	assert.Equal(t, TooLarge, tiny.Put(plain(key(1), 64<<10)))
	assert.Less(t, tiny.MaxObject(), int64(64<<10), "what never fits is known beforehand")
}

// What is refused leaves what is there.
func TestRefusedPutChangesNothing(t *testing.T) {
	s := newStore(t, Options{MaxMemoryObjectBytes: 1000})
	old := plain(key(1), 10)
	s.Put(old)
	s.Put(plain(key(1), 2000))
	s.Put(variant(key(1), key(2), 2000, "accept"))
	o, x := s.Get(key(1))
	assert.Same(t, old, o)
	assert.Nil(t, x)
}

func TestDeleteObject(t *testing.T) {
	s := newStore(t, Options{})
	first, second := plain(key(1), 1), plain(key(1), 2)
	s.Put(first)
	s.Put(second)
	s.DeleteObject(first)
	o, _ := s.Get(key(1))
	assert.Same(t, second, o)
	s.DeleteObject(second)
	s.DeleteObject(second)
	o, _ = s.Get(key(1))
	assert.Nil(t, o)
}

func TestFreshened(t *testing.T) {
	o := variant(key(1), key(2), 3, "accept")
	o.Length = "3"
	o.SetMemo(&Memo{Age: 1})
	n := o.Freshened(map[string][]string{"Etag": {`"x"`}, "Content-Length": {"9"}}, o.Life, o.RequestedAt)
	assert.Equal(t, map[string][]string{"Etag": {`"x"`}}, map[string][]string(n.Header.Header()))
	assert.Same(t, &o.Body[0], &n.Body[0])
	assert.Nil(t, n.Memo())
	n.Header = o.Header
	o.SetMemo(nil)
	assert.Equal(t, o, n)
}

func TestStats(t *testing.T) {
	s := newStore(t, Options{})
	o := plain(key(1), 100)
	s.Put(o)
	s.Get(key(1))
	s.Get(key(2))
	st := s.Stats().Memory
	assert.Equal(t, TierStats{Objects: 1, Bytes: o.Weight(), MaxBytes: 32 << 20, Hits: 1, Misses: 1, Puts: 1}, st)
	f := s.NewFill(-1)
	require.NoError(t, f.Append(t.Context(), make([]byte, 100_000)))
	assert.Positive(t, s.Stats().FillBytes)
	f.Forgo()
	_ = f.End()
	assert.Zero(t, s.Stats().FillBytes)
}

// primaryModel is what is stored for one primary key.
type primaryModel struct {
	whole    *Object
	variants []*Object // in the order of storing
}

func (m *primaryModel) add(o *Object, bound int) {
	rest := slices.DeleteFunc(m.variants, func(v *Object) bool { return v.Key == o.Key })
	rest = append(rest, o)
	m.whole, m.variants = nil, rest[max(0, len(rest)-bound):]
}

// Random programs against a list. Nothing is evicted: the store is large.
func TestStorePrograms(t *testing.T) {
	variantKey := func(n, i int) Key { return key(1000 + 10*n + i) }
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		bound := 1 + rnd.IntN(5)
		s := newStore(t, Options{MaxVariants: bound})
		var model [3]primaryModel
		for range 250 {
			n := rnd.IntN(len(model))
			m, p := &model[n], key(n)
			switch rnd.IntN(6) {
			case 0:
				m.whole, m.variants = plain(p, rnd.IntN(100)), nil
				require.Equal(t, Kept, s.Put(m.whole))
			case 1:
				require.Equal(t, m.whole != nil || m.variants != nil, s.Delete(p))
				*m = primaryModel{}
			case 2:
				if m.whole != nil {
					s.DeleteObject(m.whole)
					m.whole = nil
				}
			default:
				o := variant(p, variantKey(n, rnd.IntN(8)), 5, fmt.Sprint(rnd.IntN(3)))
				m.add(o, bound)
				require.Equal(t, Kept, s.Put(o))
			}
			for n, m := range model {
				o, x := s.Get(key(n))
				if o != m.whole || (x != nil) != (m.variants != nil) {
					t.Fatalf("key %d: object %p, index %v; should be %p, %v", n, o, x, m.whole, m.variants != nil)
				}
				for i := range 8 {
					k := variantKey(n, i)
					want := slices.IndexFunc(m.variants, func(v *Object) bool { return v.Key == k })
					got, _ := s.Get(k)
					if (got != nil) != (want >= 0) || got != nil && got != m.variants[want] {
						t.Fatalf("key %d, variant %d: %v, should be number %d", n, i, got, want)
					}
				}
			}
		}
	}
}

// A purge and what is stored at the same time: once Delete has returned, nothing
// is found that was put before it began, whatever else goes on.
func TestPutRacesWithDelete(t *testing.T) {
	s := newStore(t, Options{MaxVariants: 3})
	p := key(0)
	var era atomic.Int64 // the body's length tells when an object was made
	var wg sync.WaitGroup
	var finished [3]atomic.Int64
	for w := range finished {
		wg.Go(func() {
			for i := range 3000 {
				e := era.Load()
				if i%5 == 0 {
					s.Put(plain(p, int(e)))
				} else {
					s.Put(variant(p, key(1+i%4), int(e), "accept"))
				}
				finished[w].Store(e + 1)
			}
			finished[w].Store(1 << 30)
		})
	}
	wg.Go(func() {
		for range 300 {
			e := era.Add(1)
			for w := range finished { // those of before have been put
				for finished[w].Load() <= e-1 {
					runtime.Gosched()
				}
			}
			s.Delete(p)
			for i := range 5 {
				if o, _ := s.Get(key(i)); o != nil && int64(len(o.Body)) < e-1 {
					t.Errorf("an object of era %d is there in %d", len(o.Body), e)
				}
			}
		}
	})
	wg.Wait()
}
