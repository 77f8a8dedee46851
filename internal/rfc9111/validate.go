package rfc9111

import (
	"net/http"
	"strings"
	"time"

	"github.com/weirhttp/weir/internal/field"
	"github.com/weirhttp/weir/internal/rfc9110"
)

// ConditionalFor returns the validators for a request that validates a stored
// response (RFC 9111 §4.3.1): the values of If-None-Match and If-Modified-Since,
// or "". They are what the origin sent, letter for letter, an entity tag without
// its quotes included.
func ConditionalFor(stored http.Header) (ifNoneMatch, ifModifiedSince string) {
	if lines := stored["Etag"]; len(lines) == 1 && usableTag(lines[0]) {
		ifNoneMatch = lines[0]
	}
	if lines := stored["Last-Modified"]; len(lines) == 1 {
		if _, ok := field.ParseDate(lines[0], time.Time{}); ok {
			ifModifiedSince = lines[0]
		}
	}
	return ifNoneMatch, ifModifiedSince
}

// usableTag reports whether an ETag may stand in If-None-Match: one that reads
// as a list there, or as "*", would match what it must not.
func usableTag(s string) bool {
	if _, ok := rfc9110.ParseETag(s); ok {
		return true
	}
	return s != "" && !strings.ContainsAny(s, "*, \t")
}

func hasValidator(h http.Header) bool {
	etag, modified := ConditionalFor(h)
	return etag != "" || modified != ""
}

// NotModifiedFits reports whether a 304 speaks of the stored response (RFC 9111
// §4.3.4): the validators it carries must be those of the stored one. A 304
// without any fits only if the request carried a validator of the stored
// response, which is for the caller to know. If it doesn't fit, the origin has to
// be asked again without conditions.
func NotModifiedFits(stored, update http.Header) bool {
	if etag := update.Get("Etag"); etag != "" {
		return rfc9110.SameETag(stored.Get("Etag"), etag)
	}
	if modified := update.Get("Last-Modified"); modified != "" && len(stored["Last-Modified"]) > 0 {
		return sameDate(stored.Get("Last-Modified"), modified)
	}
	return true
}

func sameDate(a, b string) bool {
	if a == b {
		return true
	}
	ta, okA := field.ParseDate(a, time.Time{})
	tb, okB := field.ParseDate(b, time.Time{})
	return okA && okB && ta.Equal(tb)
}

// keptOnFreshen are the fields of a stored response that a 304 doesn't replace
// (RFC 9111 §3.2): they describe the stored body as it is.
var keptOnFreshen = [...]string{
	"Content-Digest", "Content-Encoding", "Content-Length", "Content-Md5", "Content-Range", "Content-Type",
}

// Freshen returns the header of a stored response updated by that of a 304, or
// of a 200 to HEAD (RFC 9111 §3.2): each field of the update replaces the stored
// one with all its lines; the others stay. What describes the stored body stays
// too. It returns a new map, which shares values with the stored one, and changes
// neither.
//
// Date and Age belong to the message and not to what it speaks of: the update's
// count, and receivedAt stands in for a missing Date. The caller then asks
// [Decide], with the stored status and the new header, for the new [Life]; if
// that says no, the stored response has to go.
func Freshen(stored, update http.Header, receivedAt time.Time, p *Policy) http.Header {
	out := make(http.Header, len(stored)+2)
	for name, values := range stored {
		out[name] = values
	}
	fresh := StoredHeader(update, receivedAt, p)
	for _, name := range keptOnFreshen {
		delete(fresh, name)
	}
	for name, values := range fresh {
		out[name] = values
	}
	delete(out, "Age")
	removeUnstored(out, p) // fields stored before, which the update names
	return out
}
