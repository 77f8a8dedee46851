package store

import (
	"context"
	"math"
	"sync/atomic"

	"github.com/maypok86/otter/v2"
)

// memory is the memory tier: an otter cache whose weight is bytes. Freshness
// is no matter of the tier, so otter's own expiry, which costs time on every
// read, stays off.
type memory struct {
	cache     *otter.Cache[Key, *Object]
	maxBytes  int64
	maxObject int64

	hits, misses counter
	puts         atomic.Int64
	evictions    atomic.Int64
	tooLarge     atomic.Int64
}

// counter is an atomic counter on a cache line of its own: two that are
// counted up by every request must not share one.
type counter struct {
	atomic.Int64
	_ [56]byte
}

var _ Tier = (*memory)(nil)

func newMemory(maxBytes, maxObject int64) (*memory, error) {
	m := &memory{maxBytes: maxBytes, maxObject: min(maxObject, maxBytes)}
	c, err := otter.New(&otter.Options[Key, *Object]{
		MaximumWeight: uint64(maxBytes),
		Weigher:       weigh,
		OnAtomicDeletion: func(e otter.DeletionEvent[Key, *Object]) {
			if e.WasEvicted() {
				m.evictions.Add(1)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	m.cache = c
	return m, nil
}

func weigh(_ Key, o *Object) uint32 {
	return uint32(min(o.Weight(), math.MaxUint32))
}

func (m *memory) Get(k Key) (*Object, bool) {
	o, ok := m.cache.GetIfPresent(k)
	if ok {
		m.hits.Add(1)
	} else {
		m.misses.Add(1)
	}
	return o, ok
}

func (m *memory) Put(o *Object) Rejection {
	// otter would take a too heavy entry and then evict it, and others on the
	// way: look first.
	if o.Weight() > m.maxObject+objectOverhead || o.Weight() > m.maxBytes {
		m.tooLarge.Add(1)
		return TooLarge
	}
	m.puts.Add(1)
	m.cache.Set(o.Key, o)
	return Kept
}

func (m *memory) Delete(k Key) bool {
	_, ok := m.cache.Invalidate(k)
	return ok
}

// replacePrimary puts o under its primary key and returns the index that was
// there, if any.
func (m *memory) replacePrimary(o *Object) *Index {
	var old *Index
	m.puts.Add(1)
	m.cache.Compute(o.Primary, func(prev *Object, found bool) (*Object, otter.ComputeOp) {
		old = nil
		if found {
			old = prev.index
		}
		return o, otter.WriteOp
	})
	return old
}

// addVariant makes the primary key lead to o, whose variant key is kept
// already, and returns the variants that fell out of the index.
func (m *memory) addVariant(o *Object, maxVariants int) (dropped []Key) {
	m.cache.Compute(o.Primary, func(prev *Object, found bool) (*Object, otter.ComputeOp) {
		var x *Index
		if found {
			x = prev.index
		}
		var next *Index
		next, dropped = x.with(o.Key, o.VaryNames, maxVariants)
		return &Object{Key: o.Primary, Primary: o.Primary, index: next}, otter.WriteOp
	})
	return dropped
}

// remove takes out what the primary key leads to and returns it.
func (m *memory) remove(primary Key) (*Object, bool) {
	return m.cache.Invalidate(primary)
}

func (m *memory) Stats() TierStats {
	s := TierStats{
		Objects:   int64(m.cache.EstimatedSize()),
		Bytes:     int64(m.cache.WeightedSize()),
		MaxBytes:  m.maxBytes,
		Hits:      m.hits.Load(),
		Misses:    m.misses.Load(),
		Puts:      m.puts.Load(),
		Evictions: m.evictions.Load(),
	}
	s.Rejections[TooLarge] = m.tooLarge.Load()
	return s
}

func (m *memory) Close(context.Context) error {
	m.cache.InvalidateAll()
	m.cache.StopAllGoroutines()
	return nil
}

// removeIf takes o out if it's still what its key leads to.
func (m *memory) removeIf(o *Object) {
	m.cache.ComputeIfPresent(o.Key, func(prev *Object) (*Object, otter.ComputeOp) {
		if prev == o {
			return nil, otter.InvalidateOp
		}
		return prev, otter.CancelOp
	})
}
