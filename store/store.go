package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// Defaults of [Options].
const (
	DefaultMemoryBytes          = 32 << 20
	DefaultMaxMemoryObjectBytes = 2 << 20
	DefaultMaxVariants          = 64
	DefaultFillBytes            = 64 << 20
)

// minMemoryBytes is the least a memory tier can do something useful with.
const minMemoryBytes = 64 << 10

// Options configure a [Store]. The zero value is useful.
type Options struct {
	// MemoryBytes bounds the memory tier: bodies, headers, keys and overhead.
	// 0 means DefaultMemoryBytes (32 MiB); at least 64 KiB.
	MemoryBytes int64
	// MaxMemoryObjectBytes is the largest body kept in memory. Its header
	// fields may take as much beside it, or 64 KiB if that is more. 0 means DefaultMaxMemoryObjectBytes (2 MiB), or MemoryBytes if
	// that is less; at most 1 GiB.
	MaxMemoryObjectBytes int64
	// MaxVariants bounds the variants kept for one primary key; the oldest go
	// first. 0 means DefaultMaxVariants (64); at most 4096, and no more than fit
	// into an eighth of MemoryBytes at 32 bytes each.
	MaxVariants int
	// FillBytes bounds the memory of all bodies being fetched, together, and of
	// the copies of those that are handed on (see Tap), which get no more than half.
	// A fill that gets none beyond its first 64 KiB is handed through and not
	// stored, and so is a copy. 0 means DefaultFillBytes (64 MiB); at least 1 MiB.
	FillBytes int64
	// Disk is an opened tier behind memory, such as one of package store/disk.
	// It keeps what is too large for memory, and a copy of what is in memory,
	// written behind the request, so that a restart finds it again. It's for one
	// Store alone, which closes it in Close; if New fails it's still the caller's.
	// Nil means memory only.
	Disk SpoolTier
}

// ConfigError is one thing wrong with an option.
type ConfigError struct {
	Field  string
	Value  any
	Reason string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("store: %s = %v: %s", e.Field, e.Value, e.Reason)
}

func (o *Options) resolve() error {
	var errs []error
	bad := func(field string, value any, reason string) {
		errs = append(errs, &ConfigError{field, value, reason})
	}
	or := func(v *int64, def int64) {
		if *v == 0 {
			*v = def
		}
	}
	or(&o.MemoryBytes, DefaultMemoryBytes)
	or(&o.MaxMemoryObjectBytes, min(DefaultMaxMemoryObjectBytes, max(o.MemoryBytes, minMemoryBytes)))
	or(&o.FillBytes, DefaultFillBytes)
	if o.MaxVariants == 0 {
		o.MaxVariants = DefaultMaxVariants
	}
	if o.MemoryBytes < minMemoryBytes {
		bad("MemoryBytes", o.MemoryBytes, "must be at least 65536 bytes; leave it 0 for 32 MiB")
	}
	if o.MaxMemoryObjectBytes < 0 || o.MaxMemoryObjectBytes > 1<<30 {
		bad("MaxMemoryObjectBytes", o.MaxMemoryObjectBytes, "must be between 1 byte and 1 GiB; leave it 0 for 2 MiB")
	} else if o.MaxMemoryObjectBytes > o.MemoryBytes && o.MemoryBytes >= minMemoryBytes {
		bad("MaxMemoryObjectBytes", o.MaxMemoryObjectBytes, fmt.Sprintf("must not exceed MemoryBytes (%d)", o.MemoryBytes))
	}
	if o.MaxVariants < 1 || o.MaxVariants > 4096 {
		bad("MaxVariants", o.MaxVariants, "must be between 1 and 4096; leave it 0 for 64")
	}
	if o.FillBytes < 1<<20 {
		bad("FillBytes", o.FillBytes, "must be at least 1 MiB; leave it 0 for 64 MiB")
	}
	return errors.Join(errs...)
}

// Store keeps objects in its tiers and hands out fills. Safe for concurrent
// use. A Get that finds its object in memory takes no lock of the store's own.
type Store struct {
	memory      *memory
	disk        SpoolTier // nil if there is none
	maxVariants int
	budget      Budget

	// With a disk, what a primary key leads to changes in both tiers under its
	// family's lock: see tiers.go and family.go.
	families [256]family
	hiding   atomic.Int64 // deletions from the disk that are queued
	untold   untold
	behind   *behind

	purgedLazily, stalls atomic.Int64
}

// New makes a Store. The error, if any, joins a *ConfigError for each problem.
func New(o Options) (*Store, error) {
	if err := o.resolve(); err != nil {
		return nil, err
	}
	m, err := newMemory(o.MemoryBytes, o.MaxMemoryObjectBytes)
	if err != nil {
		return nil, fmt.Errorf("store: memory tier: %w", err)
	}
	// An index too large for the tier would be evicted at once.
	variants := min(int64(o.MaxVariants), o.MemoryBytes/8/int64(len(Key{})))
	if o.Disk != nil && !o.Disk.Claim() { // the last that may fail
		return nil, errors.Join(&ConfigError{"Disk", fmt.Sprintf("%T", o.Disk), "is another Store's, or closed: the two would give " +
			"each other's responses to their visitors. Open a tier for each, with a directory of its own; " +
			"or put several handlers behind one cache, which has a zone for each (middleware.WrapZone)"}, m.Close(context.Background()))
	}
	s := &Store{memory: m, disk: o.Disk, maxVariants: int(variants), budget: Budget{max: o.FillBytes}}
	if s.disk != nil {
		s.behind = startBehind(s, max(minBehind, o.MemoryBytes/8))
	}
	return s, nil
}

// Get returns what is kept under k: an object, or for a primary key whose
// responses vary an index, or neither. What isn't in memory is looked for on
// disk, which may block on it. An object that is too large for memory has a
// Content instead of a Body.
func (s *Store) Get(k Key) (*Object, *Index) {
	o, ok := s.memory.Get(k)
	switch {
	case !ok && s.disk != nil:
		return s.getFromDisk(k)
	case !ok:
		return nil, nil
	case o.index != nil:
		return nil, o.index
	}
	return o, nil
}

// Put keeps o, or says why not; then nothing changes. A response that varies joins the others of
// its primary key; one that doesn't replaces them all, since it matches every
// request and is the newest (RFC 9111 §4.1). A body that is too large for
// memory, and an object that came from the disk with its Content, go to the
// disk. Whatever the other tier had under the key is gone.
func (s *Store) Put(o *Object) Rejection { return s.PutIf(o, nil) }

// PutIf is Put unless allowed, which may be nil, returns false at the instant at which
// o would take its place: a Delete of o's primary key that begins after whatever makes
// allowed return false leaves nothing of o behind, not even for a moment. It's told
// what o would replace, in whichever tier: a response under o's key or its primary key;
// for the variants that one which doesn't vary replaces, an object that has only the
// RequestedAt of the newest; or nil. It's called with locks held, perhaps more than once,
// and must not block or call the store.
func (s *Store) PutIf(o *Object, allowed func(there *Object) bool) Rejection {
	if s.disk != nil {
		return s.putTiers(o, allowed)
	}
	r, dropped := s.putMemory(o, allowed)
	s.drop(dropped)
	return r
}

// putMemory puts o into memory, and returns the variants that are to be
// dropped because of it. allowed is as in PutIf.
func (s *Store) putMemory(o *Object, allowed func(there *Object) bool) (r Rejection, dropped []Key) {
	if r := s.memory.refuse(o); r != Kept {
		return r, nil
	}
	if len(o.VaryNames) == 0 {
		old, ok := s.memory.replacePrimary(o, allowed)
		switch {
		case !ok:
			return Withdrawn, nil
		case old != nil:
			dropped = old.variants
		}
		return Kept, dropped
	}
	// The index first: a Delete that comes between must know of o, and does by
	// its lineage.
	l, dropped, ok := s.memory.addVariant(o, s.maxVariants, allowed)
	if !ok {
		return Withdrawn, nil
	}
	o.lineage.Store(l)
	if !s.memory.setIf(o, allowed) {
		return Withdrawn, dropped
	}
	return Kept, dropped
}

// Delete forgets everything kept under the primary key: the object, or the
// index and all its variants. It reports whether anything was there. From then on
// nobody finds it; if the disk takes longer than a second to delete it, [Store.Undeleted]
// tells of it.
func (s *Store) Delete(primary Key) bool {
	if s.disk == nil {
		return s.deleteMemory(primary)
	}
	f := s.family(&primary)
	f.mu.Lock()
	was := s.deleteMemory(primary)
	gone := f.pending[primary] != nil && f.pending[primary].deletes(primary, primary)
	c := s.deleteFromDisk(f, primary, primary)
	f.mu.Unlock()
	inTime := s.settle(f, primary, c)
	return was || c != nil && !gone && (!inTime || c.was)
}

func (s *Store) deleteMemory(primary Key) bool {
	o, ok := s.memory.remove(primary)
	if ok && o.index != nil {
		s.drop(o.index.variants)
	}
	return ok
}

// DropPurged is DeleteObject for an object that turned out to be purged when it
// was looked up.
func (s *Store) DropPurged(o *Object) {
	s.purgedLazily.Add(1)
	s.deleteObject(o, false) // there's nothing to be told
}

// DeleteObject forgets o if it's still the one kept under its key. With a disk it's as
// with [Store.Delete].
func (s *Store) DeleteObject(o *Object) { s.deleteObject(o, true) }

func (s *Store) deleteObject(o *Object, tell bool) {
	if s.disk == nil {
		s.memory.removeIf(o)
		return
	}
	f := s.family(&o.Primary)
	f.mu.Lock()
	s.memory.removeSame(o)
	c := s.deleteObjectFromDisk(f, o)
	f.mu.Unlock()
	if !s.await(f, c) && tell {
		s.tell(f, o.Primary)
	}
}

// Undeleted returns the primary keys of what the disk could not delete, or not for
// sure, or not in time, since the last call: the caller must see to it that nothing stored under them
// so far counts after a restart. all says the same of everything on disk. It may be
// called after Close.
func (s *Store) Undeleted() (primaries []Key, all bool) {
	if s.disk == nil {
		return nil, false
	}
	primaries, all = s.untold.take()
	more, also := s.disk.Undeleted()
	if all || also {
		return nil, true
	}
	return append(primaries, more...), false
}

func (s *Store) drop(keys []Key) {
	for _, k := range keys {
		s.memory.Delete(k)
	}
}

// MaxObject is the largest body that any tier takes, in bytes.
func (s *Store) MaxObject() int64 {
	if s.disk != nil {
		return max(s.memory.maxObject, s.disk.MaxObject())
	}
	return s.memory.maxObject
}

// MaxMemoryObject is the largest body that memory takes, in bytes: no more of
// one should be gathered in memory.
func (s *Store) MaxMemoryObject() int64 { return s.memory.maxObject }

// NewFill starts a body of the declared length, or -1 if it's unknown.
func (s *Store) NewFill(length int64) *Fill {
	f := newFill(&s.budget, length, s.memory.maxObject)
	if s.disk != nil {
		f.spillTo(s.disk)
	}
	return f
}

// Stats are a store's counters.
type Stats struct {
	Memory TierStats
	// Disk is zero if there is no disk.
	Disk TierStats
	// DiskQueued is the number of objects in memory that wait to be written to
	// disk. DiskDropped counts those that won't be, because too many waited:
	// a restart won't find them.
	DiskQueued, DiskDropped int64
	// DiskStalls counts how often the disk took longer than a second to change
	// something, so that requests went on without waiting for it.
	DiskStalls int64
	// FillBytes is the memory of the bodies being fetched or copied now,
	// MaxFillBytes its bound.
	FillBytes, MaxFillBytes int64
	// PurgedLazily counts the objects that were found purged when looked up.
	PurgedLazily int64
}

// Stats returns the counters. They are read one by one, not at one instant.
func (s *Store) Stats() Stats {
	st := Stats{Memory: s.memory.Stats(), FillBytes: s.budget.used.Load(), MaxFillBytes: s.budget.max,
		PurgedLazily: s.purgedLazily.Load()}
	if s.disk != nil {
		st.Disk = s.disk.Stats()
		st.DiskQueued, st.DiskDropped = s.behind.counts()
		st.DiskStalls = s.stalls.Load()
	}
	return st
}

// Close empties the memory and closes the disk, after writing what waits to be
// written there for as long as ctx allows. Nothing may be called after it, but Undeleted.
func (s *Store) Close(ctx context.Context) error {
	if s.disk == nil {
		return s.memory.Close(ctx)
	}
	s.behind.end(ctx)
	err := s.drain(ctx)
	return errors.Join(err, s.memory.Close(ctx), s.disk.Close(ctx))
}
