package store

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The eviction comes after the write: how much is there meanwhile is bounded.
func TestMemoryStaysWithinItsBound(t *testing.T) {
	const bound, size = 8 << 20, 512 << 10
	m, err := newMemory(bound, 1<<20)
	assert.NoError(t, err)
	most := int64(0)
	for i := range 500 {
		m.Put(plain(key(i), size))
		sum := int64(0)
		for _, o := range m.cache.All() {
			sum += o.Weight()
		}
		most = max(most, sum)
	}
	assert.LessOrEqual(t, most, int64(bound+bound/maxFresh+size+objectOverhead))
	s := m.Stats()
	assert.LessOrEqual(t, s.Bytes, int64(bound))
	assert.Equal(t, int64(500), s.Puts)
	assert.Equal(t, s.Puts-s.Objects, s.Evictions)
}

func TestMemoryStaysWithinItsBoundInParallel(t *testing.T) {
	const bound, size = 4 << 20, 256 << 10
	s := newStore(t, Options{MemoryBytes: bound})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 200 {
				s.Put(plain(key(1000*w+i), size))
				sum := int64(0)
				for _, o := range s.memory.cache.All() {
					sum += o.Weight()
				}
				if sum > bound+bound/maxFresh+5*(size+objectOverhead) {
					t.Errorf("%d bytes are kept, %d may be", sum, bound)
				}
			}
		})
	}
	wg.Wait()
}

// One object larger than the whole tier doesn't empty it.
func TestTooLargeObjectEvictsNobody(t *testing.T) {
	s := newStore(t, Options{MemoryBytes: 64 << 10})
	for i := range 10 {
		s.Put(plain(key(i), 1000))
	}
	s.Put(plain(key(100), 1<<20))
	s.Put(variant(key(101), key(102), 1<<20, "accept"))
	assert.Equal(t, int64(10), s.Stats().Memory.Objects)
}

// Twenty thousand values of a Vary field, one key: what is kept is bounded and
// a lookup reads no longer list.
func TestVariantExplosion(t *testing.T) {
	s := newStore(t, Options{})
	for i := range 20_000 {
		s.Put(variant(key(0), key(1+i), 100, "x"))
	}
	_, x := s.Get(key(0))
	assert.Len(t, x.Sets, 1)
	assert.Len(t, x.variants, DefaultMaxVariants)
	assert.Equal(t, int64(DefaultMaxVariants+1), s.Stats().Memory.Objects)
}
