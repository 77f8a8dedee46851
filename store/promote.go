package store

import (
	"errors"
	"slices"
)

// getFromDisk is Get for what isn't in memory.
func (s *Store) getFromDisk(k Key) (*Object, *Index) {
	o, ok := s.look(k)
	switch {
	case !ok:
		return nil, nil
	case !o.IsIndex() && o.BodySize() > s.memory.maxObject:
		return o, nil
	}
	// One at a time: a hundred requests that come at once after a restart must
	// not load a hundred copies. The others are served from the disk.
	f := s.family(&o.Primary)
	if !f.mu.TryLock() {
		return o.asGot()
	}
	defer f.mu.Unlock()
	return s.promote(f, k, o.Primary)
}

// look is the disk's Get without what is to be deleted.
func (s *Store) look(k Key) (*Object, bool) {
	hiding := s.hiding.Load() > 0 // before the look: what is queued later may be found
	o, ok := s.disk.Get(k)
	if !ok || !hiding {
		return o, ok
	}
	// It may have been queued before, and made since.
	f := s.family(&o.Primary)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hides(k, o.Primary) {
		return nil, false
	}
	again, ok := s.disk.Peek(k)
	if ok && again.Primary != o.Primary { // of another family, which isn't locked
		return nil, false
	}
	return again, ok
}

// promote brings what the disk has under k into memory and returns it. Under
// the family's lock nobody deletes or replaces it meanwhile, so it's looked at
// once more and then stays what it is.
func (s *Store) promote(f *family, k, primary Key) (*Object, *Index) {
	if o := s.memory.peek(k); o != nil { // somebody was faster
		return o.asGot()
	}
	if f.hides(k, primary) {
		return nil, nil
	}
	o, ok := s.disk.Get(k)
	if !ok || o.Primary != primary {
		return nil, nil
	}
	if o.IsIndex() {
		return s.memory.setIfAbsent(o.index.fresh(k)).asGot()
	}
	l, ok := s.lineageFor(f, o)
	if !ok || o.BodySize() > s.memory.maxObject || s.memory.refuse(o) != Kept {
		return o, nil
	}
	loaded, err := o.Load()
	if err != nil {
		if !errors.Is(err, ErrUnavailable) {
			s.deleteObjectFromDisk(f, o) // or everyone would try again
		}
		return nil, nil
	}
	if loaded.Weight() > s.memory.maxBytes {
		return loaded, nil
	}
	loaded.lineage.Store(l)
	return s.memory.setIfAbsent(loaded).asGot()
}

// lineageFor returns the lineage to keep an object from the disk in: that of
// the index that memory has for its primary key, if it varies. Without such an
// index it can't be in memory, where a purge wouldn't find it.
func (s *Store) lineageFor(f *family, o *Object) (*lineage, bool) {
	if len(o.VaryNames) == 0 {
		return nil, true
	}
	if s.memory.peek(o.Primary) == nil {
		s.seed(f, o.Primary)
	}
	p := s.memory.peek(o.Primary)
	if p == nil || p.index == nil || !slices.Contains(p.index.variants, o.Key) {
		return nil, false
	}
	return p.index.lineage, true
}

// asGot returns o as Get does.
func (o *Object) asGot() (*Object, *Index) {
	if o.index != nil {
		return nil, o.index
	}
	return o, nil
}
