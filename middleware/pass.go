package middleware

import (
	"context"
	"net/http"
	"time"

	"github.com/weirhttp/weir/trace"
)

// pass lets the wrapped handler answer the client itself, on the request's own
// goroutine and with the client's own writer, wrapped only as far as needed. It needs
// a permit for that, like everything that reaches the handler.
func (x *exchange) pass(status trace.Status, forward trace.Forward, why reason) {
	received, ok := x.receiveBody(status)
	if !ok {
		return
	}
	defer received.release(x.r)
	permit, ok := x.admit()
	if !ok {
		return
	}
	rec := x.rec
	rec.Cache.Status, rec.Cache.Reason, rec.ForwardReason = status, string(why), forward
	rec.Cache.NotStored = string(whyPassed)
	pw := &passWriter{w: x.w, asked: time.Now(), permit: permit, timed: x.r.ContentLength == 0 || received.whole()}
	pw.x.Store(x)
	defer pw.release() // rules of the application may panic before the handler is called
	r := x.withoutBarred()
	ctx, trail := x.balanced(x.guarded(r.Context()), x.key)
	x.trail, pw.trail = trail, trail
	if trace.FromContext(ctx) == nil && x.h.cfg.Hook != nil {
		// The handler may keep its context longer than the exchange lives.
		own := *rec
		x.ownRec, rec, x.rec = trace.Record{}, &own, &own
		ctx = trace.NewContext(ctx, rec)
	}
	key, in, counts := x.countsAsFetch(why, r)
	if pw.mayCapture = counts && x.capturing(); pw.mayCapture {
		ctx = onServer(ctx)
	}
	if counts {
		x.passed = x.asFetch(key, &in, r, pw.asked)
		defer x.passed.flight.Finish(nil)
	}
	if pw.mayCapture || r.Method == http.MethodHead {
		pw.keepApart()
	}
	pw.watchWrites(x)
	defer pw.watchRequestBody(x, r)()
	own := handlersOwn(r, ctx)
	returned := false
	defer func() { x.endPass(pw, own, rec, returned) }()
	x.h.next.ServeHTTP(pw, own)
	pw.finish()
	returned = true
	if pw.capture != nil {
		pw.capture.store(x, r)
	}
}

// withoutBarred is the client's request without the fields that don't reach handlers.
func (x *exchange) withoutBarred() *http.Request {
	if !x.barrier.strip && x.facts&hasH2C == 0 {
		return x.r
	}
	r := x.r.WithContext(x.r.Context())
	r.Header = r.Header.Clone()
	if x.barrier.strip {
		stripBarrier(r.Header)
	}
	if x.facts&hasH2C != 0 {
		ignoreH2C(r.Header)
	}
	return r
}

// endPass cleans up when the handler has returned, or has panicked.
func (x *exchange) endPass(pw *passWriter, own *http.Request, rec *trace.Record, returned bool) {
	pw.watch.stop()
	if x.r.MultipartForm == nil {
		x.r.MultipartForm = own.MultipartForm // the server removes its files
	}
	if !returned {
		rec.Outcome = trace.Aborted
		if pw.endless && x.r.Method != http.MethodHead {
			cut(pw.w, x.r)
		}
	}
	if pw.watch.late() || pw.body.cutOff() {
		rec.Outcome = trace.ClientGone
	}
	if pw.capture != nil {
		pw.capture.drop()
	}
	pw.release()
}

// handlersOwn is r as the wrapped handler gets it, who may change URL and header: some
// routers do. Whatever is decided later goes by what was asked. Trailers stay shared,
// because the server fills them in while the body is read.
func handlersOwn(r *http.Request, ctx context.Context) *http.Request {
	own, u := r.WithContext(ctx), *r.URL
	own.URL, own.Header = &u, r.Header.Clone()
	return own
}
