package lb

import (
	"maps"
	"net/http"
	"slices"

	"github.com/weirhttp/weir/internal/field"
)

// unsendableHere returns what is wrong with a request that net/http would find out only
// when it has a connection, or not at all.
func unsendableHere(req *http.Request) error {
	if !validTarget(req.URL) {
		return errBadTarget
	}
	for name := range req.Trailer {
		switch http.CanonicalHeaderKey(name) {
		case "Transfer-Encoding", "Trailer", "Content-Length":
			return errBadTrailer
		}
	}
	return nil
}

// trimmed returns h with values that have no white space around them, which is no part
// of them (RFC 9110 §5.5). net/http's server keeps it over HTTP/2, and its client would
// send it there, where a request is malformed for it (RFC 9113 §8.2.1). It returns h
// itself if there is nothing to trim, and leaves the caller's as it is.
func trimmed(h http.Header) http.Header {
	shared := true
	for name, values := range h {
		if !slices.ContainsFunc(values, isPadded) {
			continue
		}
		if shared {
			h, shared = maps.Clone(h), false
		}
		h[name] = trimmedValues(values)
	}
	return h
}

func trimmedValues(values []string) []string {
	values = slices.Clone(values)
	for i, v := range values {
		values[i] = field.TrimOWS(v)
	}
	return values
}

func isPadded(s string) bool {
	return len(field.TrimOWS(s)) < len(s)
}
