package lb

import (
	"slices"
	"sync"
	"time"
)

// Trail is what became of one request, as far as it is known. It may be read at
// any time; [Record.Done] says whether more will come.
type Trail struct {
	mu  sync.Mutex
	rec Record
}

// Record is a trail's content. The zero value means that no balancer saw the
// request.
type Record struct {
	Host     string
	Pools    []PoolStep    // all of the host's, in order of preference
	Origins  []OriginStep  // all of these pools', in order of configuration
	Attempts []AttemptStep // in order of time
	// Pool, Policy and Origin are of the response that was passed on, or of the
	// last attempt if there is none.
	Pool   string
	Policy Policy
	Origin string
	// Panic is set when the request was sent although no origin was eligible.
	Panic bool
	// NoKey is set when a hash policy had nothing to go by and chose at random.
	NoKey bool
	Done  bool // the response's body has ended, or there is none
}

// Unanswered reports whether a balancer saw the request and got no response for it
// from any origin, not even an error's.
func (r *Record) Unanswered() bool {
	// An earlier attempt's error is passed on if the later ones got nothing.
	answered := func(a AttemptStep) bool { return a.Status != 0 }
	return r.Host != "" && !slices.ContainsFunc(r.Attempts, answered)
}

// PoolStep is what became of one pool.
type PoolStep struct {
	Pool     string
	Eligible int // how many of its origins were
	Minimum  int // how many it needs to be preferred
}

// OriginStep is why one origin was or wasn't used.
type OriginStep struct {
	Pool, Origin string
	State        State // as the balancer last saw it
	Used         bool  // an attempt was made
	// AboveBound is set when a hash policy preferred the key's next origin because
	// this one has more than its share in flight.
	AboveBound bool
}

// String returns the reason as logs and pages show it.
func (o OriginStep) String() string {
	switch {
	case o.Used && o.State != StateHealthy:
		return "used although " + o.State.String()
	case o.Used:
		return "used"
	case o.State != StateHealthy:
		return o.State.String()
	case o.AboveBound:
		return "above its share"
	}
	return "not reached"
}

// AttemptStep is one attempt.
type AttemptStep struct {
	Pool, Origin string
	Remote       string // address and port, "" if there was no connection
	Reused       bool   // the connection had carried a request before
	Start        time.Time
	// FirstByte is how long the response's head took; 0 if it didn't come.
	FirstByte time.Duration
	// Total is how long it took to the end of the body, or to the failure; 0 as
	// long as it goes on.
	Total   time.Duration
	Status  int     // of the response, 0 if there was none
	Failure Failure // why there was none, or why its body broke off
	Error   string  // the cause, "" if nothing failed
	// Next says why another attempt followed a failed one, or why none did; "" if
	// it didn't fail.
	Next string
}

// Record returns a copy of what is known.
func (t *Trail) Record() Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rec
	r.Pools = append([]PoolStep(nil), r.Pools...)
	r.Origins = append([]OriginStep(nil), r.Origins...)
	r.Attempts = append([]AttemptStep(nil), r.Attempts...)
	return r
}

// Read calls f with what is known, without a copy. f must neither keep nor change it, and
// has to be quick: the request waits for it.
func (t *Trail) Read(f func(*Record)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.rec)
}

// The methods below note what happens. They do nothing for a nil trail.

// planned notes a plan's pools and origins, in place of an earlier plan's.
func (t *Trail) planned(host string, p *plan) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	attempts := t.rec.Attempts
	if t.rec.Done {
		attempts = nil // of another round trip
	}
	t.rec = Record{Host: host, Panic: p.mode == modePanic, Attempts: attempts}
	for i, g := range p.groups {
		r := p.rings[i]
		t.rec.Pools = append(t.rec.Pools, PoolStep{g.Name, len(r.well.entries), g.MinimumHealthy})
		for j, s := range g.servers {
			t.rec.Origins = append(t.rec.Origins, OriginStep{Pool: g.Name, Origin: s.id, State: r.states[j]})
		}
	}
}

// origin finds the step of an origin. It needs t.mu.
func (t *Trail) origin(g *group, id string) *OriginStep {
	for i := range t.rec.Origins {
		if o := &t.rec.Origins[i]; o.Origin == id && o.Pool == g.Name {
			return o
		}
	}
	return &OriginStep{} // of an earlier plan
}

func (t *Trail) skipped(g *group, s *server, state State) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.origin(g, s.id).State = state
}

// attempt notes that one begins.
func (t *Trail) attempt(l *lease, p *plan) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	l.step = len(t.rec.Attempts)
	t.rec.Attempts = append(t.rec.Attempts, AttemptStep{Pool: l.group.Name, Origin: l.server.id, Start: l.start})
	t.rec.Pool, t.rec.Policy, t.rec.Origin = l.group.Name, l.group.Policy, l.server.id
	t.rec.Panic, t.rec.NoKey = p.panicking(), p.noKey
	t.origin(l.group, l.server.id).Used = true
	if i := p.seq.crowded - 1; i >= 0 && p.cur == l.group {
		t.origin(l.group, l.group.servers[p.seq.set.entries[i].index].id).AboveBound = true
	}
}

// cancelled takes the last attempt back: it wasn't made.
func (t *Trail) cancelled(l *lease) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rec.Attempts = t.rec.Attempts[:l.step]
	t.origin(l.group, l.server.id).Used = false
}

// failed notes why an attempt failed, and what follows.
func (t *Trail) failed(l *lease, next string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.result(l)
	a.Next = next
	if l.res == nil {
		a.Total = l.headAt - l.began
		a.fail(l.err)
	}
}

func (a *AttemptStep) fail(err error) {
	if err != nil {
		a.Failure, a.Error = FailureOf(err), clipped(err.Error())
	}
}

// result notes what is known when a head came, or none. It needs t.mu.
func (t *Trail) result(l *lease) *AttemptStep {
	a := &t.rec.Attempts[l.step]
	a.Remote, a.Reused = l.info.remote(), l.info.Reused
	if l.res != nil {
		a.Status, a.FirstByte = l.res.StatusCode, l.headAt-l.began
	}
	return a
}

// delivered notes whose response is passed on.
func (t *Trail) delivered(l *lease) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result(l)
	t.rec.Pool, t.rec.Policy, t.rec.Origin = l.group.Name, l.group.Policy, l.server.id
}

// ended notes the end of an attempt's body.
func (t *Trail) ended(l *lease, err error) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	a := &t.rec.Attempts[l.step]
	a.Total = l.call.b.clock() - l.began
	if a.Failure == FailureNone {
		a.fail(err)
	}
}

// done notes that nothing will follow.
func (t *Trail) done() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rec.Done = true
}
