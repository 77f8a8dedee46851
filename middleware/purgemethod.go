package middleware

import (
	"context"
	"net/http"

	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/trace"
)

// purgeMethod serves the PURGE method for the handler of a zone.
func (m *Middleware) purgeMethod(zone string) (*purge.Handler, error) {
	o := &m.cfg.Purge
	authorise := func(r *http.Request) (who string, err error) {
		if v, ok := r.Context().Value(purgeVerdictKey{}).(*purgeVerdict); ok {
			return v.who, v.err
		}
		return m.authoriser(o.Authorise)(r)
	}
	return m.purgeHandler(m.purges, authorise, o.TagFields, m.cfg.Logger, func(string) (string, bool) { return zone, true })
}

// isPurge reports whether x is a PURGE request that the cache answers itself.
func (x *exchange) isPurge() bool {
	return x.r.Method == PurgeMethod && x.h.purgeMethod != nil
}

// purgeRequest is x as those see it who decide about purges.
func (x *exchange) purgeRequest() *http.Request {
	// Responses are stored under the host that a trusted proxy names.
	x.facts = factsOf(x.r.Header)
	if x.facts&hasForwarding != 0 {
		x.barrier = forwardingOf(x.r, x.facts, x.h.cfg.TrustedProxies)
	}
	r := *x.r
	r.Host = x.target().Host
	return &r
}

// purgeVerdict is what PurgeOptions.Authorise said about a request. It's asked once:
// what it goes by may be good for one time only.
type purgeVerdict struct {
	who string
	err error
}

type purgeVerdictKey struct{}

// authorisePurge finds out whether x is a PURGE by somebody who may.
func (x *exchange) authorisePurge() bool {
	v := new(purgeVerdict)
	v.who, v.err = x.h.authoriser(x.h.cfg.Purge.Authorise)(x.purgeRequest())
	x.mayPurge = v
	return v.err == nil
}

// servePurge answers a PURGE request. It never reaches the wrapped handler.
func (x *exchange) servePurge() {
	x.rec.Cache.Status, x.rec.Cache.Reason, x.rec.Cache.NotStored = trace.Bypass, string(whyPurge), string(whyPurge)
	r := x.purgeRequest()
	if x.mayPurge != nil {
		r = r.WithContext(context.WithValue(r.Context(), purgeVerdictKey{}, x.mayPurge))
	}
	giveUpBody(x.w, x.r) // it means nothing here
	w := &statusWriter{ResponseWriter: x.w}
	x.h.purgeMethod.ServePurge(w, r)
	x.rec.StatusCode, x.rec.BytesSent = w.status, w.sent
}

// statusWriter notes what was answered.
type statusWriter struct {
	http.ResponseWriter
	status int
	sent   int64
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.sent += int64(n)
	return n, err
}
