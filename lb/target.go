package lb

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
)

var (
	errBadTarget    = errors.New("the request's target isn't a path, or has a space or control character")
	errOtherScheme  = errors.New("the request's target isn't a path nor an URL with a host")
	errBadAuthority = errors.New("the request's host isn't one")
)

// validTarget reports whether a target fits into an HTTP/1 request line. The path
// always does; the query goes out as it came, which over HTTP/2 may be anything. An
// opaque URL has to be one of the forms of RFC 9112 §3.2 too.
func validTarget(u *url.URL) bool {
	if u.Opaque != "" && u.Opaque != "*" && u.Opaque[0] != '/' {
		return false
	}
	for _, s := range [...]string{u.RawQuery, u.Opaque} {
		for i := range len(s) {
			if s[i] <= ' ' || s[i] == 0x7f {
				return false
			}
		}
	}
	return true
}

// validAuthority reports whether s is a host with or without a port (RFC 3986
// §3.2). net/http's server looks at HTTP/1's Host only, and its client sends an
// empty one for what it doesn't like.
func validAuthority(s string) bool {
	port := ""
	if rest, ok := strings.CutPrefix(s, "["); ok {
		ip, after, ok := strings.Cut(rest, "]")
		addr, err := netip.ParseAddr(ip)
		if !ok || err != nil || !addr.Is6() || !isRegName(addr.Zone()) {
			return false
		}
		if after == "" {
			return true
		}
		if port, ok = strings.CutPrefix(after, ":"); !ok {
			return false
		}
	} else {
		var name string
		name, port, _ = strings.Cut(s, ":")
		if name == "" || !isRegName(name) {
			return false
		}
	}
	for i := range len(port) {
		if port[i] < '0' || port[i] > '9' {
			return false
		}
	}
	return true
}

// isRegName reports whether s consists of what a name in an URL may have; "" does.
func isRegName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~%!$&'()*+,;=", c) >= 0) {
			return false
		}
	}
	return true
}
