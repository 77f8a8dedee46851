package admission

// slots remembers what each permit, or token, took until it's given back. A slot is
// used again with another generation, by which a second release is told from the
// first one of the next permit. Generations are odd while the permit is out.
type slots[T any] struct {
	list []slot[T]
	free uint32 // index+1 of the first free one
}

type slot[T any] struct {
	gen  uint32
	next uint32 // index+1 of the next free one
	took T
}

func (s *slots[T]) issue(t T) (index, gen uint32) {
	if s.free == 0 {
		s.list = append(s.list, slot[T]{})
		s.free = uint32(len(s.list))
	}
	index = s.free - 1
	k := &s.list[index]
	s.free = k.next
	k.gen++
	k.took = t
	return index, k.gen
}

// retire returns what the permit took, valid until the next one is issued; nil if it
// was given back before. It returns no copy: reading it as a whole right after its
// parts were written would wait for all of them.
func (s *slots[T]) retire(index, gen uint32) *T {
	k := &s.list[index]
	if k.gen != gen {
		return nil
	}
	k.gen++
	k.next, s.free = s.free, index+1
	return &k.took
}

// out reports whether a permit wasn't given back yet.
func (s *slots[T]) out(index, gen uint32) bool { return s.list[index].gen == gen }
