package admission

// Stats is what a [Limiter] holds and has done. Costs are in units of cost, all
// else in requests.
type Stats struct {
	Limit   int // global ceiling as it is now: see [Adaptive]
	InUse   int // cost of all permits; may be above an adaptive Limit
	Waiting int // requests in all queues
	// By [Class].
	Classes [3]ClassStats
	Routes  []RouteStats // as in Options

	Admitted uint64 // since the limiter was made
	// Refused counts refusals since the limiter was made, by [Reason].
	Refused map[Reason]uint64
}

// ClassStats is the part of one class.
type ClassStats struct{ InUse, Waiting int }

// RouteStats is the part of one route.
type RouteStats struct {
	Name                  string
	Limit, InUse, Waiting int
}

// Stats returns the numbers of one instant. It allocates.
func (l *Limiter) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Stats{
		Limit:    int(l.counts.limit),
		InUse:    int(l.counts.used),
		Waiting:  l.waiters,
		Admitted: l.admitted,
		Refused:  map[Reason]uint64{},
	}
	for _, c := range []Class{Normal, Critical, Background} {
		s.Classes[c] = ClassStats{int(l.counts.classes[c.rank()]), l.lines[c.rank()].waiters}
	}
	for i, r := range l.counts.routes[1:] {
		route := RouteStats{Name: l.config.names[i+1], Limit: int(min(r.limit, l.counts.hard)), InUse: int(r.used)}
		for rank := range l.lines {
			route.Waiting += l.lines[rank].queues[i+1].waiters
		}
		s.Routes = append(s.Routes, route)
	}
	for reason, n := range l.refused {
		if n > 0 {
			s.Refused[Reason(reason)] = n
		}
	}
	return s
}
