package lb

import (
	"net/http"
	"strings"

	"github.com/weirhttp/weir/internal/field"
	"github.com/weirhttp/weir/internal/forwarded"
)

// hashKey is the digest of what the policy goes by, and whether the request has
// it.
func (pc *poolConfig) hashKey(req *http.Request) (uint64, bool) {
	switch pc.Policy {
	case HashClient:
		return clientKey(req)
	case HashPath:
		return digestString(req.URL.EscapedPath()), true
	case HashKey:
		k, ok := keyFrom(req.Context())
		return digest(k[:]), ok
	case HashHeader:
		if pc.HashName == "Host" { // which net/http keeps out of the header
			return digestString(hostOf(req)), true
		}
		values := req.Header[pc.HashName]
		switch len(values) {
		case 0:
			return 0, false
		case 1:
			return digestString(field.TrimOWS(values[0])), true
		}
		return digestString(strings.Join(trimmedValues(values), ", ")), true
	case HashCookie:
		v, ok := cookie(req.Header["Cookie"], pc.HashName)
		return digestString(v), ok
	}
	return 0, false
}

// clientKey is an IPv4 address, or an IPv6 address's /64: within it a host changes
// its address at will.
func clientKey(req *http.Request) (uint64, bool) {
	addr, ok := clientFrom(req.Context())
	if !ok {
		if addr, ok = forwarded.Peer(req.RemoteAddr); !ok {
			return 0, false
		}
	}
	addr = addr.Unmap()
	if addr.Is4() {
		a := addr.As4()
		return digest(a[:]), true
	}
	a := addr.As16()
	return digest(a[:8]), true
}

// cookie returns the first value of the cookie that isn't empty, without what
// http.Request.Cookie allocates for it.
func cookie(lines []string, name string) (string, bool) {
	for c := range field.Cookies(lines) {
		if c.Name == name && c.Value != "" {
			return strings.Trim(c.Value, `"`), true
		}
	}
	return "", false
}

// hostOf is the host that a request is for, in lower case and without port.
func hostOf(req *http.Request) string {
	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	if strings.HasPrefix(host, "[") {
		if i := strings.IndexByte(host, ']'); i > 0 {
			return host[:i+1]
		}
	}
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		host = host[:i]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
