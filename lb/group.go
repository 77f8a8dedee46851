package lb

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// shared is what of a pool outlives options.
type shared struct {
	health *health
	turn   atomic.Uint64 // of inTurns
	budget budget
	links  map[string]*link // by originConfig.key; the balancer's lock guards it
}

func newShared(clock func() time.Duration) *shared {
	s := &shared{health: newHealth(clock), links: map[string]*link{}}
	// Proxies that start together don't all begin with the first origin.
	s.turn.Store(rand.Uint64() >> 1)
	return s
}

// server is an origin in one state of the options.
type server struct {
	id    string
	key   string
	admin State // StateHealthy if nothing is said
	limit int32
	host  string // what is sent as Host, "" for the visitor's
	entry entry
	cond  *condition
	link  *link
}

// state is how the origin stands, and its share in slow start.
func (s *server) state(now time.Duration) (State, int) {
	if s.admin != StateHealthy {
		return s.admin, fullShare
	}
	return s.cond.state(now)
}

// group is a pool in one state of the options. It is immutable but for its ring.
type group struct {
	*poolConfig
	servers []*server
	shared  *shared

	ring   atomic.Pointer[ring]
	ringMu sync.Mutex
	stale  atomic.Bool // an origin was found in another state than the ring's
}

// ringAge is for how long a ring is used. A change for the worse is noticed at
// once, when the origin's turn comes; one for the better this much later.
const ringAge = 100 * time.Millisecond

// ring is a pool's origins by state at one time, ready for the policies. It is
// immutable.
type ring struct {
	built   time.Duration
	states  []State
	shares  []uint8
	well    set
	sick    set // for panic
	warming set // for panic, after sick
}

// current returns a ring that isn't too old. fresh asks for one of this instant.
func (g *group) current(now time.Duration, fresh bool) *ring {
	r := g.ring.Load()
	if r != nil && !fresh && now-r.built < ringAge && !g.stale.Load() {
		return r
	}
	g.ringMu.Lock()
	defer g.ringMu.Unlock()
	if last := g.ring.Load(); last != r && last.built >= now {
		return last // somebody else made it meanwhile
	}
	g.stale.Store(false)
	r = g.build(g.ring.Load(), now)
	g.ring.Store(r)
	return r
}

// build makes a ring. It keeps the last one's sets if nothing has changed.
func (g *group) build(last *ring, now time.Duration) *ring {
	r := &ring{built: now, states: make([]State, len(g.servers)), shares: make([]uint8, len(g.servers))}
	same := last != nil
	for i, s := range g.servers {
		state, share := s.state(now)
		r.states[i], r.shares[i] = state, uint8(share)
		same = same && last.states[i] == state && last.shares[i] == r.shares[i]
	}
	if same {
		r.well, r.sick, r.warming = last.well, last.sick, last.warming
		return r
	}
	var well, sick, warming []entry
	for i, s := range g.servers {
		e := s.entry
		e.share = r.shares[i]
		switch r.states[i] {
		case StateHealthy:
			well = append(well, e)
		case StateUnhealthy, StateEjected, StateCircuitOpen:
			sick = append(sick, e)
		case StateWarmingUp:
			warming = append(warming, e)
		}
	}
	r.well, r.sick, r.warming = newSet(well), newSet(sick), newSet(warming)
	return r
}

// noticeChange has the next request look at all origins if this one's state isn't
// the ring's any more.
func (g *group) noticeChange(s *server, now time.Duration) {
	if r := g.ring.Load(); r != nil {
		if state, _ := s.state(now); r.states[s.entry.index] != state {
			g.stale.Store(true)
		}
	}
}
