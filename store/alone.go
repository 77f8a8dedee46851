package store

// PutMemory keeps o in memory alone, or says why not; then nothing changes. It's
// for what isn't worth a place on disk, under keys that lead to nothing else: o
// doesn't vary, and is never written to a disk, nor looked for there. It may be
// evicted at any time. allowed is as in [Store.PutIf].
func (s *Store) PutMemory(o *Object, allowed func() bool) Rejection {
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
