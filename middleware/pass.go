package middleware

import (
	"net/http"
	"time"

	"github.com/weirhttp/weir/trace"
)

// pass lets the wrapped handler answer the client itself, on the request's own
// goroutine and with the client's own writer, wrapped only as far as needed.
func (x *exchange) pass(status trace.Status, forward trace.Forward, why reason) {
	rec := x.rec
	rec.Cache.Status, rec.Cache.Reason, rec.ForwardReason = status, string(why), forward
	rec.Cache.NotStored = string(whyPassed)
	w := x.w
	pw := &passWriter{w: w, asked: time.Now()}
	pw.x.Store(x)
	r := x.r
	if x.barrier.strip || x.facts&hasH2C != 0 {
		r = r.WithContext(r.Context())
		r.Header = r.Header.Clone()
		if x.barrier.strip {
			stripBarrier(r.Header)
		}
		if x.facts&hasH2C != 0 {
			ignoreH2C(r.Header)
		}
	}
	if trace.FromContext(r.Context()) == nil && x.h.cfg.Hook != nil {
		// The handler may keep its context longer than the exchange lives.
		own := *rec
		x.ownRec, rec, x.rec = trace.Record{}, &own, &own
		r = r.WithContext(trace.NewContext(r.Context(), rec))
	}
	if key, in, ok := x.countsAsFetch(why, r); ok {
		x.passed = x.asFetch(key, &in, r, pw.asked)
		defer x.passed.flight.Finish(nil)
		pw.capture = x.capture()
	}
	if len(w.Header()) > 0 && (pw.capture != nil || r.Method == http.MethodHead) {
		pw.outer = w.Header().Clone()
	}
	returned := false
	defer func() {
		if !returned {
			rec.Outcome = trace.Aborted
			if pw.endless && r.Method != http.MethodHead {
				cut(w, r)
			}
		}
		pw.release()
	}()
	x.h.next.ServeHTTP(pw, r)
	pw.finish()
	returned = true
	if pw.capture != nil {
		pw.capture.store(x, r)
	}
}
