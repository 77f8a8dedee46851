package lb

import (
	"slices"
	"sync"
	"time"
)

// Trail is what became of one request, as far as it is known. It may be read at
// any time; [Record.Done] says whether more will come.
//
// If several requests share one, as those of a handler that fans out with its
// request's context do, it is the trail of the one that began last.
type Trail struct {
	mu   sync.Mutex
	rec  Record
	turn uint64 // counts the calls; the last one's notes are kept
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
