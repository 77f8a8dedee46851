package rfc9110

import (
	"net/http"

	"github.com/weirhttp/weir/internal/field"
)

// IsSafe reports whether a method is known to be safe (RFC 9110 §9.2.1 and the
// method registry). Methods are case-sensitive.
func IsSafe(method string) bool {
	switch method {
	case "GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "REPORT", "SEARCH", "QUERY":
		return true
	}
	return false
}

// Understood reports whether a final status is one whose rules for caches are
// implemented, as the must-understand directive asks (RFC 9111 §5.2.2.3).
func Understood(status int) bool {
	switch status {
	case 206, 226, 304, 306, 402, 418, 427, 430, 509:
		return false
	}
	return status >= 200 && status < 600 && http.StatusText(status) != ""
}

// HeuristicallyCacheable reports whether a response with this status may get a
// lifetime that nobody gave it (RFC 9110 §15.1). 206 is left out: it isn't
// stored as a response.
func HeuristicallyCacheable(status int) bool {
	switch status {
	case 200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501:
		return true
	}
	return false
}

// OriginFailed reports whether a status says that the origin failed, so that a
// stale response may be better (RFC 5861 §4).
func OriginFailed(status int) bool { return status >= 500 }

// BodyAllowed reports whether a response with this status can have content.
func BodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// hopByHop are the fields that concern one connection only (RFC 9110 §7.6.1,
// RFC 9111 §3.1), whether or not Connection nominates them.
var hopByHop = map[string]bool{
	"Connection":                true,
	"Keep-Alive":                true,
	"Proxy-Authenticate":        true,
	"Proxy-Authentication-Info": true,
	"Proxy-Authorization":       true,
	"Proxy-Connection":          true,
	"Te":                        true,
	"Trailer":                   true,
	"Transfer-Encoding":         true,
	"Upgrade":                   true,
}

// IsHopByHop reports whether a field, named in canonical form, concerns one
// connection only.
func IsHopByHop(name string) bool { return hopByHop[name] }

// notTrailer are other fields that decide how a message is framed, routed,
// authorized, processed or stored: they mean something in a head only.
var notTrailer = map[string]bool{
	"Age":                 true,
	"Authorization":       true,
	"Cache-Control":       true,
	"Content-Encoding":    true,
	"Content-Length":      true,
	"Content-Range":       true,
	"Content-Type":        true,
	"Cookie":              true,
	"Date":                true,
	"Expect":              true,
	"Expires":             true,
	"Host":                true,
	"Http2-Settings":      true,
	"If-Match":            true,
	"If-Modified-Since":   true,
	"If-None-Match":       true,
	"If-Range":            true,
	"If-Unmodified-Since": true,
	"Location":            true,
	"Max-Forwards":        true,
	"Pragma":              true,
	"Range":               true,
	"Retry-After":         true,
	"Set-Cookie":          true,
	"Set-Cookie2":         true,
	"Vary":                true,
	"Via":                 true,
	"Warning":             true,
	"Www-Authenticate":    true,
}

// InTrailer reports whether a field, named in canonical form, may come after the
// content (RFC 9110 §6.5.1). Recipients may merge it into the head.
func InTrailer(name string) bool { return !notTrailer[name] && !hopByHop[name] }

// RemoveHopByHop deletes from h the fields that concern one connection only,
// those that Connection nominates included.
func RemoveHopByHop(h http.Header) {
	for m := range field.Members(h["Connection"]) {
		delete(h, http.CanonicalHeaderKey(m))
	}
	for name := range hopByHop {
		delete(h, name)
	}
}
