package middleware

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/weirhttp/weir/internal/field"
	"github.com/weirhttp/weir/lb"
	"github.com/weirhttp/weir/trace"
)

// refuse answers with an error of weir's own. It's the one place where
// failures become statuses.
func (x *exchange) refuse(status int, why reason) { x.refuseFor(status, why, 0) }

// refuseFor is refuse with an advice when to come again; 0 for none.
func (x *exchange) refuseFor(status int, why reason, retryAfter time.Duration) {
	x.rec.Cache.Reason = string(why)
	if x.rec.Cache.Status == trace.Undecided {
		x.rec.Cache.Status = trace.Miss
	}
	setRefusal(x.w, x.r, retryAfter)
	x.setStatus(x.w.Header(), make([]string, ownFields))
	x.head(status)
	if x.r.Method != http.MethodHead {
		x.write(refusalBody(status))
	}
}

// ProxyErrorHandler is an ErrorHandler for httputil.ReverseProxy. It tells the
// cache that the origin couldn't be reached, which is not the same as an origin
// that answers 502: a stale response may stand in where nothing forbids it (RFC
// 9111 §4.2.4). Outside a fetch it answers as [lb.ProxyError] does. For what the client
// did wrong it's 408 if its body didn't come in time, and 400 if that broke off, or if
// it names a protocol to upgrade to that httputil.ReverseProxy refuses.
func ProxyErrorHandler(w http.ResponseWriter, r *http.Request, err error) {
	var body *slowBody
	for u := w; u != nil; {
		if f, ok := u.(*fetch); ok {
			f.reported = err
			if originAtFault(err) {
				tellError(f.ctx, f.permit)
			}
			return
		}
		if p, ok := u.(*passWriter); ok {
			if p.told = true; p.body.readFault() == nil && originAtFault(err) {
				tellError(r.Context(), p.permit)
			}
			if p.standInForHead(true) {
				return
			}
			body = p.body
		}
		wrapped, ok := u.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		u = wrapped.Unwrap()
	}
	status, retryAfter := errorStatus(err)
	if status >= 500 {
		if own := clientsStatus(r, body); own != 0 {
			status, retryAfter = own, 0
		}
	}
	w.Header()["Cache-Control"] = []string{"no-store"}
	setRetryAfter(w.Header(), retryAfter)
	if body.wanted() {
		giveUpBody(w, r)
	}
	w.WriteHeader(status)
}

// clientsStatus is the status for what the client itself did wrong, 0 if nothing.
func clientsStatus(r *http.Request, body *slowBody) int {
	fault := body.readFault()
	switch {
	case body.cutOff() || fault != nil && isTimeout(fault):
		return http.StatusRequestTimeout
	case fault != nil || !canUpgrade(r.Header):
		return http.StatusBadRequest
	}
	return 0
}

// canUpgrade reports whether httputil.ReverseProxy takes what h says about another
// protocol: it refuses by itself what isn't printable ASCII.
func canUpgrade(h http.Header) bool {
	if !strings.ContainsFunc(h.Get("Upgrade"), func(c rune) bool { return c < ' ' || c > '~' }) {
		return true
	}
	for option := range field.Members(h["Connection"]) {
		if field.EqualFold(option, "upgrade") {
			return false
		}
	}
	return true
}

// originAtFault reports whether err, which is no client's doing, speaks against the
// origin: time ran out, or there was no connection, or it was lost. Whatever else a
// proxy refuses by itself doesn't.
func originAtFault(err error) bool {
	if te, ok := errors.AsType[*lb.TransportError](err); ok {
		return te.Failure.OriginAtFault()
	}
	return lb.FailureOf(err) == lb.FailureClosed || isTimeout(err)
}

// errorStatus is what an origin's failure is to clients, and when they may come again;
// 0 for unknown.
func errorStatus(err error) (status int, retryAfter time.Duration) {
	if isTimeout(err) {
		return http.StatusGatewayTimeout, 0
	}
	return lb.ErrorStatus(err)
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, errFetchTimeout) || errors.As(err, &timeout) && timeout.Timeout()
}
