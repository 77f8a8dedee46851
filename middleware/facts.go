package middleware

import (
	"net/http"
	"strings"

	"github.com/weirhttp/weir/internal/field"
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
	hasH2C        // an upgrade to HTTP/2 in the clear is offered
	hasNominated  // Connection names fields of this request
	hasOddName    // a name with an underscore
	hasUnderscore // a barrier field's name that some origins take for another
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
		case "Connection":
			if nominatesFields(values) {
				f |= hasNominated
			}
		case "Upgrade":
			f |= upgradeFacts(values)
		case "Accept":
			if len(values) == 1 && strings.EqualFold(values[0], "text/event-stream") {
				f |= hasEventStream
			}
		case "Forwarded", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Scheme":
			f |= hasForwarding
		default:
			if len(name) > 1 && (name[0] == 'X' || name[0] == 'F' || name[0] == 'C') && barrierFields[name] {
				f |= hasForwarding
			} else if strings.IndexByte(name, '_') >= 0 {
				f |= hasOddName
				if barrierFields[dashed(name)] {
					f |= hasForwarding | hasUnderscore
				}
			}
		}
	}
	return f
}

// dashed is the name that an origin behind CGI or WSGI can't tell from name.
func dashed(name string) string {
	return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
}

// upgradeFacts tells what an Upgrade field offers. HTTP/2 in the clear, granted
// by an origin, is a tunnel past every rule of the cache; RFC 9113 §3.1 has
// dropped it, and a server may ignore any offer to upgrade.
func upgradeFacts(values []string) (f facts) {
	for offer := range field.Members(values) {
		if field.EqualFold(offer, "h2c") {
			f |= hasH2C
		} else {
			f |= hasUpgrade
		}
	}
	return f
}

// nominatesFields reports whether a Connection field names others. A proxy
// behind the cache removes those, so the origin wouldn't see what the key and Vary
// saw.
func nominatesFields(values []string) bool {
	for option := range field.Members(values) {
		switch field.Lower(option) {
		case "close", "keep-alive", "upgrade", "http2-settings", "te":
		default:
			return true
		}
	}
	return false
}

// dropOddNames removes the fields whose names an origin behind CGI or WSGI can't
// tell from others: they'd be unkeyed inputs. nginx does the same.
func dropOddNames(h http.Header) {
	for name := range h {
		if strings.IndexByte(name, '_') >= 0 {
			delete(h, name)
		}
	}
}

// ignoreH2C removes the offer of HTTP/2 in the clear from what the handler gets.
func ignoreH2C(h http.Header) {
	var others []string
	for offer := range field.Members(h["Upgrade"]) {
		if !field.EqualFold(offer, "h2c") {
			others = append(others, offer)
		}
	}
	delete(h, "Http2-Settings")
	delete(h, "Upgrade")
	if len(others) > 0 {
		h["Upgrade"] = []string{strings.Join(others, ", ")}
	}
}
