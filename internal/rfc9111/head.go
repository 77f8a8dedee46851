package rfc9111

import (
	"net/http"
	"strconv"

	"github.com/weirhttp/weir/internal/field"
	"github.com/weirhttp/weir/internal/rfc9110"
)

// HeadOutcome says what an answer to HEAD does to a stored response to GET.
type HeadOutcome uint8

const (
	HeadSaysNothing HeadOutcome = iota // leaves it alone
	HeadRefreshes                      // [Freshen] it
	HeadInvalidates                    // it is stale from now on
)

// String returns a short name.
func (o HeadOutcome) String() string {
	switch o {
	case HeadSaysNothing:
		return "says nothing"
	case HeadRefreshes:
		return "refreshes"
	case HeadInvalidates:
		return "invalidates"
	}
	return "unknown"
}

// HeadEffect says what an answer to HEAD does to a stored 200 to GET that could
// have been selected for the same request (RFC 9111 §4.3.5). A 200 whose
// validators and Content-Length, as far as it has them, are those of the stored
// response refreshes it; any other 200 makes it stale. Other answers do nothing.
// storedLength is the length of the stored body.
func HeadEffect(stored http.Header, storedLength int64, status int, head http.Header) HeadOutcome {
	if status != http.StatusOK {
		return HeadSaysNothing
	}
	if etag := head.Get("Etag"); etag != "" && !rfc9110.SameETag(stored.Get("Etag"), etag) {
		return HeadInvalidates
	}
	if modified := head.Get("Last-Modified"); modified != "" && !sameDate(stored.Get("Last-Modified"), modified) {
		return HeadInvalidates
	}
	// Without a validator it proves nothing: it would renew a changed page for ever.
	proven := head.Get("Etag") != "" || head.Get("Last-Modified") != ""
	for _, line := range head["Content-Length"] {
		if n, err := strconv.ParseInt(field.TrimOWS(line), 10, 64); err != nil || n != storedLength {
			return HeadInvalidates
		}
	}
	if !proven {
		return HeadSaysNothing
	}
	return HeadRefreshes
}
