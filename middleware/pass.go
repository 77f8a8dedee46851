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
		r = r.WithContext(trace.NewContext(r.Context(), rec))
	}
	if x.mayStorePost() {
		pw.post = &postCapture{}
	}
	if len(w.Header()) > 0 && (pw.post != nil || r.Method == http.MethodHead) {
		pw.outer = w.Header().Clone()
	}
	returned := false
	defer func() {
		if !returned {
			rec.Outcome = trace.Aborted
			if pw.wrote {
				resetOldClient(w, x.r)
			}
		}
		pw.release()
	}()
	x.h.next.ServeHTTP(pw, r)
	pw.finish()
	returned = true
	if pw.post != nil {
		pw.post.store(x, r, pw.asked)
	}
}
