package admission

// Permit is the right to do the admitted work. Pass it by value. The zero value
// is none.
type Permit struct {
	l    *Limiter
	slot uint32
	gen  uint32
	cost int32
}

// Cost returns what the permit takes of the ceilings, 0 if it is none. It is
// less than was asked for if that was more than could ever fit.
func (p Permit) Cost() int { return int(p.cost) }

// Release gives the permit back, and hands what becomes free to those who wait.
// Only the first call on a permit or any copy of it does something, so it can be
// deferred besides being called early. Call it when the work has ended: for a
// response, when its body has. It never blocks.
func (p Permit) Release() {
	if p.l != nil {
		p.l.release(p)
	}
}

// permits remembers what each permit took. A slot is used again with another
// generation, by which a second release is told from the first one of the next
// permit. Generations are odd while the permit is out.
type permits struct {
	slots []slot
	free  uint32 // index+1 of the first free one
}

type slot struct {
	gen   uint32
	next  uint32 // index+1 of the next free one
	cost  int32
	route uint16
	rank  uint16
}

func (p *permits) issue(rank, route int, cost int64) (index, gen uint32) {
	if p.free == 0 {
		p.slots = append(p.slots, slot{})
		p.free = uint32(len(p.slots))
	}
	index = p.free - 1
	s := &p.slots[index]
	p.free = s.next
	s.gen++
	s.cost, s.route, s.rank = int32(cost), uint16(route), uint16(rank)
	return index, s.gen
}

// retire returns what the permit took, valid until the next one is issued; nil if
// it was given back before. It returns no copy: reading a slot as a whole right
// after its parts were written would wait for all of them.
func (p *permits) retire(index, gen uint32) *slot {
	s := &p.slots[index]
	if s.gen != gen {
		return nil
	}
	s.gen++
	s.next, p.free = p.free, index+1
	return s
}
