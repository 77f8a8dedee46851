package store

// EvictMemory drops all that is in memory, as if there were no room for it.
func (s *Store) EvictMemory() { s.memory.cache.InvalidateAll() }
