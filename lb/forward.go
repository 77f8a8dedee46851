package lb

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/weirhttp/weir/internal/forwarded"
)

// forwarded sets the fields that tell an origin who asked. ReverseProxy has
// removed the client's Forwarded and X-Forwarded-For, -Host and -Proto from h.
func (p *proxy) forwarded(in *http.Request, h http.Header) {
	countHop(in, h)
	p.dropAliases(h)
	peer, trusted := p.peer(in)
	if !trusted {
		dropForwarding(h)
	}
	proto := "http"
	if in.TLS != nil {
		proto = "https"
	}
	host := in.Host
	forward := peer
	if trusted {
		if prior := joined(in.Header["X-Forwarded-For"]); prior != "" {
			forward = prior + ", " + peer
		}
		if v := in.Header.Get("X-Forwarded-Host"); v != "" {
			host = v
		}
		if v := strings.ToLower(in.Header.Get("X-Forwarded-Proto")); v == "http" || v == "https" {
			proto = v
		}
	}
	// One array for the three values, cut so that appending to one copies it.
	v := [...]string{forward, host, proto}
	if forward != "" {
		h["X-Forwarded-For"] = v[0:1:1]
	}
	h["X-Forwarded-Host"] = v[1:2:2]
	h["X-Forwarded-Proto"] = v[2:3:3]
	prior := ""
	if trusted {
		prior = joined(in.Header["Forwarded"])
	}
	if p.o.SendForwarded || prior != "" {
		h["Forwarded"] = []string{forwardedElement(prior, peer, in)}
	}
}

// forwardedElement adds a hop to a Forwarded field (RFC 7239 §4).
func forwardedElement(prior, peer string, in *http.Request) string {
	var b strings.Builder
	if prior != "" {
		b.WriteString(prior)
		b.WriteString(", ")
	}
	switch {
	case peer == "":
		b.WriteString("for=unknown")
	case strings.Contains(peer, ":"):
		b.WriteString(`for="[` + peer + `]"`)
	default:
		b.WriteString("for=" + peer)
	}
	if in.Host != "" {
		b.WriteString(`;host="` + quoteHost(in.Host) + `"`)
	}
	if in.TLS != nil {
		b.WriteString(";proto=https")
	} else {
		b.WriteString(";proto=http")
	}
	return b.String()
}

// quoteHost makes a host fit into a quoted string.
func quoteHost(s string) string {
	if !strings.ContainsAny(s, `"\`) {
		return s
	}
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s)
}

// peer returns the address that the request came from, "" if it has none, and
// whether that is a trusted proxy.
func (p *proxy) peer(in *http.Request) (string, bool) {
	addr, ok := forwarded.Peer(in.RemoteAddr)
	if !ok {
		return "", false
	}
	return addr.String(), forwarded.Trusted(addr, p.o.TrustedPeers)
}

// dropForwarding removes what only a proxy may say, also in spellings that some
// origins take for it.
func dropForwarding(h http.Header) {
	for name := range h {
		if len(name) < len("Forwarded") || name[0] != 'X' && name[0] != 'x' && name[0] != 'F' && name[0] != 'f' {
			continue
		}
		if strings.IndexByte(name, '_') >= 0 {
			if isForwarding(textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-"))) {
				delete(h, name)
			}
		} else if isForwarding(name) {
			delete(h, name)
		}
	}
}

// dropAliases removes what some origins take for a field of Protect: with CGI, X_User and
// X-User become the same variable.
func (p *proxy) dropAliases(h http.Header) {
	if len(p.o.Protect) == 0 {
		return
	}
	for name := range h {
		if p.isAlias(name) {
			delete(h, name)
		}
	}
}

func (p *proxy) isAlias(name string) bool {
	alias := false
	for _, own := range p.o.Protect {
		if strings.EqualFold(name, own) {
			return false
		}
		alias = alias || alike(name, own)
	}
	return alias
}

// alike reports whether two fields' names differ in case, and in - or _, at most.
func alike(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if plain(a[i]) != plain(b[i]) {
			return false
		}
	}
	return true
}

func plain(c byte) byte {
	switch {
	case 'A' <= c && c <= 'Z':
		return c + 'a' - 'A'
	case c == '_':
		return '-'
	}
	return c
}

func isForwarding(name string) bool {
	return strings.HasPrefix(name, "X-Forwarded-") || name == "X-Real-Ip" || name == "Forwarded"
}

// joined returns the lines of a field as one.
func joined(lines []string) string {
	if len(lines) == 1 {
		return lines[0]
	}
	return strings.Join(lines, ", ")
}

// via adds this hop to the request's Via field (RFC 9110 §7.6.3).
func (p *proxy) via(in *http.Request, h http.Header) {
	hop := "1.1 " + p.o.Via
	switch {
	case in.ProtoMajor == 1 && in.ProtoMinor == 1:
	case in.ProtoMajor == 1:
		hop = "1.0 " + p.o.Via
	case in.ProtoMajor == 2:
		hop = "2.0 " + p.o.Via
	case in.ProtoMajor == 3:
		hop = "3.0 " + p.o.Via
	}
	if prior := joined(h["Via"]); prior != "" {
		hop = prior + ", " + hop
	}
	h["Via"] = []string{hop}
}

// The fields that belong to one connection (RFC 9110 §7.6.1). Upgrade and Te are
// dealt with apart.
var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// dropHopByHop removes the fields of one connection, and those that Connection
// names, except for keep.
func dropHopByHop(h http.Header, keep []string) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			name = textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name))
			if name != "" && !slices.Contains(keep, name) {
				delete(h, name)
			}
		}
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
}

// clean returns r without what its client must not bring about: upgrades to
// protocols that aren't allowed, and the removal of fields that are for everyone.
// It returns r itself if there is nothing of it.
func (p *proxy) clean(r *http.Request) *http.Request {
	lines := r.Header["Connection"]
	if len(lines) == 0 && r.Header["Upgrade"] == nil {
		return r
	}
	var options []string
	dropped := false
	for _, line := range lines {
		for option := range strings.SplitSeq(line, ",") {
			if option = textproto.TrimString(option); option == "" {
				continue
			}
			if p.protected(option) || strings.EqualFold(option, "upgrade") && !p.mayUpgrade(r) {
				dropped = true
				continue
			}
			options = append(options, option)
		}
	}
	if !dropped {
		return r
	}
	out := *r
	out.Header = make(http.Header, len(r.Header))
	for name, values := range r.Header {
		out.Header[name] = values
	}
	delete(out.Header, "Connection")
	if len(options) > 0 {
		out.Header["Connection"] = []string{strings.Join(options, ", ")}
	}
	return &out
}

// mayUpgrade reports whether the protocol that r wants is allowed. HTTP/1.0 has no
// upgrades (RFC 9110 §7.8).
func (p *proxy) mayUpgrade(r *http.Request) bool {
	lines := r.Header["Upgrade"]
	if len(lines) != 1 || !r.ProtoAtLeast(1, 1) {
		return false
	}
	want := lines[0]
	return slices.ContainsFunc(p.o.Upgrades, func(s string) bool { return strings.EqualFold(s, want) })
}

// protected reports whether a field is meant for everyone on the way, so that
// naming it in Connection is against RFC 9110 §7.6.1. It would have the origin
// answer another request than the one that a cache or a guard looked at.
func (p *proxy) protected(option string) bool {
	name := textproto.CanonicalMIMEHeaderKey(option)
	if slices.Contains(p.o.Protect, name) || isForwarding(name) {
		return true
	}
	switch name {
	case "Host", "Authorization", "Cookie", "Origin", "Referer", "User-Agent", "Range", "Date", "From", "Via",
		"Cache-Control", "Pragma", "Expect", "Max-Forwards", "Age":
		return true
	}
	for _, prefix := range []string{"Accept", "Content-", "If-", "Sec-", "Access-Control-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
