package guard

import (
	"net/netip"
	"time"
)

// verdicts remembers what was found out about a bounded number of addresses. The
// oldest is forgotten for a new one.
type verdicts struct {
	max  int
	by   map[netip.Addr]int
	ring []verdict
	next int // the slot to use next when the ring is full
}

type verdict struct {
	addr    netip.Addr
	domains sources   // 0: it belongs to none
	again   time.Time // when to look again
	ends    time.Time // when it doesn't hold any longer
}

func (v *verdicts) get(addr netip.Addr) *verdict {
	if i, ok := v.by[addr]; ok {
		return &v.ring[i]
	}
	return nil
}

func (v *verdicts) put(n verdict) {
	if v.by == nil {
		v.by = map[netip.Addr]int{}
	}
	if i, ok := v.by[n.addr]; ok {
		v.ring[i] = n
		return
	}
	if len(v.ring) < v.max {
		v.by[n.addr] = len(v.ring)
		v.ring = append(v.ring, n)
		return
	}
	if old := v.ring[v.next].addr; v.by[old] == v.next {
		delete(v.by, old)
	}
	v.ring[v.next] = n
	v.by[n.addr] = v.next
	v.next = (v.next + 1) % v.max
}

// drop forgets what is known about addr. Its slot stays until its turn comes.
func (v *verdicts) drop(addr netip.Addr) {
	if i, ok := v.by[addr]; ok {
		delete(v.by, addr)
		v.ring[i] = verdict{}
	}
}
