package middleware

import (
	"net/http"
	"strings"
)

// facts are what a request's header fields are to a cache, gathered in one
// pass over the header: a lookup for each of two dozen names costs more.
type facts uint32

const (
	hasAuthorization facts = 1 << iota
	hasCookie
	hasDirectives // Cache-Control or Pragma
	hasRange
	hasCondition // If-None-Match, If-Modified-Since
	hasDemand    // If-Match, If-Unmodified-Since
	hasIfRange
	hasUpgrade
	hasEventStream
	hasForwarding // a field of the poisoning barrier
	hasUnderscore // a name that some origins take for another
)

func factsOf(h http.Header) facts {
	var f facts
	for name, values := range h {
		switch name {
		case "Authorization":
			f |= hasAuthorization
		case "Cookie":
			f |= hasCookie
		case "Cache-Control", "Pragma":
			f |= hasDirectives
		case "Range":
			f |= hasRange
		case "If-None-Match", "If-Modified-Since":
			f |= hasCondition
		case "If-Match", "If-Unmodified-Since":
			f |= hasDemand
		case "If-Range":
			f |= hasIfRange
		case "Upgrade":
			f |= hasUpgrade
		case "Accept":
			if len(values) == 1 && strings.EqualFold(values[0], "text/event-stream") {
				f |= hasEventStream
			}
		case "Forwarded", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Scheme":
			f |= hasForwarding
		default:
			if len(name) > 1 && (name[0] == 'X' || name[0] == 'F') && barrierFields[name] {
				f |= hasForwarding
			} else if strings.IndexByte(name, '_') >= 0 && barrierFields[dashed(name)] {
				f |= hasForwarding | hasUnderscore
			}
		}
	}
	return f
}

// dashed is the name that an origin behind CGI or WSGI can't tell from name.
func dashed(name string) string {
	return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
}
