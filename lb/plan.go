package lb

import (
	"net/http"
	"time"
)

// mode is which origins a request may be sent to.
type mode uint8

const (
	modeWell    mode = iota // eligible ones of pools that have enough
	modeFew                 // eligible ones, since no pool has enough
	modePanic               // sick ones, since there are no eligible ones
	modeWarming             // warming ones, after all sick ones
	modeNone                // nothing
)

// plan is a request's way through its host's pools. It is worked out step by step.
// An origin comes once at most.
type plan struct {
	req    *http.Request
	groups []*group
	rings  []*ring
	v      *view
	now    time.Duration

	mode  mode
	at    int // the group after the current one
	cur   *group
	ring  *ring
	seq   sequence
	noKey bool

	buf [4]*ring // of rings
}

// begin looks at the pools. fresh asks for their states of this instant.
func (p *plan) begin(v *view, groups []*group, req *http.Request, now time.Duration, fresh bool) {
	*p = plan{req: req, groups: groups, v: v, now: now}
	p.rings = p.buf[:0]
	enough, any := false, false
	for _, g := range groups {
		r := g.current(now, fresh)
		if len(r.well.entries) < g.MinimumHealthy && r.built != now {
			r = g.current(now, true) // don't pass over what has recovered
		}
		p.rings = append(p.rings, r)
		enough = enough || len(r.well.entries) >= g.MinimumHealthy
		any = any || len(r.well.entries) > 0
	}
	switch {
	case enough:
	case any:
		p.mode = modeFew
	case v.panics:
		p.mode = modePanic
	default:
		p.mode = modeNone
	}
}

// next returns the next origin to try.
func (p *plan) next() (*server, bool) {
	for {
		if p.cur != nil {
			if i, ok := p.seq.next(); ok {
				return p.cur.servers[p.seq.set.entries[i].index], true
			}
			p.cur = nil
			if p.v.onePool {
				p.mode = modeNone
			}
		}
		if !p.nextGroup() {
			return nil, false
		}
	}
}

// nextGroup goes on to the next pool that has origins for the mode.
func (p *plan) nextGroup() bool {
	for {
		if p.mode == modeNone {
			return false
		}
		if p.at == len(p.groups) {
			if p.at = 0; p.mode != modePanic {
				p.mode = modeNone
				return false
			}
			p.mode = modeWarming
		}
		g, r := p.groups[p.at], p.rings[p.at]
		p.at++
		if s := p.setOf(g, r); s != nil && len(s.entries) > 0 {
			p.cur, p.ring = g, r
			p.start(s)
			return true
		}
	}
}

func (p *plan) setOf(g *group, r *ring) *set {
	switch p.mode {
	case modeWell:
		if len(r.well.entries) < g.MinimumHealthy {
			return nil
		}
		return &r.well
	case modeFew:
		return &r.well
	case modePanic:
		return &r.sick
	}
	return &r.warming
}

// start begins with a group's origins in its policy's order.
func (p *plan) start(s *set) {
	g := p.cur
	key, hasKey := uint64(0), false
	if g.Policy.hashes() {
		key, hasKey = g.hashKey(p.req)
		p.noKey = !hasKey
	}
	p.seq = sequence{set: s, order: g.Policy.orderOf(hasKey), turn: &g.shared.turn, key: key, bound: g.bound}
	if p.seq.order == soonerOfTwo {
		p.seq.now = stamp(time.Now())
	}
}

// origins is how many there are, in all the pools.
func (p *plan) origins() int {
	n := 0
	for _, g := range p.groups {
		n += len(g.servers)
	}
	return n
}

// panicking reports whether the current origin isn't eligible.
func (p *plan) panicking() bool { return p.mode >= modePanic }
