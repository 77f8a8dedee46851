package lb

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"
)

// fail answers when there is no response. It is the one place where the proxy's
// errors turn into what clients see.
func (f *forwarding) fail(_ http.ResponseWriter, _ *http.Request, err error) {
	f.letGo()
	if errors.Is(f.in.Context().Err(), context.Canceled) && (f.body == nil || !f.body.cut.Load()) {
		panic(http.ErrAbortHandler) // nobody is there; an empty 200 would be a lie
	}
	h := f.writer.Header()
	f.writer.restore(h)
	if f.in.ProtoMajor == 1 && f.in.ContentLength != 0 && (f.body == nil || !f.body.done()) {
		h["Connection"] = []string{"close"} // as in head
		if f.body == nil {
			f.body = newUploaded(http.NoBody, f.in, f.writer.ResponseWriter) // for end
		}
	}
	f.p.o.ErrorHandler(&f.writer, f.in, err)
}

// ProxyError answers for an origin that didn't: 504 after a timeout, 503 with
// Retry-After where that is known when no origin is to be had, 421 for a host that
// no pool serves (RFC 9110 §15.5.20), 400, 413 or 431 when the request's body or
// header is what failed, else 502. The answers have no body and are not for storing.
func ProxyError(w http.ResponseWriter, _ *http.Request, err error) {
	status, wait := ErrorStatus(err)
	h := w.Header()
	h["Cache-Control"] = []string{"no-store"}
	if wait > 0 {
		h["Retry-After"] = []string{strconv.Itoa(int(math.Ceil(wait.Seconds())))}
	}
	w.WriteHeader(status)
}

// ErrorStatus returns the status that [ProxyError] answers an error with, and after
// how long it makes sense to try again; 0 for unknown.
func ErrorStatus(err error) (status int, retryAfter time.Duration) {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return http.StatusRequestEntityTooLarge, 0
	}
	var known interface{ RetryAfter() time.Duration }
	if errors.As(err, &known) {
		return http.StatusServiceUnavailable, max(known.RetryAfter(), 0)
	}
	if none, ok := errors.AsType[*NoOriginError](err); ok {
		switch {
		case none.UnknownHost:
			return http.StatusMisdirectedRequest, 0
		case none.AtCapacity:
			return http.StatusServiceUnavailable, time.Second
		}
		return http.StatusServiceUnavailable, 0
	}
	if errors.Is(err, ErrClosed) {
		return http.StatusServiceUnavailable, 0
	}
	if te, ok := errors.AsType[*TransportError](err); ok {
		switch te.Failure {
		case FailureRequest:
			if isHeaderTooLong(te.Err) {
				return http.StatusRequestHeaderFieldsTooLarge, 0
			}
			return http.StatusBadRequest, 0
		case FailureShutdown:
			return http.StatusServiceUnavailable, 0
		}
	}
	if isTimeout(err) {
		return http.StatusGatewayTimeout, 0
	}
	return http.StatusBadGateway, 0
}
