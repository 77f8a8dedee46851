package store

import "sync"

// With a disk behind memory an object is in one of them or in both, and a
// primary key leads to an index in memory that names the variants of both
// tiers. What keeps them in step is the lock of the primary key's family: all
// that changes what the key leads to holds it while it changes both tiers, and
// so does what copies from one tier to the other. Therefore a copy can neither
// bring back what was deleted nor cover what is newer. A hit in memory and a
// look at the disk take no lock: whoever looks while somebody changes gets what
// was there before, or what is there afterwards, or in between nothing.
//
// The locks of the tiers themselves come after it.

func (s *Store) family(primary *Key) *sync.Mutex { return &s.families[primary[len(primary)-1]] }

// putTiers is Put with a disk.
func (s *Store) putTiers(o *Object, allowed func(*Object) bool) Rejection {
	mu := s.family(&o.Primary)
	mu.Lock()
	defer mu.Unlock()
	if allowed != nil && !allowed(s.replacedBy(o)) { // a Delete waits for the lock, or has had it
		return Withdrawn
	}
	if o.Content != nil || int64(len(o.Body)) > s.memory.maxObject {
		return s.putDisk(o, s.disk.Put)
	}
	var covered bool
	if len(o.VaryNames) > 0 {
		covered = s.seed(o.Primary)
	}
	r, dropped := s.putMemory(o, nil)
	if r == TooLarge { // its fields are
		return s.putDisk(o, s.disk.Put)
	}
	if r != Kept {
		return r
	}
	// The disk's are older. Its copy of o comes later, or never.
	if covered {
		s.disk.Delete(o.Primary)
	}
	s.disk.Delete(o.Key)
	s.dropBoth(dropped)
	s.behind.add(o)
	return Kept
}

// replacedBy returns what o would replace, as PutIf tells it. The family's lock is held.
func (s *Store) replacedBy(o *Object) *Object {
	there := s.peek(o.Primary)
	switch {
	case there == nil || !there.IsIndex():
		return there
	case o.Key != o.Primary:
		return s.peek(o.Key)
	case there.RequestedAt.IsZero() && len(there.index.variants) > 0: // the disk's records don't say it
		newest := s.peek(there.index.variants[len(there.index.variants)-1])
		if newest == nil || newest.IsIndex() {
			return nil
		}
		return &Object{Key: o.Primary, Primary: o.Primary, RequestedAt: newest.RequestedAt}
	}
	return there
}

// peek returns what either tier has under the key. It doesn't count as a use.
func (s *Store) peek(k Key) *Object {
	if o := s.memory.peek(k); o != nil {
		return o
	}
	if o, ok := s.disk.Peek(k); ok {
		return o
	}
	return nil
}

// putDisk makes o an object of the disk by put, and takes what it supersedes out of
// memory. The family's lock is held.
func (s *Store) putDisk(o *Object, put func(*Object) Rejection) Rejection {
	if r := put(o); r != Kept {
		return r
	}
	if len(o.VaryNames) == 0 {
		s.deleteMemory(o.Primary) // the disk deals with its own variants
		return Kept
	}
	s.seed(o.Primary)
	_, dropped, _ := s.memory.addVariant(o, s.maxVariants, nil)
	s.memory.Delete(o.Key)
	s.dropBoth(dropped)
	return Kept
}

// seed gives memory the index that the disk has for the primary key, unless
// memory has something there. It reports whether the disk has a response that
// doesn't vary instead. The family's lock is held.
func (s *Store) seed(primary Key) (covered bool) {
	there, ok := s.disk.Get(primary)
	switch {
	case !ok:
		return false
	case !there.IsIndex():
		return true
	}
	if s.memory.peek(primary) == nil {
		s.memory.setIfAbsent(there.index.fresh(primary))
	}
	return false
}

// fresh returns an index with the same content and a lineage of its own: the
// disk's may be given out again after memory's has ended.
func (x *Index) fresh(primary Key) *Object {
	return &Object{Key: primary, Primary: primary,
		index: &Index{Sets: x.Sets, variants: x.variants, lineage: new(lineage)}}
}

func (s *Store) dropBoth(keys []Key) {
	s.drop(keys)
	for _, k := range keys {
		s.disk.Delete(k)
	}
}
