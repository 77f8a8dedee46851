package cachekey

import (
	"net/http"
	"net/url"
	"strings"
)

// CanonicalHost returns the form in which a host is keyed: lower-case, without
// the default port of the scheme (80 for http, 443 for https) and without an
// empty port. A trailing dot stays, and so does the spelling of an IPv6 literal.
// It allocates only if something has to be lower-cased.
func CanonicalHost(scheme, host string) string {
	return lowerASCII(withoutDefaultPort(scheme, host))
}

// withoutDefaultPort cuts an empty or default port off.
func withoutDefaultPort(scheme, host string) string {
	colon := strings.LastIndexByte(host, ':')
	if colon < 0 {
		return host
	}
	// A colon inside brackets, or one of several without brackets, belongs to an
	// IPv6 address.
	if name := host[:colon]; strings.IndexByte(name, ':') >= 0 && (name[0] != '[' || name[colon-1] != ']') {
		return host
	}
	switch port := host[colon+1:]; {
	case port == "",
		port == "80" && scheme == "http",
		port == "443" && scheme == "https":
		return host[:colon]
	}
	return host
}

func appendHost(dst []byte, scheme, host string) []byte {
	host = withoutDefaultPort(scheme, host)
	dst = appendLabel(dst, KindHost)
	dst = appendLength(dst, len(host))
	start := len(dst)
	dst = append(dst, host...)
	for i, c := range dst[start:] {
		if 'A' <= c && c <= 'Z' {
			dst[start+i] = c + 'a' - 'A'
		}
	}
	return append(dst, ' ')
}

// appendTarget writes the scheme and authority of an absolute-form target (RFC
// 9112 §3.2.2) if they aren't those that the request is keyed under: a handler
// can see them, so they must not share a key with requests that lack them.
// Requests that this program made itself always have an absolute URL.
func appendTarget(dst []byte, r *http.Request, scheme, host string) []byte {
	u := r.URL
	if u.Scheme == "" && u.Host == "" && u.User == nil || r.RequestURI == "" || u.Opaque != "" {
		return dst
	}
	if u.User == nil && u.Scheme == scheme && u.Host == host {
		return dst
	}
	if u.User == nil && equalFoldASCII(u.Scheme, scheme) &&
		equalFoldASCII(withoutDefaultPort(scheme, u.Host), withoutDefaultPort(scheme, host)) {
		return dst
	}
	authority := (&url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host}).String()
	return appendSingle(dst, KindTarget, authority)
}

func lowerByte(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func lowerASCII(s string) string {
	for i := range len(s) {
		if lowerByte(s[i]) != s[i] {
			lower := []byte(s)
			for j := i; j < len(lower); j++ {
				lower[j] = lowerByte(lower[j])
			}
			return string(lower)
		}
	}
	return s
}

// equalFoldASCII is strings.EqualFold without Unicode's foldings, by which "K"
// and the Kelvin sign would be one letter.
func equalFoldASCII(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if a[i] != b[i] && lowerByte(a[i]) != lowerByte(b[i]) {
			return false
		}
	}
	return true
}
