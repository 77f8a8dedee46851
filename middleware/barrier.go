package middleware

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/internal/forwarded"
)

// barrierFields are request fields that change responses and are in nobody's
// key: with them one visitor could shape what all others get. X-Forwarded-For
// isn't one: like the connection's own address it says who asks.
var barrierFields = map[string]bool{
	"Forwarded":                  true,
	"Front-End-Https":            true,
	"Cloudfront-Forwarded-Proto": true,
	"Fastly-Ssl":                 true,
	"X-Arr-Ssl":                  true,
	"X-Backend-Host":             true,
	"X-Forwarded":                true,
	"X-Forwarded-Host":           true,
	"X-Forwarded-Path":           true,
	"X-Forwarded-Port":           true,
	"X-Forwarded-Prefix":         true,
	"X-Forwarded-Proto":          true,
	"X-Forwarded-Protocol":       true,
	"X-Forwarded-Scheme":         true,
	"X-Forwarded-Server":         true,
	"X-Forwarded-Ssl":            true,
	"X-Forwarded-Uri":            true,
	"X-Forwarded-Url":            true,
	"X-Host":                     true,
	"X-Http-Host-Override":       true,
	"X-Http-Method":              true,
	"X-Http-Method-Override":     true,
	"X-Method-Override":          true,
	"X-Original-Host":            true,
	"X-Original-Scheme":          true,
	"X-Original-Uri":             true,
	"X-Original-Url":             true,
	"X-Override-Url":             true,
	"X-Proxyuser-Ip":             true,
	"X-Rewrite-Url":              true,
	"X-Scheme":                   true,
	"X-Script-Name":              true,
	"X-Url-Scheme":               true,
}

// barrier is what was made of a request's forwarding fields.
type barrier struct {
	strip  bool   // remove them from what the origin gets
	bypass bool   // keep the cache out
	scheme string // from a trusted proxy
	host   string
	extra  []cachekey.Pair // further ones from a trusted proxy, for the key
}

// forwardingOf decides about forwarding fields: unknown without configuration,
// removed from peers that aren't trusted, part of the key from those that are.
func forwardingOf(r *http.Request, f facts, trusted []netip.Prefix) barrier {
	if len(trusted) == 0 {
		return barrier{bypass: true}
	}
	peer, ok := forwarded.Peer(r.RemoteAddr)
	if f&hasUnderscore != 0 || !ok || !forwarded.Trusted(peer, trusted) {
		return barrier{strip: true}
	}
	var b barrier
	for name, values := range r.Header {
		if barrierFields[name] && !b.fold(name, values) {
			b.bypass = true // the rest still says what an unsafe request invalidates
		}
	}
	if b.host != "" && !strings.EqualFold(b.host, r.Host) {
		// The origin may go by either.
		b.extra = append(b.extra, cachekey.Pair{Name: "host", Value: strings.ToLower(r.Host)})
	}
	return b
}

// fold takes one field of a trusted proxy into account. It fails for what
// can't be part of a key, such as an override of the method, and for values
// that make no sense.
func (b *barrier) fold(name string, values []string) bool {
	if len(values) != 1 {
		return false
	}
	v := strings.TrimSpace(values[0])
	switch name {
	case "X-Forwarded-Host":
		return b.setHost(v)
	case "X-Forwarded-Proto", "X-Forwarded-Scheme", "X-Forwarded-Protocol", "X-Url-Scheme":
		return b.setScheme(v)
	case "Forwarded":
		return b.foldForwarded(v)
	case "X-Forwarded-Port", "X-Forwarded-Prefix", "X-Forwarded-Server", "X-Forwarded-Ssl", "Front-End-Https":
		b.extra = append(b.extra, cachekey.Pair{Name: strings.ToLower(name), Value: v})
		return true
	}
	return false
}

// foldForwarded reads a Forwarded field (RFC 7239 §4) of one element, the trusted
// peer's own. Of several nobody knows which one the origin goes by, and of an empty
// value nobody knows whether it goes by it.
func (b *barrier) foldForwarded(v string) bool {
	if strings.IndexByte(v, ',') >= 0 || strings.Contains(v, `=""`) {
		return false
	}
	e, ok := forwarded.Parse(v)
	return ok && (e.Host == "" || b.setHost(e.Host)) && (e.Proto == "" || b.setScheme(e.Proto))
}

func (b *barrier) setHost(v string) bool {
	if v == "" || strings.ContainsAny(v, " ,/\\@\t?#\"") || b.host != "" && !strings.EqualFold(b.host, v) {
		return false
	}
	b.host = v
	return true
}

// setScheme accepts http and https and nothing else: any other value would let
// whoever sends it make keys at will.
func (b *barrier) setScheme(v string) bool {
	v = strings.ToLower(v)
	if v != "http" && v != "https" || b.scheme != "" && b.scheme != v {
		return false
	}
	b.scheme = v
	return true
}

// stripBarrier removes the barrier's fields from h.
func stripBarrier(h http.Header) {
	for name := range h {
		if barrierFields[name] || strings.IndexByte(name, '_') >= 0 && barrierFields[dashed(name)] {
			delete(h, name)
		}
	}
}
