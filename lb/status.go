package lb

import "time"

// PoolStatus is how a pool is, for status pages and metrics.
type PoolStatus struct {
	Name     string
	Policy   Policy
	Eligible int // how many origins may be given requests
	Minimum  int // how many it needs to be preferred
	Origins  []OriginStatus
}

// OriginStatus is how an origin is.
type OriginStatus struct {
	ID, Address string
	Weight      int
	State       State
	// Share is what slow start leaves it of its turns, from 1 to 16 sixteenths.
	Share int
	// InFlight is how many requests it has, up to their bodies' end; Limit how many
	// it may have, 0 for any number.
	InFlight, Limit int
	// Latency is the moving average of what its first bytes took, failures included
	// as slow ones; 0 if nothing was measured.
	Latency time.Duration
	// Trouble is the reason of the last change of its health for the worse, "" if
	// there was none.
	Trouble string
}

// Status returns all pools in the order of the options. It takes a lock for each
// origin: ask every second, not every request.
func (b *Balancer) Status() []PoolStatus {
	now, wall := b.clock(), stamp(time.Now())
	var out []PoolStatus
	for _, g := range b.view.Load().all {
		p := PoolStatus{Name: g.Name, Policy: g.Policy, Minimum: g.MinimumHealthy}
		for i, s := range g.servers {
			state, share := s.state(now)
			if state == StateHealthy {
				p.Eligible++
			}
			o := OriginStatus{
				ID: s.id, Address: g.origins[i].Address, Weight: g.origins[i].Weight, State: state, Share: share,
				InFlight: int(s.entry.load.inFlight.Load()), Limit: int(s.limit),
				Latency: time.Duration(s.entry.load.latency.estimate(wall)) * time.Microsecond,
				Trouble: s.cond.trouble(),
			}
			if g.origins[i].MaxConnections < 0 {
				o.Limit = 0
			}
			p.Origins = append(p.Origins, o)
		}
		out = append(out, p)
	}
	return out
}
