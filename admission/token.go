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

// tokens remembers what each token stands for. As with permits, a slot is used
// again with another generation.
type tokens struct {
	slots []tokenSlot
	free  uint32 // index+1 of the first free one
}

type tokenSlot struct {
	share *share // nil unless it is a tenant's
	gen   uint32
	next  uint32 // index+1 of the next free one
	probe bool
	out   bool
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
	k.share, k.probe, k.out = s, probe, true
	return index, k.gen
}

// retire returns what the token stood for; not ok if it was given back before.
func (t *tokens) retire(index, gen uint32) (tokenSlot, bool) {
	k := &t.slots[index]
	if !k.out || k.gen != gen {
		return tokenSlot{}, false
	}
	was := *k
	k.out, k.share = false, nil
	k.next, t.free = t.free, index+1
	return was, true
}
