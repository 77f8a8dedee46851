package middleware

import (
	"net/http"
	"time"

	"github.com/weirhttp/weir/internal/rfc9110"
	"github.com/weirhttp/weir/store"
)

// validators are the fields of a response that conditional requests are about.
func validators(b store.Block) http.Header {
	h := make(http.Header, 3)
	for _, name := range [...]string{"Etag", "Last-Modified", "Date"} {
		if v, ok := b.Get(name); ok {
			h[name] = []string{v}
		}
	}
	return h
}

// notModified evaluates the client's own condition against the response that
// it's about to get (RFC 9110 §13.2).
func (x *exchange) notModified(status int, b store.Block, receivedAt time.Time) bool {
	return x.facts&hasCondition != 0 &&
		rfc9110.Evaluate(x.r.Header, status, validators(b), receivedAt) == rfc9110.NotModified
}

// ranges returns the ranges asked for, if the response is one of which parts
// can be given and If-Range holds (RFC 9110 §14.2).
func (x *exchange) ranges(status int, b store.Block) (rfc9110.Ranges, bool) {
	if x.facts&hasRange == 0 || status != http.StatusOK || x.r.Method != http.MethodGet {
		return nil, false
	}
	if _, partial := b.Get("Content-Range"); partial {
		return nil, false
	}
	ranges, ok := rfc9110.ParseRange(x.r.Header["Range"])
	if !ok || x.facts&hasIfRange != 0 && !rfc9110.IfRange(x.r.Header, validators(b)) {
		return nil, false
	}
	return ranges, true
}

// strip304 removes what a 304 doesn't carry: the fields that describe the
// content that isn't sent (RFC 9110 §15.4.5).
func strip304(h http.Header) {
	stripDigests(h)
	for _, name := range [...]string{"Content-Type", "Content-Length", "Content-Encoding", "Content-Range"} {
		delete(h, name)
	}
}
