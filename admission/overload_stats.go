package admission

import "time"

// OverloadStats is what an [Overload] holds and has done, in requests.
type OverloadStats struct {
	InFlight int
	Tenants  int // that have something in flight
	Probes   int // in flight
	// Level is the higher one of what requests in flight and lag call for.
	Level Level
	// Lag is what nine of ten goroutines waited less than before they ran, in the
	// last window; 0 if that is off or unknown.
	Lag time.Duration
	// Open is the part, from 0 to 1, that the lag lets in: of the tenants' shares
	// in Busy, and of their clients too in Recovering. 1 when it's calm.
	Open float64

	Admitted uint64 // since the guard was made
	// Refused counts refusals since the guard was made, by [Reason].
	Refused map[Reason]uint64
}

// Stats returns the numbers of one instant. It allocates.
func (o *Overload) Stats() OverloadStats {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := OverloadStats{
		InFlight: int(o.inFlight),
		Tenants:  len(o.tenants.byName) - o.tenants.idle,
		Probes:   int(o.probes),
		Level:    o.lag.level,
		Lag:      o.lag.lag,
		Open:     float64(o.lag.open) / openAll,
		Admitted: o.admitted,
		Refused:  map[Reason]uint64{},
	}
	switch {
	case o.inFlight >= o.config.limit:
		s.Level = Shedding
	case o.inFlight >= o.config.knee:
		s.Level = max(s.Level, Busy)
	}
	for reason, n := range o.refused {
		if n > 0 {
			s.Refused[Reason(reason)] = n
		}
	}
	return s
}
