package admission

// Token stands for a request that [Overload.Enter] let in. Pass it by value. The
// zero value is none.
type Token struct {
	o    *Overload
	slot uint32
	gen  uint32
}

// Leave tells that the request's response has ended. Only the first call on a
// token or any copy of it does something. It never blocks.
func (t Token) Leave() {
	if t.o != nil {
		t.o.leave(t)
	}
}

// tokens remembers what each token stands for, as permits does.
type tokens struct {
	slots []tokenSlot
	free  uint32 // index+1 of the first free one
}

type tokenSlot struct {
	gen   uint32
	next  uint32 // index+1 of the next free one
	share *share // nil unless it is a tenant's
	probe bool
}

func (t *tokens) issue(s *share, probe bool) (index, gen uint32) {
	if t.free == 0 {
		t.slots = append(t.slots, tokenSlot{})
		t.free = uint32(len(t.slots))
	}
	index = t.free - 1
	k := &t.slots[index]
	t.free = k.next
	k.gen++
	k.share, k.probe = s, probe
	return index, k.gen
}

// retire returns what the token stood for, valid until the next one is issued;
// nil if it was given back before.
func (t *tokens) retire(index, gen uint32) *tokenSlot {
	k := &t.slots[index]
	if k.gen != gen {
		return nil
	}
	k.gen++
	k.next, t.free = t.free, index+1
	return k
}
