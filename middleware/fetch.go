package middleware

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/lb"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/store/flight"
	"github.com/weirhttp/weir/trace"
)

// fetch runs the wrapped handler once, in a goroutine of its own, for all who
// want its response. It's the handler's ResponseWriter (fetchwriter.go): it
// decides at the head (decide.go), fills the shared body, and stores the whole
// at a clean end (commit.go). It holds nothing of any client's connection.
type fetch struct {
	h      *handler
	flight *flight.Flight[*head]
	route  *route
	req    *http.Request // what the handler gets, who may change it
	url    url.URL       // its URL as it was
	asked  http.Header   // the client's fields, for rules and Vary
	ctx    context.Context
	cancel context.CancelCauseFunc

	key         store.Key
	search      searchPlace // where No-Vary-Search lets the response be found
	directives  rfc9111.RequestDirectives
	judged      http.Header   // asked, without cookies that are all in the key
	stale       *store.Object // to be validated, or to stand in
	conditional bool          // the request carries stale's validators
	requestedAt time.Time
	refreshes   *store.Object // what a stored response may take the place of, if it's not nil
	seq         uint64        // purges before the request was sent
	scheme      string        // of the target, as the client meant it
	host        string
	dropped     []string

	trail     *lb.Trail        // what a balancer behind the wrapped handler did
	claim     admission.Claim  // of the permit
	class     admission.Class  // the leader's
	permit    admission.Permit // released when the handler has returned
	admission trace.Admission  // the leader's; set before the decision

	returned chan struct{} // closed when the handler has returned
	interims chan interim
	dog      watchdog

	// The handler's side, on the fetch's goroutine.
	header   http.Header
	wrote    bool // WriteHeader was called
	told     bool // what became of the permit has been told
	status   int
	typed    bool        // an outer handler says the Content-Type where the wrapped one doesn't
	sniff    bool        // the Content-Type is to be found out from the body
	sniffed  http.Header // then, the header at WriteHeader
	held     []byte      // and the body's beginning until then
	head     *head       // made at WriteHeader or later
	decided  bool        // something was published
	late     bool        // the deadline decided before
	discard  bool        // the response's body isn't wanted
	keeping  bool        // the body is to be stored so far
	mismatch bool        // the 304 confirmed something that isn't stored
	failed   atomic.Bool // no new response came of it
	reported error       // by ProxyErrorHandler
}

// refreshBackoff is how long a failed refresh keeps the next one away.
const refreshBackoff = 5 * time.Second

var (
	errFetchTimeout = errors.New("middleware: the response's head didn't come in time")
	errStalled      = errors.New("middleware: the response's body made no progress")
	errDiscarded    = errors.New("middleware: the response's body isn't wanted")
	errBroken       = errors.New("middleware: the response broke off")
)

// newFetch prepares a fetch for x. stale is what is stored already, if anything.
func (h *handler) newFetch(x *exchange, fl *flight.Flight[*head], stale *store.Object) *fetch {
	f := &fetch{
		h: h, flight: fl, route: x.route, key: x.key, stale: stale, directives: x.asked, typed: x.typed,
		header: make(http.Header), interims: make(chan interim, 4), returned: make(chan struct{}),
	}
	ctx := onServer(trace.NewContext(context.WithoutCancel(x.r.Context()), nil)) // the record is the client's
	ctx, f.trail = x.balanced(ctx, f.key)
	f.ctx, f.cancel = context.WithCancelCause(x.guarded(ctx))
	f.makeRequest(x)
	f.search = x.searchPlace(&x.in)
	// The plain cause, which httputil.ReverseProxy knows and doesn't log.
	fl.OnAbandon(func(error) { f.cancel(context.Canceled) })
	return f
}

// start runs the fetch as soon as it's admitted.
func (f *fetch) start() {
	stop := context.AfterFunc(f.h.closing, func() { f.cancel(context.Canceled) })
	f.h.fetches.Go(func() {
		defer stop()
		defer close(f.returned)
		if f.admit() {
			f.run()
		}
	})
}

// setDeadline notes that the request is sent now, and bounds the time until
// the response's head.
func (f *fetch) setDeadline() {
	f.requestedAt, f.seq = time.Now(), f.h.purges.list.Now()
	if d := f.h.cfg.FetchTimeout; d > 0 {
		f.dog.set(d, f.timeOut)
	}
}

// run calls the handler and ends the fetch, whatever the handler does.
func (f *fetch) run() {
	returned := false
	defer func() {
		var value any
		if !returned {
			if value = recover(); value == nil {
				value = fmt.Errorf("middleware: the handler ended its goroutine") // runtime.Goexit
			}
		}
		f.permit.Release()
		f.end(returned, value)
	}()
	req := f.req
	if f.conditional { // then it may be needed again
		req = req.Clone(f.ctx)
	}
	f.h.next.ServeHTTP(f, req)
	if f.conditional && f.wrote && f.status == http.StatusNotModified {
		f.decide() // a response without a body may not have been yet
	}
	if f.mismatch && f.ctx.Err() == nil {
		// A 304 for something that isn't stored: ask again for all of it.
		f.unconditional()
		f.h.next.ServeHTTP(f, f.req)
	}
	returned = true
}

// end brings the fetch to its end: the body is whole, or broken, or there
// never was a response.
func (f *fetch) end(returned bool, value any) {
	defer f.cancel(nil)
	defer f.flight.Finish(&head{kind: failed, errStatus: http.StatusBadGateway, reason: whyNoAnswer})
	f.dog.kill()
	if !returned && value != http.ErrAbortHandler {
		f.logPanic(value)
	}
	switch {
	case f.late:
	case !f.decided:
		f.endWithoutHead(returned, value)
	case f.head.fill == nil: // a stored response was the answer
	case !returned:
		f.breakOff(errBroken)
	case f.reported != nil:
		f.breakOff(f.reported)
	case f.ctx.Err() != nil:
		// A handler that returns because its context ended may have stopped
		// anywhere.
		f.breakOff(context.Cause(f.ctx))
	default:
		f.commit()
	}
	f.holdRefresh()
}

// breakOff ends a body that isn't whole: every reader's connection is cut.
func (f *fetch) breakOff(err error) {
	f.fail()
	f.head.fill.Fail(err)
}

// endWithoutHead decides for a handler that published no head.
func (f *fetch) endWithoutHead(returned bool, value any) {
	switch {
	case !returned:
		f.fail()
		if value == http.ErrAbortHandler {
			if stood, _ := f.standIn(true); stood {
				return
			}
		}
		f.flight.Decide(flight.Released, &head{kind: panicked, panicked: value}, nil)
	case f.reported != nil:
		f.failWith(f.reported)
	case f.ctx.Err() != nil:
		// A handler that returns because its context ended has said nothing.
		f.failWith(context.Cause(f.ctx))
	default:
		if !f.wrote {
			f.WriteHeader(http.StatusOK)
		}
		if len(f.held) > 0 {
			if _, err := f.release(0); err != nil && f.decided && f.head.fill != nil {
				f.breakOff(err)
				return
			}
		}
		if f.decide() && f.head.fill != nil {
			f.commit()
		}
	}
}

// failWith decides that there's no response because of err: a stale one
// stands in, or the clients get 502 or 504. It reports whether it was in time.
func (f *fetch) failWith(err error) bool {
	f.fail()
	if stood, first := f.standIn(true); stood {
		return first
	}
	hd := &head{kind: failed, reason: "the origin can't be reached"}
	hd.errStatus, hd.retry = errorStatus(err)
	switch hd.errStatus {
	case http.StatusGatewayTimeout:
		hd.reason = "the origin didn't answer in time"
	case http.StatusServiceUnavailable, http.StatusMisdirectedRequest:
		hd.reason = reason(err.Error())
	}
	return f.flight.Decide(flight.Released, hd, nil)
}

// timeOut is the deadline for the head. It decides in the handler's place,
// which may go on without noticing.
func (f *fetch) timeOut() {
	f.permit.Failed()
	if f.failWith(errFetchTimeout) {
		f.cancel(errFetchTimeout)
	}
}

// standIn answers with the stored response instead of the failed origin's, if
// that is allowed, and reports whether nothing was decided before. unreachable
// says that there was no response at all. Those who come later ask the origin
// themselves: what stands in may not be allowed to any more.
func (f *fetch) standIn(unreachable bool) (stood, first bool) {
	if f.stale == nil || f.h.verdict(f.stale) == purge.Gone {
		return false, false
	}
	allowed := rfc9111.StaleIfError
	if unreachable {
		allowed = rfc9111.StaleOnDisconnect
	}
	now := time.Now()
	ok, why := allowed(f.h.lifeOf(f.stale, now), f.directives, &f.route.policy, now)
	if ok {
		f.flight.CloseToWaiters()
		first = f.flight.Decide(flight.Shared, &head{kind: staleError, object: f.stale, reason: reason(why.String())}, nil)
	}
	return ok, first
}

// fail notes that no new response came of the fetch. It comes before the decision is
// published: the next stale hit must not start a refresh of its own in between.
func (f *fetch) fail() {
	f.failed.Store(true)
	f.holdRefresh()
}

// holdRefresh keeps stale hits from starting one refresh after the other while
// the origin fails. It counts from the end of the attempt.
func (f *fetch) holdRefresh() {
	if f.failed.Load() && f.stale != nil {
		f.h.flights.Remember(f.flight.Key(), laneRefresh, time.Now().Add(refreshBackoff))
	}
}

func (f *fetch) logPanic(value any) {
	f.h.logger().Error("weir: the wrapped handler panicked",
		"method", f.req.Method, "url", f.url.Redacted(), "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
}
