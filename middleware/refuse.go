package middleware

import (
	"errors"
	"net/http"

	"github.com/weirhttp/weir/trace"
)

// refuse answers with an error of weir's own. It's the one place where
// failures become statuses.
func (x *exchange) refuse(status int, why reason) {
	x.rec.Cache.Reason = string(why)
	if x.rec.Cache.Status == trace.Undecided {
		x.rec.Cache.Status = trace.Miss
	}
	h := x.w.Header()
	h["Cache-Control"] = []string{"no-store"}
	h["Content-Type"] = []string{"text/plain; charset=utf-8"}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	x.setStatus(h, make([]string, ownFields))
	x.head(status)
	if x.r.Method != http.MethodHead {
		x.write([]byte(http.StatusText(status) + "\n"))
	}
}

// ProxyErrorHandler is an ErrorHandler for httputil.ReverseProxy. It tells the
// cache that the origin couldn't be reached, which is not the same as an origin
// that answers 502: a stale response may stand in where nothing forbids it (RFC
// 9111 §4.2.4). Outside a fetch it answers 502, or 504 after a timeout.
func ProxyErrorHandler(w http.ResponseWriter, r *http.Request, err error) {
	for u := w; u != nil; {
		if f, ok := u.(*fetch); ok {
			f.reported = err
			return
		}
		if p, ok := u.(*passWriter); ok && p.standInForHead(true) {
			return
		}
		wrapped, ok := u.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		u = wrapped.Unwrap()
	}
	status := http.StatusBadGateway
	if isTimeout(err) {
		status = http.StatusGatewayTimeout
	}
	w.Header()["Cache-Control"] = []string{"no-store"}
	w.WriteHeader(status)
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, errFetchTimeout) || errors.As(err, &timeout) && timeout.Timeout()
}
