package lb

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A body that has been flowing for this long counts as a success of the origin:
// streams may go on for hours, and a circuit's probe must not wait for their end.
const flowing = 5 * time.Second

// blameAfter is how long an attempt must have lasted before the passing of the
// request's own deadline speaks against the origin. Before, the time went
// elsewhere.
const blameAfter = time.Second

// lease is one attempt's place at an origin, up to the end of the response's body,
// which it is too.
type lease struct {
	call   *call
	group  *group
	server *server
	token  token
	began  time.Duration // on the balancer's clock
	start  time.Time
	step   int // of the trail
	info   attemptInfo
	fresh  bool // it insists on a new connection

	res    *http.Response
	err    error
	failed bool // it counts as a failed attempt
	aside  time.Duration
	headAt time.Duration

	body     io.ReadCloser
	reported sync.Once
	ended    atomic.Bool
}

// send makes the attempt.
func (l *lease) send() {
	c := l.call
	out := new(http.Request)
	*out = *c.req
	url := *c.req.URL
	out.URL = &url
	body, trailer, err := c.bodies.next(c.lastAttempt())
	if err != nil {
		l.headAt = c.b.clock()
		l.err = &TransportError{Failure: FailureRequest, Origin: l.server.link.target.authority(), Err: err}
		l.failed = true
		return
	}
	out.Body, out.Trailer = body, trailer
	if l.server.host != "" {
		out.Host = l.server.host
	}
	l.res, l.err = l.server.link.visitors.roundTrip(out, l.fresh, &l.info)
	l.headAt = c.b.clock()
	if l.err != nil {
		l.failed = true
		l.measureFailure()
		return
	}
	l.res.Request = c.req
	l.failed = slices.Contains(c.first.retry.statuses, l.res.StatusCode)
	if l.res.StatusCode == http.StatusServiceUnavailable {
		l.aside = retryAfter(l.res.Header.Get("Retry-After"), time.Now())
	}
	took := l.headAt - l.began
	if l.group.shared.health.cfg.Load().ejection.counts(l.res.StatusCode) {
		took = max(failurePenalty, l.aside/2)
	}
	l.server.entry.load.latency.observe(took, time.Now())
}

// measureFailure lets a failure count as a slow answer. What the visitor didn't
// wait for was at least as slow as they waited.
func (l *lease) measureFailure() {
	latency, now := &l.server.entry.load.latency, time.Now()
	switch {
	case !l.ownFault():
		latency.observe(failurePenalty, now)
	case FailureOf(l.err) == FailureCanceled:
		if d := l.headAt - l.began; uint64(d.Microseconds()) > latency.estimate(stamp(now)) {
			latency.observe(d, now)
		}
	}
}

// ownFault reports whether the attempt's failure isn't the origin's: the visitor
// went away, the request's body couldn't be read, or a kept connection was closed.
func (l *lease) ownFault() bool {
	if te, ok := errors.AsType[*TransportError](l.err); ok && te.blameless() {
		return true
	}
	switch f := FailureOf(l.err); f {
	case FailureDeadline:
		return l.call.b.clock()-l.began < blameAfter
	default:
		return !f.OriginAtFault()
	}
}

// report tells the pool's health what became of the attempt, once.
func (l *lease) report(err error) {
	l.reported.Do(func() {
		status := 0
		if l.res != nil {
			status = l.res.StatusCode
		}
		own := false
		if err != nil {
			l.err = err
			own = l.ownFault()
		}
		h := l.group.shared.health
		l.server.cond.report(l.token, h.outcome(status, l.aside, err, own), l.call.b.clock())
		l.group.noticeChange(l.server, l.call.b.clock())
	})
}

// end gives the place back, once.
func (l *lease) end(err error) {
	if !l.ended.CompareAndSwap(false, true) {
		return
	}
	if err == nil && errors.Is(l.call.req.Context().Err(), context.Canceled) {
		err = context.Canceled // the visitor left before the body's end
	}
	l.report(err)
	l.server.entry.load.release()
	l.call.notes.ended(l, err)
}

// drop ends an attempt whose response isn't passed on.
func (l *lease) drop() {
	if l.body != nil {
		l.body.Close()
	} else if l.res != nil {
		l.res.Body.Close()
	}
	l.end(l.err)
}

// deliver makes the response one whose body gives the place back.
func (l *lease) deliver() *http.Response {
	res := l.res
	if tunnel, ok := res.Body.(io.ReadWriteCloser); ok && res.StatusCode == http.StatusSwitchingProtocols {
		l.report(nil)
		l.body = res.Body
		t := &tunnelBody{l: l, ReadWriteCloser: tunnel}
		res.Body = t
		// Whoever can't pass a tunnel on may forget it: ReverseProxy does where its
		// client's connection can't be taken over.
		t.forget = context.AfterFunc(l.call.req.Context(), t.end)
		if half, ok := tunnel.(closeWriter); ok {
			res.Body = &halfTunnel{t, half}
		}
		return res
	}
	if res.Body == nil || res.Body == http.NoBody {
		l.end(nil)
		l.call.done()
		return res
	}
	l.body = res.Body
	res.Body = l
	return res
}

// Read reads the response's body.
func (l *lease) Read(p []byte) (int, error) {
	n, err := l.body.Read(p)
	switch {
	case err == io.EOF:
		l.finish(nil)
	case err != nil:
		l.finish(err)
	case l.call.b.clock()-l.headAt > flowing:
		l.report(nil)
	}
	return n, err
}

// Close ends the response's body.
func (l *lease) Close() error {
	err := l.body.Close()
	l.finish(nil)
	return err
}

func (l *lease) finish(err error) {
	if !l.ended.Load() {
		l.end(err)
		l.call.done()
	}
}

// tunnelBody is the body of a 101 response: it ends when it is closed, at the latest
// with the request's context.
type tunnelBody struct {
	l *lease
	io.ReadWriteCloser
	forget func() bool // the context
}

// Close closes the tunnel.
func (t *tunnelBody) Close() error {
	t.forget()
	err := t.ReadWriteCloser.Close()
	t.l.finish(nil)
	return err
}

// end is Close when the context has ended, maybe before there is a forget.
func (t *tunnelBody) end() {
	t.ReadWriteCloser.Close()
	t.l.finish(nil)
}

type closeWriter interface{ CloseWrite() error }

// halfTunnel is a tunnel of which one direction can be closed.
type halfTunnel struct {
	*tunnelBody
	closeWriter
}
