package middleware

import (
	"net/http"
	"time"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/admission/guard"
	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/lb"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/store/flight"
	"github.com/weirhttp/weir/trace"
)

// Lanes keep requests apart whose responses are judged differently: that an
// answer to a request with credentials couldn't be shared says nothing about
// those without.
const (
	laneAnonymous flight.Lane = iota
	laneCredentials
	laneRefresh // background refreshes, held back after a failed one
	laneRange   // ranges of objects too large to be stored
)

// exchange is one request on its way through the pipeline. It belongs to the
// request's goroutine and is reused after it: nothing may keep it.
type exchange struct {
	h     *handler
	w     http.ResponseWriter
	r     *http.Request
	route *route
	now   time.Time
	seq   uint64 // purges before x came

	facts     facts
	asked     rfc9111.RequestDirectives
	barrier   barrier
	cookies   bool // carries cookies that may shape the response
	in        cachekey.Input
	key       store.Key
	memoise   bool   // the key isn't remembered yet, but may be
	selecting []byte // canonical text of the selecting fields looked up last

	// What earlier rounds taught.
	variesBy []string // selecting fields learned from another's fetch
	alone    bool     // another's response couldn't be shared
	rounds   int

	lost int // stored bodies that couldn't be read

	inFlight clientToken     // of the client's bound
	token    admission.Token // of the overload guard
	asker    guard.Request   // who the rates are counted for

	mayPurge *purgeVerdict // nil unless admission had to know
	writing  writeWatch    // of the client; its timer outlives the request

	file     store.File // of the stored body that is being sent; nil if it's in memory
	hold     *fetch     // that may have to end before the request does
	trail    *lb.Trail  // what a balancer behind the wrapped handler did; nil if x didn't get there
	passed   *fetch     // as which a request that is handed on counts; nil if its answer tells nothing
	typed    bool       // an outer handler had set a Content-Type
	headSent bool
	aborted  bool // the client's connection is to be cut
	debug    bool
	rec      *trace.Record
	ownRec   trace.Record
}

func begin(h *handler, w http.ResponseWriter, r *http.Request) *exchange {
	x, ok := h.exchanges.Get().(*exchange)
	if !ok {
		x = new(exchange)
		x.writing.cutOff = x.cutWriter
		h.noteUnused() // here, where it costs other requests nothing
	}
	x.h, x.w, x.r = h, w, r
	x.route = h.cfg.def
	x.now = time.Now()
	x.seq = h.purges.list.Now()
	x.rec = &x.ownRec
	if rec := trace.FromContext(r.Context()); rec != nil {
		x.rec = rec
	}
	if h := w.Header(); len(h) > 0 {
		_, x.typed = h["Content-Type"]
	}
	x.rec.Method, x.rec.Start = r.Method, x.now
	x.rec.Cache.Route, x.rec.Cache.Zone = x.route.name, h.zone
	x.debug = h.cfg.Debug != nil && h.cfg.Debug(r)
	return x
}

// end hands the record to the hook and the exchange back to the pool. It runs
// on panics too.
func (x *exchange) end() {
	defer x.letGo() // even if the hook panics
	x.noteOrigins()
	if hook := x.h.cfg.Hook; hook != nil {
		x.rec.Duration = time.Since(x.rec.Start)
		hook(x.rec)
	}
}

// letGo gives back what x has taken, and x itself.
func (x *exchange) letGo() {
	x.inFlight.leave()
	x.token.Leave()
	pool := &x.h.exchanges
	x.reset()
	pool.Put(x)
}

// reset lets go of everything that belongs to the request.
func (x *exchange) reset() {
	x.writing.end() // of a writer that panicked
	x.h, x.w, x.r, x.route = nil, nil, nil, nil
	x.facts, x.asked = 0, rfc9111.RequestDirectives{}
	x.barrier = barrier{}
	x.cookies, x.memoise, x.alone, x.typed, x.headSent, x.aborted, x.debug = false, false, false, false, false, false, false
	x.in, x.key = cachekey.Input{}, store.Key{}
	x.selecting = x.selecting[:0]
	if cap(x.selecting) > maxKeptText {
		x.selecting = nil
	}
	x.inFlight = clientToken{}
	x.token, x.asker, x.mayPurge = admission.Token{}, guard.Request{}, nil
	x.variesBy, x.rounds, x.lost, x.hold, x.passed, x.trail = nil, 0, 0, nil, nil, nil
	x.closeFile()
	x.rec = nil
	x.ownRec.Reset()
}

// maxKeptText bounds the buffer that a pooled exchange keeps: one odd request
// must not make the pool hold its memory for ever.
const maxKeptText = 8 << 10

// lane is the lane in which x claims its key.
func (x *exchange) lane() flight.Lane {
	if x.cookies || x.facts&hasAuthorization != 0 {
		return laneCredentials
	}
	return laneAnonymous
}
