package rfc9111

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/weirhttp/weir/internal/field"
	"github.com/weirhttp/weir/internal/rfc9110"
)

// Invalidates reports whether an answer invalidates what is stored for the
// target of its request (RFC 9111 §4.4): a 2xx or 3xx to a method that isn't
// known to be safe.
func Invalidates(method string, status int) bool {
	return !rfc9110.IsSafe(method) && status >= 200 && status < 400
}

// InvalidationTargets returns the URIs to invalidate after an answer for which
// [Invalidates] holds: the target itself, and what its Location and
// Content-Location name, if that has the same origin (RFC 9111 §4.4), also as they
// spell its path if that has dot segments. target must
// be absolute; it is the URI the client meant, not the one the origin got.
// Fragments and user information are left out.
func InvalidationTargets(target *url.URL, response http.Header) []*url.URL {
	list := []*url.URL{bare(target)}
	for _, name := range [...]string{"Location", "Content-Location"} {
		lines := response[name]
		if len(lines) != 1 {
			continue // none, or nobody knows which
		}
		ref, err := url.Parse(field.TrimOWS(lines[0]))
		if err != nil {
			continue
		}
		u := bare(target.ResolveReference(ref))
		if !sameOrigin(u, target) {
			continue
		}
		for _, u := range [...]*url.URL{u, spelt(u, ref)} {
			if !known(list, u) {
				list = append(list, u)
			}
		}
	}
	return list
}

// spelt is u, which ref was resolved to, with ref's own path if that is absolute: some
// clients send its dot segments, and what is stored for those is of the same resource.
func spelt(u, ref *url.URL) *url.URL {
	if !strings.HasPrefix(ref.Path, "/") {
		return u
	}
	c := *u
	c.Path, c.RawPath = ref.Path, ref.RawPath
	return &c
}

func bare(u *url.URL) *url.URL {
	c := *u
	c.User, c.Fragment, c.RawFragment = nil, "", ""
	return &c
}

func known(list []*url.URL, u *url.URL) bool {
	for _, k := range list {
		if k.String() == u.String() {
			return true
		}
	}
	return false
}

// sameOrigin compares scheme, host and port (RFC 9110 §4.3.1).
func sameOrigin(a, b *url.URL) bool {
	return field.EqualFold(a.Scheme, b.Scheme) &&
		field.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	p := u.Port()
	switch {
	case p != "":
		return strings.TrimLeft(p, "0")
	case field.EqualFold(u.Scheme, "https"):
		return "443"
	case field.EqualFold(u.Scheme, "http"):
		return "80"
	}
	return ""
}

// Groups returns the groups a response belongs to (Cache-Groups, RFC 9875 §2).
// A malformed field counts as absent.
func Groups(response http.Header) []string {
	groups, _ := field.ParseStrings(response["Cache-Groups"])
	return groups
}

// InvalidatedGroups returns the groups, of the target's origin, that an answer
// invalidates (Cache-Group-Invalidation, RFC 9875 §3). Answers to safe methods
// invalidate none.
func InvalidatedGroups(method string, response http.Header) []string {
	if rfc9110.IsSafe(method) {
		return nil
	}
	groups, _ := field.ParseStrings(response["Cache-Group-Invalidation"])
	return groups
}
