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

	// otter evicts in the background, up to 128 writes for each processor
	// later. fresh is the weight put since it was last made to do it now.
	fresh atomic.Int64

	hits, misses counter
	puts         atomic.Int64
	evictions    atomic.Int64
	rejections   [numRejections]atomic.Int64
}

// maxFresh is the share of the bound that may be put before the eviction is
// waited for.
const maxFresh = 16

// counter is an atomic counter on a cache line of its own: two that are
// counted up by every request must not share one.
type counter struct {
	atomic.Int64
	_ [56]byte
}

var _ Tier = (*memory)(nil)

// NewMemoryTier makes a memory tier by itself; a [Store] has one of its own.
// The parameters are what MemoryBytes and MaxMemoryObjectBytes are in
// [Options], with the same defaults for 0 and the same errors.
func NewMemoryTier(maxBytes, maxObject int64) (Tier, error) {
	o := Options{MemoryBytes: maxBytes, MaxMemoryObjectBytes: maxObject}
	if err := o.resolve(); err != nil {
		return nil, err
	}
	return newMemory(o.MemoryBytes, o.MaxMemoryObjectBytes)
}

func newMemory(maxBytes, maxObject int64) (*memory, error) {
	m := &memory{maxBytes: maxBytes, maxObject: min(maxObject, maxBytes-objectOverhead)}
	c, err := otter.New(&otter.Options[Key, *Object]{
		MaximumWeight: uint64(maxBytes),
		Weigher:       weigh,
		OnAtomicDeletion: func(e otter.DeletionEvent[Key, *Object]) {
			// It runs before the key leads nowhere, so no purge can come between.
			if e.Cause != otter.CauseReplacement {
				e.Value.endLineage()
			}
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
	if ok && o.orphaned() {
		m.removeIf(o)
		ok = false
	}
	if !ok {
		m.misses.Add(1)
		return nil, false
	}
	m.hits.Add(1)
	return o, true
}

// refuse says why o can't be kept, and counts it. otter would take a too heavy
// entry and then evict it, and others on the way: look first.
func (m *memory) refuse(o *Object) Rejection {
	r, room := Kept, max(m.maxObject, minMemoryBytes)
	if int64(len(o.Body)) > m.maxObject || int64(len(o.Header)+len(o.Trailer)+len(o.Selecting)) > room || o.Weight() > m.maxBytes ||
		maxNameSets*namesWeight(o.VaryNames) > room {
		r = TooLarge
	} else if (o.Key == o.Primary) != (len(o.VaryNames) == 0) {
		r = BadKey // an object must never be taken for an index, nor hide one
	}
	if r != Kept {
		m.rejections[r].Add(1)
	}
	return r
}

func (m *memory) Put(o *Object) Rejection {
	if r := m.refuse(o); r != Kept {
		return r
	}
	m.set(o)
	return Kept
}

func (m *memory) set(o *Object) {
	m.cache.Set(o.Key, o)
	m.added(o)
}

// setIf is set unless allowed, which may be nil, and is told what was there, says no.
func (m *memory) setIf(o *Object, allowed func(*Object) bool) (ok bool) {
	if allowed == nil {
		m.set(o)
		return true
	}
	m.cache.Compute(o.Key, func(prev *Object, found bool) (*Object, otter.ComputeOp) {
		if !found || prev.orphaned() {
			ok = allowed(nil)
		} else {
			ok = allowed(prev)
		}
		if !ok {
			return prev, otter.CancelOp
		}
		return o, otter.WriteOp
	})
	if ok {
		m.added(o)
	}
	return ok
}

// added keeps the tier within its bound although otter evicts later.
func (m *memory) added(o *Object) {
	m.puts.Add(1)
	if m.fresh.Add(o.Weight()) > m.maxBytes/maxFresh {
		m.fresh.Store(0)
		m.cache.CleanUp()
	}
}

func (m *memory) Delete(k Key) bool {
	_, ok := m.cache.Invalidate(k)
	return ok
}

// replacePrimary puts o under its primary key and returns the index that was
// there, if any; unless allowed, which is told what was there, says no.
func (m *memory) replacePrimary(o *Object, allowed func(*Object) bool) (old *Index, ok bool) {
	m.cache.Compute(o.Primary, func(prev *Object, found bool) (*Object, otter.ComputeOp) {
		old = nil
		if !found {
			prev = nil
		}
		if ok = allowed == nil || allowed(prev); !ok {
			return prev, otter.CancelOp
		}
		if found {
			old = prev.index
			prev.endLineage()
		}
		return o, otter.WriteOp
	})
	if ok {
		m.added(o)
	}
	return old, ok
}

// addVariant makes the primary key lead to o too, and returns the lineage to
// keep o in and the variants that fell out of the index.
func (m *memory) addVariant(o *Object, maxVariants int, allowed func(*Object) bool) (l *lineage, dropped []Key, ok bool) {
	var record *Object
	m.cache.Compute(o.Primary, func(prev *Object, found bool) (*Object, otter.ComputeOp) {
		var x *Index
		var replaced *Object // nil if it's an index: then setIf tells the variant
		newest := o.RequestedAt
		if found {
			if x = prev.index; x == nil {
				replaced = prev
			} else if prev.RequestedAt.After(newest) {
				newest = prev.RequestedAt
			}
		}
		if ok = allowed == nil || allowed(replaced); !ok {
			return prev, otter.CancelOp
		}
		var next *Index
		next, dropped = x.with(o.Key, o.VaryNames, maxVariants)
		record = &Object{Key: o.Primary, Primary: o.Primary, RequestedAt: newest, index: next}
		return record, otter.WriteOp
	})
	if !ok {
		return nil, nil, false
	}
	m.added(record)
	return record.index.lineage, dropped, true
}

// remove takes out what the primary key leads to and returns it.
func (m *memory) remove(primary Key) (*Object, bool) {
	return m.cache.Invalidate(primary)
}

// removeIf takes o out if it's still what its key leads to, and reports whether it
// was.
func (m *memory) removeIf(o *Object) (was bool) {
	m.cache.ComputeIfPresent(o.Key, func(prev *Object) (*Object, otter.ComputeOp) {
		if was = prev == o; was {
			return nil, otter.InvalidateOp
		}
		return prev, otter.CancelOp
	})
	return was
}

// removeSame takes out what o.Key leads to if it's o, or a copy of it that was
// loaded from disk.
func (m *memory) removeSame(o *Object) {
	m.cache.ComputeIfPresent(o.Key, func(prev *Object) (*Object, otter.ComputeOp) {
		if prev == o || prev.Same(o) {
			return nil, otter.InvalidateOp
		}
		return prev, otter.CancelOp
	})
}

// peek returns what k leads to. It doesn't count as a use of it.
func (m *memory) peek(k Key) *Object {
	e, ok := m.cache.GetEntryQuietly(k)
	if !ok || e.Value.orphaned() {
		return nil
	}
	return e.Value
}

// setIfAbsent puts o under its key if that leads nowhere, and returns what it
// leads to now.
func (m *memory) setIfAbsent(o *Object) *Object {
	now := o
	m.cache.Compute(o.Key, func(prev *Object, found bool) (*Object, otter.ComputeOp) {
		now = o
		if found && !prev.orphaned() {
			now = prev
			return prev, otter.CancelOp
		}
		return o, otter.WriteOp
	})
	if now == o {
		m.added(o)
	}
	return now
}

func (m *memory) Stats() TierStats {
	m.cache.CleanUp() // or what was written just now isn't counted
	s := TierStats{
		Objects:   int64(m.cache.EstimatedSize()),
		Bytes:     int64(m.cache.WeightedSize()),
		MaxBytes:  m.maxBytes,
		Hits:      m.hits.Load(),
		Misses:    m.misses.Load(),
		Puts:      m.puts.Load(),
		Evictions: m.evictions.Load(),
	}
	for r := range s.Rejections {
		s.Rejections[r] = m.rejections[r].Load()
	}
	return s
}

func (m *memory) Close(context.Context) error {
	m.cache.InvalidateAll()
	m.cache.StopAllGoroutines()
	return nil
}
