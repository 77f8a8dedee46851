package store

// PutMemory keeps o in memory alone, or says why not; then nothing changes. It's
// for what isn't worth a place on disk, under keys that lead to nothing else: o is
// never written to a disk. It may be evicted at any time. allowed is as in
// [Store.PutIf].
func (s *Store) PutMemory(o *Object, allowed func(there *Object) bool) Rejection {
	r, dropped := s.putMemory(o, allowed)
	s.drop(dropped)
	return r
}

// GetMemory returns what PutMemory keeps under k, or nil. It takes no lock of the
// store's own.
func (s *Store) GetMemory(k Key) *Object {
	o, ok := s.memory.Get(k)
	if !ok || o.index != nil {
		return nil
	}
	return o
}

// DeleteMemory forgets what PutMemory keeps under k.
func (s *Store) DeleteMemory(k Key) { s.memory.Delete(k) }

// DeleteMemoryObject forgets o if it's still what PutMemory keeps under its key, and
// reports whether it was. Of several callers one gets true.
func (s *Store) DeleteMemoryObject(o *Object) bool { return s.memory.removeIf(o) }
