package forwarded

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/weirhttp/weir/internal/field"
)

// Names of the fields that list a request's way.
const (
	ForField       = "X-Forwarded-For"
	ForwardedField = "Forwarded"
)

// about are fields that say how a request came and not whose it is.
var about = map[string]bool{
	"Fastly-Ff":                      true,
	"Front-End-Https":                true,
	"X-Arr-Log-Id":                   true,
	"X-Arr-Ssl":                      true,
	"X-Azure-Fdid":                   true,
	"X-Forwarded-Path":               true,
	"X-Forwarded-Prefix":             true,
	"X-Forwarded-Uri":                true,
	"X-Forwarded-Url":                true,
	"X-Nginx-Proxy":                  true,
	"X-Original-Host":                true,
	"X-Original-Method":              true,
	"X-Original-Scheme":              true,
	"X-Original-Uri":                 true,
	"X-Original-Url":                 true,
	"X-Scheme":                       true,
	"X-Url-Scheme":                   true,
	"X-Varnish":                      true,
	"X-Envoy-Attempt-Count":          true,
	"X-Envoy-Decorator-Operation":    true,
	"X-Envoy-Expected-Rq-Timeout-Ms": true,
	"X-Envoy-Internal":               true,
	"X-Envoy-Original-Path":          true,
}

// lists are fields to which each proxy adds one member, or that it overwrites.
var lists = map[string]bool{
	"Cdn-Loop":             true,
	"Via":                  true,
	"X-Forwarded-By":       true,
	"X-Forwarded-Host":     true,
	"X-Forwarded-Port":     true,
	"X-Forwarded-Proto":    true,
	"X-Forwarded-Protocol": true,
	"X-Forwarded-Scheme":   true,
	"X-Forwarded-Server":   true,
	"X-Forwarded-Ssl":      true,
}

// Own returns who a request's client is, by the named field, and its header as that
// client sent it to the first of the trusted proxies. Of the fields that say that a
// request was forwarded, those are left out that the trusted proxies can account for:
// the elements of the two lists up to the client; as many members of Via and other lists
// as there were trusted proxies; addresses that are the client's or a trusted proxy's;
// and what says nothing about the client. What is left says that the client forwarded
// somebody else's request, or may have.
func Own(peer netip.Addr, trusted []netip.Prefix, name string, h http.Header) (netip.Addr, http.Header) {
	w := followField(peer, trusted, name, h[name])
	out := make(http.Header, len(h))
	for key, lines := range h {
		if rest := w.unaccounted(peer, trusted, name, key, lines); len(rest) > 0 {
			out[key] = rest
		}
	}
	return w.at, out
}

func followField(peer netip.Addr, trusted []netip.Prefix, name string, lines []string) walked {
	if name == ForwardedField {
		return follow(peer, trusted, lines, cutLastElement, readElement)
	}
	return follow(peer, trusted, lines, cutLastComma, readNode)
}

// unaccounted returns what the client itself sent of a field. w is the walk by the field
// of the given name.
func (w *walked) unaccounted(peer netip.Addr, trusted []netip.Prefix, name, key string, lines []string) []string {
	switch {
	case !Says(key):
		return lines
	case key == name:
		return w.left(lines)
	case key == ForField || key == ForwardedField:
		other := followField(peer, trusted, key, lines)
		if other.at != w.at {
			return lines
		}
		return other.left(lines)
	case about[key]:
		return nil
	case lists[key]:
		n := 0
		for range field.Members(lines) {
			n++
		}
		if n > w.named {
			return lines
		}
		return nil
	}
	for text := range field.Members(lines) {
		addr, ok := Node(text, false)
		if !ok || addr != w.at && !Trusted(addr, trusted) {
			return lines
		}
	}
	return nil
}

// left returns the lines that weren't read, or nothing if they say nothing.
func (w *walked) left(lines []string) []string {
	if w.line < 0 {
		return nil
	}
	rest := append(slices.Clone(lines[:w.line]), w.rest)
	if !slices.ContainsFunc(rest, func(s string) bool { return strings.Trim(s, ", \t") != "" }) {
		return nil
	}
	return rest
}
