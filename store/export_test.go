package store

// EvictMemory drops all that is in memory, as if there were no room for it.
func (s *Store) EvictMemory() { s.memory.cache.InvalidateAll() }

// StopBehind makes the store write nothing more behind the requests, as if too
// much waited always.
func (s *Store) StopBehind() {
	s.behind.mu.Lock()
	defer s.behind.mu.Unlock()
	s.behind.ended = true
}
