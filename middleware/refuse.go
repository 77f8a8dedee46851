package middleware

import (
	"errors"
	"net/http"
	"time"

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
// 9111 §4.2.4). Outside a fetch it answers as [lb.ProxyError] does, and with 408 if it's
// the client that didn't send its body.
func ProxyErrorHandler(w http.ResponseWriter, r *http.Request, err error) {
	var body *slowBody
	for u := w; u != nil; {
		if f, ok := u.(*fetch); ok {
			f.reported = err
			tellError(f.ctx, f.permit)
			return
		}
		if p, ok := u.(*passWriter); ok {
			if !p.body.cutOff() {
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
	if body.cutOff() {
		status = http.StatusRequestTimeout
	}
	w.Header()["Cache-Control"] = []string{"no-store"}
	setRetryAfter(w.Header(), retryAfter)
	if body.wanted() {
		giveUpBody(w, r)
	}
	w.WriteHeader(status)
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
