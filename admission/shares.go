package admission

import "strings"

// shares counts what each tenant has in flight.
type shares struct {
	byName map[string]*share
	weight int64 // of all tenants with something in flight

	// Tenants with nothing in flight are remembered for a while, only so that
	// those that come again and again cost no allocation. Oldest first.
	firstIdle, lastIdle *share
	idle                int
}

// keepShares is how many tenants with nothing in flight are remembered.
const keepShares = 1024

type share struct {
	name           string
	inFlight       int64
	weight         int64
	earlier, later *share // while idle
}

func weightOf(a *Arrival) int64 { return int64(min(max(a.Weight, 1), MaxWeight)) }

// above reports whether a tenant has its share of what is to be shared in flight
// already, and floor as well.
func (s *shares) above(a *Arrival, floor, shared int64) bool {
	t := s.byName[a.Tenant]
	if t == nil || t.inFlight < floor {
		return false
	}
	w := weightOf(a)
	return t.inFlight >= shared*w/(s.weight-t.weight+w)
}

func (s *shares) enter(a *Arrival) *share {
	t := s.byName[a.Tenant]
	switch {
	case t == nil:
		// The name may be part of something bigger.
		t = &share{name: strings.Clone(a.Tenant)}
		s.byName[t.name] = t
	case t.inFlight == 0:
		s.unlist(t)
	}
	w := weightOf(a)
	s.weight += w - t.weight
	t.weight = w
	t.inFlight++
	return t
}

func (s *shares) leave(t *share) {
	t.inFlight--
	if t.inFlight > 0 {
		return
	}
	s.weight -= t.weight
	t.weight = 0
	t.earlier = s.lastIdle
	if s.lastIdle == nil {
		s.firstIdle = t
	} else {
		s.lastIdle.later = t
	}
	s.lastIdle = t
	s.idle++
	if s.idle > keepShares {
		t = s.firstIdle
		s.unlist(t)
		delete(s.byName, t.name)
	}
}

func (s *shares) unlist(t *share) {
	if t.earlier == nil {
		s.firstIdle = t.later
	} else {
		t.earlier.later = t.later
	}
	if t.later == nil {
		s.lastIdle = t.earlier
	} else {
		t.later.earlier = t.earlier
	}
	t.earlier, t.later = nil, nil
	s.idle--
}
