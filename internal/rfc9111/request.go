package rfc9111

import (
	"net/http"
	"time"

	"github.com/weirhttp/weir/internal/field"
)

// RequestFlags is a set of request directives.
type RequestFlags uint8

const (
	RequestNoStore RequestFlags = 1 << iota
	RequestNoCache              // and Pragma: no-cache
	RequestMaxAge
	RequestMinFresh
	RequestMaxStale
	RequestOnlyIfCached
	RequestStaleIfError // RFC 5861 §4

	// RequestForcesWork are those by which a visitor can make the origin work
	// although a fresh response is stored, or keep a response from being stored
	// for others.
	RequestForcesWork = RequestNoStore | RequestNoCache | RequestMaxAge | RequestMinFresh
)

// RequestDirectives are the cache directives of a request (RFC 9111 §5.2.1).
// Those not in Has are zero. The zero value asks for nothing.
type RequestDirectives struct {
	Has          RequestFlags
	MaxAge       time.Duration
	MinFresh     time.Duration
	MaxStale     time.Duration // field.MaxSeconds for "however stale"
	StaleIfError time.Duration
}

// ParseRequest reads the cache directives of a request. Of repeated ones the
// strictest counts; a limit that can't be read is the strictest limit, a
// permission that can't be read is none. Without Cache-Control and Pragma it
// costs two map lookups and doesn't allocate.
func ParseRequest(h http.Header) RequestDirectives {
	var d RequestDirectives
	lines := h["Cache-Control"]
	if len(lines) == 0 {
		// Pragma counts only where there is no Cache-Control (§5.4).
		if pragma := h["Pragma"]; len(pragma) > 0 {
			for m := range field.Members(pragma) {
				if field.EqualFold(m, "no-cache") {
					d.Has |= RequestNoCache
				}
			}
		}
		return d
	}
	for m := range field.Members(lines) {
		d.add(m)
	}
	return d
}

const farFuture = field.MaxSeconds * time.Second

func (d *RequestDirectives) add(member string) {
	name, arg, hasArg := field.Argument(member)
	if q, ok := field.Unquote(arg); ok {
		arg = q
	}
	switch field.Lower(field.TrimOWS(name)) {
	case "no-store":
		d.Has |= RequestNoStore
	case "no-cache":
		d.Has |= RequestNoCache
	case "only-if-cached":
		d.Has |= RequestOnlyIfCached
	case "max-age":
		v, _ := field.Seconds(arg)
		d.least(RequestMaxAge, &d.MaxAge, v)
	case "min-fresh":
		v, ok := field.Seconds(arg)
		if !ok {
			v = farFuture
		}
		d.MinFresh = max(d.MinFresh, v)
		d.Has |= RequestMinFresh
	case "max-stale":
		v, ok := field.Seconds(arg)
		if !hasArg {
			v, ok = farFuture, true
		}
		if ok {
			d.least(RequestMaxStale, &d.MaxStale, v)
		}
	case "stale-if-error":
		if v, ok := field.Seconds(arg); ok {
			d.least(RequestStaleIfError, &d.StaleIfError, v)
		}
	}
}

func (d *RequestDirectives) least(f RequestFlags, at *time.Duration, v time.Duration) {
	if d.Has&f != 0 {
		v = min(v, *at)
	}
	*at = v
	d.Has |= f
}
