package lb

import (
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
	Done  bool // the response's body has ended
}

// Unanswered reports whether a balancer saw the request and got no response for it
// from any origin, not even an error's.
func (r *Record) Unanswered() bool {
	return r.Host != "" && (len(r.Attempts) == 0 || r.Attempts[len(r.Attempts)-1].Status == 0)
}

// PoolStep is what became of one pool.
type PoolStep struct {
	Pool     string
	Eligible int // how many of its origins were
	Minimum  int // how many it needs
}

// OriginStep is why one origin was or wasn't used.
type OriginStep struct {
	Pool, Origin string
	State        State // as the balancer last saw it
	Used         bool  // it was sent an attempt
	// AboveBound is set when a hash policy preferred the key's next origin because
	// this one has more than its share in flight.
	AboveBound bool
}

// AttemptStep is one attempt.
type AttemptStep struct {
	Pool, Origin string
	Start        time.Time
	// FirstByte is how long the response's head took; 0 if it didn't come.
	FirstByte time.Duration
	// Total is how long it took to the end of the body, or to the failure; 0 as
	// long as it goes on.
	Total  time.Duration
	Status int    // of the response, 0 if there was none
	Error  string // what failed, "" if nothing did
	// Next says why another attempt followed a failed one, or why none did.
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
