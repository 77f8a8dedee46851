package store

// With a disk behind memory an object is in one of them or in both, and a
// primary key leads to an index in memory that names the variants of both
// tiers. What keeps them in step is the lock of the primary key's family, and the order
// in which the family's changes of the disk are made (family.go): all that changes what
// the key leads to decides that under the lock, changes memory, and queues what is to
// change on the disk. What is to be deleted there isn't found from then on. What copies
// from one tier to the other looks once more under the lock. Therefore a copy can
// neither bring back what was deleted nor cover what is newer. A hit in memory takes no
// lock, nor does a look at the disk while nothing is to be deleted: whoever looks while
// somebody changes gets what was there before, or what is there afterwards, or in
// between nothing.
//
// The locks of the tiers themselves come after it.

// putTiers is Put with a disk.
func (s *Store) putTiers(o *Object, allowed func(*Object) bool) Rejection {
	f := s.family(&o.Primary)
	f.mu.Lock()
	if allowed != nil && !allowed(s.replacedBy(f, o)) { // a Delete waits for the lock, or has had it
		f.mu.Unlock()
		return Withdrawn
	}
	if o.Content != nil || int64(len(o.Body)) > s.memory.maxObject {
		r, _ := s.putDisk(f, o, s.disk.Put)
		return r
	}
	covered := false
	if len(o.VaryNames) > 0 {
		p := f.pending[o.Primary]
		covered = s.seed(f, o.Primary) || p != nil && p.plain > 0
	}
	r, dropped := s.putMemory(o, nil)
	if r == TooLarge { // its fields are
		r, _ := s.putDisk(f, o, s.disk.Put)
		return r
	}
	if r != Kept {
		f.mu.Unlock()
		return r
	}
	// The disk's are older. Its copy of o comes later, or never.
	s.drop(dropped)
	keys := append([]Key{o.Key}, dropped...)
	if covered {
		keys = append(keys, o.Primary)
	}
	c := s.deleteFromDisk(f, o.Primary, keys...)
	s.behind.add(o)
	f.mu.Unlock()
	s.settle(f, o.Primary, c)
	return Kept
}

// replacedBy returns what o would replace, as PutIf tells it. The family's lock is held.
func (s *Store) replacedBy(f *family, o *Object) *Object {
	there := s.peek(f, o.Primary, o.Primary)
	switch {
	case o.Key != o.Primary && (there == nil || there.IsIndex()):
		return s.peek(f, o.Key, o.Primary)
	case o.Key != o.Primary:
		return there
	}
	// It replaces variants, too, that are on their way to the disk.
	if there != nil && there.IsIndex() && there.RequestedAt.IsZero() && len(there.index.variants) > 0 { // the disk's records don't say it
		newest := s.peek(f, there.index.variants[len(there.index.variants)-1], o.Primary)
		if there = nil; newest != nil && !newest.IsIndex() {
			there = &Object{Key: o.Primary, Primary: o.Primary, RequestedAt: newest.RequestedAt}
		}
	}
	if p := f.pending[o.Primary]; p != nil {
		for _, v := range p.coming {
			if v.Key != o.Primary && (there == nil || there.RequestedAt.Before(v.RequestedAt)) {
				there = &Object{Key: o.Primary, Primary: o.Primary, RequestedAt: v.RequestedAt}
			}
		}
	}
	return there
}

// peek returns what either tier has under the key, which belongs to the primary key, or
// is about to have. It doesn't count as a use. The family's lock is held.
func (s *Store) peek(f *family, k, primary Key) *Object {
	p := f.pending[primary]
	if p != nil {
		if o := p.comes(k); o != nil {
			return o
		}
	}
	if o := s.memory.peek(k); o != nil {
		return o
	}
	if p != nil && p.deletes(k, primary) {
		return nil
	}
	if o, ok := s.disk.Peek(k); ok {
		return o
	}
	return nil
}

// putDisk makes o an object of the disk by put, and takes what it supersedes out of
// memory. It's called with the family's lock and gives it up. If the disk doesn't begin
// in time, nothing changes. If it has begun, but doesn't come to an end, late is closed
// when it does: o may be kept then all the same.
func (s *Store) putDisk(f *family, o *Object, put func(*Object) Rejection) (r Rejection, late <-chan struct{}) {
	var result Rejection // not r, which is returned before it's known
	c := s.writeToDisk(f, o, nil, func() Rejection { return put(o) }, func(said Rejection, current bool) {
		if result = said; said == Kept && current {
			s.onDisk(f, o)
		}
	})
	c.p.coming = append(c.p.coming, o)
	f.mu.Unlock()
	switch {
	case s.await(f, c):
		return result, nil
	case f.withdraw(c):
		return SwitchedOff, nil
	}
	return SwitchedOff, c.done
}

// onDisk takes out of memory what o supersedes, which is on the disk now. The family's
// lock is held.
func (s *Store) onDisk(f *family, o *Object) {
	if len(o.VaryNames) == 0 {
		s.deleteMemory(o.Primary) // the disk deals with its own variants
		return
	}
	s.seed(f, o.Primary)
	_, dropped, _ := s.memory.addVariant(o, s.maxVariants, nil)
	s.memory.Delete(o.Key)
	s.drop(dropped)
	s.deleteFromDisk(f, o.Primary, dropped...)
}

// seed gives memory the index that the disk has for the primary key, unless
// memory has something there. It reports whether the disk has a response that
// doesn't vary instead. The family's lock is held.
func (s *Store) seed(f *family, primary Key) (covered bool) {
	if p := f.pending[primary]; p != nil && p.deletes(primary, primary) {
		return false
	}
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
