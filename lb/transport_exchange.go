package lb

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// What an exchange is doing, as its watch sees it.
const (
	progress   uint32 = 1 << iota // something moved since the last look
	clientRead                    // the visitor is waited for
	sent                          // the request was taken as a whole
	head                          // the response's head came
	reading                       // somebody waits for the response's body
)

var errExpired = errors.New("no progress")

// exchange is one request on one connection, and on no other one later: its watch
// may look at it once more when it is over. It is the response's body too.
type exchange struct {
	t    *transport
	c    *conn
	orig *http.Request
	req  http.Request // ours to change
	url  url.URL
	send sendBody
	body io.ReadCloser

	flags   atomic.Uint32
	expired atomic.Uint32 // the Failure that the watch saw
	seen    time.Time     // when the watch last saw progress; the watch's own
	done    atomic.Bool
	began   time.Time // on this connection

	sentBefore, gotBefore int64 // of an HTTP/1 connection

	cancel context.CancelCauseFunc // of HTTP/2
	timer  *time.Timer             // of HTTP/2
}

// run sends the request on c and waits for the response's head.
func (x *exchange) run(ctx context.Context, c *conn, reused bool) (*http.Response, *TransportError) {
	outer := ctx
	x.c, x.began = c, time.Now()
	if c.http2() {
		ctx, x.cancel = context.WithCancelCause(ctx)
		x.req = *x.req.WithContext(ctx)
	} else {
		x.sentBefore, x.gotBefore = c.raw.sent.Load(), c.raw.got.Load()
	}
	x.flags.Or(progress)
	x.watch()
	res, err := c.cc.RoundTrip(&x.req)
	if err != nil {
		failed := x.failure(outer, err, reused)
		x.finish(!c.http2() || failed.resets())
		return nil, failed
	}
	x.t.silence.answered(c)
	if err := unacceptable(x.orig, res); err != nil {
		if res.Body != nil {
			res.Body.Close()
		}
		x.finish(true)
		return nil, &TransportError{Origin: x.t.target.authority(), Failure: FailureProtocol, Reused: reused, Wrote: true, Err: err}
	}
	x.flags.Or(progress | head)
	if c.learning.Load() {
		x.t.pool.learned(c)
	}
	res.Request = x.orig
	if res.TLS == nil {
		res.TLS = c.tls
	}
	switch {
	case isUpgrade(res):
		c.tunnel.Store(true)
		x.finish(true) // the tunnel's owner closes the connection
	case res.Body == nil || res.Body == http.NoBody:
		x.finish(x.unsent())
	default:
		x.body = res.Body
		res.Body = x
	}
	return res, nil
}

var (
	errStatusRange    = errors.New("a status outside of 100 to 999")
	errUnaskedUpgrade = errors.New("a switch to a protocol that wasn't asked for")
)

// unacceptable returns what is wrong with a response's head that net/http lets
// pass: nobody could do anything with it.
func unacceptable(req *http.Request, res *http.Response) error {
	if res.StatusCode < 100 || res.StatusCode > 999 { // net/http's server would panic
		return errStatusRange
	}
	if err := unspace(res.Header); err != nil {
		return err
	}
	if res.StatusCode == http.StatusSwitchingProtocols && !(isUpgrade(res) && asksFor(req, res.Header.Get("Upgrade"))) {
		return errUnaskedUpgrade
	}
	return nil
}

// Read reads the response's body.
func (x *exchange) Read(p []byte) (int, error) {
	x.flags.Or(reading | progress)
	n, err := x.body.Read(p)
	if err == nil {
		x.flags.And(^reading)
		return n, nil
	}
	if err == io.EOF {
		x.finish(x.unsent())
		return n, io.EOF
	}
	failed := x.bodyFailure(err)
	x.finish(!x.c.http2() || failed.resets())
	return n, failed
}

// Close ends the response's body. Before its end, that closes an HTTP/1
// connection and resets an HTTP/2 stream.
func (x *exchange) Close() error {
	err := x.body.Close()
	x.finish(x.c.http2())
	return err
}

// finish gives the connection back, once. broken says of an HTTP/1 connection that it
// must not be used again, and of an HTTP/2 one that the stream was reset.
func (x *exchange) finish(broken bool) {
	if !x.done.CompareAndSwap(false, true) {
		return
	}
	if x.c.http2() {
		if x.timer != nil {
			x.timer.Stop()
		}
		x.cancel(nil)
	} else if !x.c.current.CompareAndSwap(x, nil) {
		broken = true
	}
	x.t.pool.release(x.c, broken)
}

// failure tells why there is no response.
func (x *exchange) failure(ctx context.Context, err error, reused bool) *TransportError {
	e := &TransportError{Origin: x.t.target.authority(), Reused: reused, Wrote: true, Err: err}
	var got bool
	if !x.c.http2() {
		e.Wrote = x.c.raw.sent.Load() != x.sentBefore
		got = x.c.raw.got.Load() != x.gotBefore
	} else if isUnusable(err) {
		e.Wrote = false
	}
	ended := x.send.ended(ctx)
	switch expired := Failure(x.expired.Load()); {
	case expired != FailureNone:
		e.Failure, e.Err = expired, errExpired
	case errors.Is(ended, context.DeadlineExceeded):
		e.Failure = FailureDeadline
	case ended != nil:
		e.Failure = FailureCanceled
	case x.send.failed() != nil:
		e.Failure, e.Err = FailureRequest, x.send.failed()
	case x.c.http2():
		e.Failure, e.excused = http2Failure(err), isRefusedByPeer(err) || x.c.fedUp(err)
	case !got && !e.Wrote && x.c.cc.Err() == nil, !got && isRefusedHere(err):
		e.Failure = FailureRequest
	case !got:
		e.Failure = FailureClosed
	// net/http may say that half a head is malformed; or a write fails before the read.
	case x.c.raw.lost.Load(), isLost(err):
		e.Failure = FailureHeadCut
	default:
		e.Failure = FailureProtocol
	}
	e.late = time.Since(x.began) > staleFor(x.c.took)
	if (e.Failure == FailureClosed || e.Failure == FailureHeadCut) && !e.Stale() && x.uploading() {
		e.Failure = FailureUpload
	}
	return e
}

// uploading reports whether the origin has begun to get a body that the visitor
// hasn't sent to its end.
func (x *exchange) uploading() bool { return x.send.begun() && x.flags.Load()&sent == 0 }

// unsent reports whether a stream was reset since the response is whole and the request
// isn't.
func (x *exchange) unsent() bool { return x.c.http2() && x.flags.Load()&sent == 0 }

// http2Failure returns the kind of an HTTP/2 error before the response's head.
func http2Failure(err error) Failure {
	var se streamError
	switch {
	case isRefusedHere(err):
		return FailureRequest
	case isRejected(err):
		return FailureRejected
	case errors.As(err, &se) && se.Code == http2ProtocolError:
		return FailureProtocol
	case errors.As(err, &se), isLost(err), isUnusable(err), strings.Contains(err.Error(), "GOAWAY"):
		return FailureClosed
	}
	return FailureProtocol
}

// How net/http begins to say that it can't send a request, or no more of it. Other
// words than its own come after one of these at most.
var refusedHere = []string{
	"http: invalid ", "http: nil Request", "http: no Host in request", "http: Request.", "http: ContentLength=",
	"net/http: invalid ", "net/http: can't write control character", "net/http: nil Context",
	"net/http: extended connect not supported by peer",
	"http2: invalid ", "http2: request body larger than", "invalid Trailer key ",
}

// isRefusedHere reports whether it is net/http that refused a request, for what is
// wrong with the request.
func isRefusedHere(err error) bool {
	text := strings.TrimPrefix(err.Error(), "net/http: HTTP/1.x transport connection broken: ")
	return isHeaderTooLong(err) || slices.ContainsFunc(refusedHere, func(s string) bool { return strings.HasPrefix(text, s) })
}

// isHeaderTooLong reports whether net/http didn't send a request since its header,
// or trailers, are more than what the HTTP/2 origin says it takes.
func isHeaderTooLong(err error) bool {
	return strings.Contains(err.Error(), "request header list larger than peer's")
}

// isUnusable reports whether an HTTP/2 connection was found dead before anything
// was sent.
func isUnusable(err error) bool {
	return strings.Contains(err.Error(), "client conn not usable") ||
		strings.Contains(err.Error(), "client conn is closed") ||
		strings.Contains(err.Error(), "client conn could not be established")
}

// bodyFailure tells why the response's body ended early.
func (x *exchange) bodyFailure(err error) *TransportError {
	e := &TransportError{Origin: x.t.target.authority(), Failure: FailureBodyCut, Wrote: true, Err: err}
	ctx := x.orig.Context()
	switch expired := Failure(x.expired.Load()); {
	case expired != FailureNone:
		e.Failure, e.Err = expired, errExpired
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		e.Failure = FailureDeadline
	case ctx.Err() != nil:
		e.Failure = FailureCanceled
	case x.uploading():
		e.Failure = FailureUpload
	default:
		e.excused = isRefusedByPeer(err) || x.c.fedUp(err)
	}
	return e
}
