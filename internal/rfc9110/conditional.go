package rfc9110

import (
	"net/http"
	"time"

	"github.com/weirhttp/weir/internal/field"
)

// Outcome is what the preconditions of a request come to.
type Outcome uint8

const (
	Proceed            Outcome = iota // answer as if there were none
	NotModified                       // 304
	PreconditionFailed                // 412
)

// String returns a short name.
func (o Outcome) String() string {
	switch o {
	case Proceed:
		return "proceed"
	case NotModified:
		return "not modified"
	case PreconditionFailed:
		return "precondition failed"
	}
	return "unknown"
}

// Evaluate evaluates the preconditions of a GET or HEAD against a stored
// response, in the order of RFC 9110 §13.2.2. They count only where the answer
// without them would be a 2xx (§13.2.1). receivedAt stands in for a response that
// has neither Last-Modified nor Date (RFC 9111 §4.3.2).
//
// A cache may ignore If-Match and If-Unmodified-Since; they are evaluated all
// the same, because who continues a download with them must not get bytes of
// another version. Range and If-Range are for [IfRange] and [Ranges.Resolve],
// after Proceed.
func Evaluate(request http.Header, status int, stored http.Header, receivedAt time.Time) Outcome {
	if status < 200 || status > 299 {
		return Proceed
	}
	if lines := request["If-Match"]; len(lines) > 0 {
		if !isStar(lines) && !matchETags(lines, single(stored["Etag"]), true) {
			return PreconditionFailed
		}
	} else if since, ok := condDate(request["If-Unmodified-Since"], receivedAt); ok {
		if lastModified(stored, receivedAt).After(since) {
			return PreconditionFailed
		}
	}
	if lines := request["If-None-Match"]; len(lines) > 0 {
		if isStar(lines) || matchETags(lines, single(stored["Etag"]), false) {
			return NotModified
		}
		return Proceed // If-Modified-Since doesn't count then (§13.1.3)
	}
	if since, ok := condDate(request["If-Modified-Since"], receivedAt); ok {
		if !lastModified(stored, receivedAt).After(since) {
			return NotModified
		}
	}
	return Proceed
}

func isStar(lines []string) bool { return len(lines) == 1 && field.TrimOWS(lines[0]) == "*" }

// single returns the only line of a field, or "".
func single(lines []string) string {
	if len(lines) != 1 {
		return ""
	}
	return lines[0]
}

// condDate reads a date that must be the only value, else it doesn't count.
func condDate(lines []string, now time.Time) (time.Time, bool) {
	if len(lines) != 1 {
		return time.Time{}, false
	}
	return field.ParseDate(lines[0], now)
}

// lastModified is the time to compare with: Last-Modified, else Date, else
// receipt.
func lastModified(stored http.Header, receivedAt time.Time) time.Time {
	for _, name := range [...]string{"Last-Modified", "Date"} {
		if t, ok := condDate(stored[name], receivedAt); ok {
			return t
		}
	}
	return receivedAt
}

// IfRange reports whether the Range of a request counts (RFC 9110 §13.1.5):
// there is no If-Range, or it is the strong validator of the stored response.
// Last-Modified is strong if it is older than Date (§8.8.2.2). If it doesn't
// count, the whole response is the answer.
func IfRange(request, stored http.Header) bool {
	lines := request["If-Range"]
	if len(lines) == 0 {
		return true
	}
	value := field.TrimOWS(single(lines))
	if t, ok := ParseETag(value); ok {
		have, ok := ParseETag(single(stored["Etag"]))
		return ok && t.StrongMatch(have)
	}
	date, ok := field.ParseDate(value, time.Time{})
	if !ok {
		return false
	}
	modified, okM := condDate(stored["Last-Modified"], time.Time{})
	sent, okD := condDate(stored["Date"], time.Time{})
	return okM && okD && date.Equal(modified) && sent.Sub(modified) >= time.Second
}
