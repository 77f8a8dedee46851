package forwarded

import (
	"net/netip"
	"strings"

	"github.com/weirhttp/weir/internal/field"
)

// MaxHops is how many elements are looked at. No chain of trusted proxies is as
// long.
const MaxHops = 32

// maxElement is how long an element may be.
const maxElement = 512

// Client returns the address of the client behind trusted proxies: the first one
// from the right, peer included, that isn't trusted. lines are the field lines of
// X-Forwarded-For in order. The answer is peer if peer isn't trusted, and if there
// is nothing to go on; where a line says something that isn't an address, it is the
// last one before that. An IPv4 address written as IPv6 is returned as IPv4, and
// zones are left out.
func Client(peer netip.Addr, trusted []netip.Prefix, lines []string) netip.Addr {
	return walk(peer, trusted, lines, cutLastComma, readNode)
}

// ClientOf is [Client] for the field lines of Forwarded.
func ClientOf(peer netip.Addr, trusted []netip.Prefix, lines []string) netip.Addr {
	return walk(peer, trusted, lines, cutLastElement, readElement)
}

func readNode(e string) (netip.Addr, bool) { return Node(e, false) }

func readElement(e string) (netip.Addr, bool) {
	el, ok := Parse(e)
	if !ok {
		return netip.Addr{}, false
	}
	return Node(el.For, true)
}

// walk follows the elements from the right. It fits both fields.
func walk(peer netip.Addr, trusted []netip.Prefix, lines []string,
	cut func(string) (rest, last string, ok bool), read func(string) (netip.Addr, bool)) netip.Addr {
	return follow(peer, trusted, lines, cut, read).at
}

// walked is how far a walk came.
type walked struct {
	at    netip.Addr
	named int    // how many addresses were read
	line  int    // the line in which it ended, or -1
	rest  string // what wasn't read of that
}

func follow(peer netip.Addr, trusted []netip.Prefix, lines []string,
	cut func(string) (rest, last string, ok bool), read func(string) (netip.Addr, bool)) walked {
	w := walked{at: Plain(peer)}
	hops := 0
	for w.line = len(lines) - 1; w.line >= 0; w.line-- {
		for w.rest = lines[w.line]; w.rest != ""; {
			if !Trusted(w.at, trusted) || hops == MaxHops {
				return w
			}
			hops++
			rest, last, ok := cut(w.rest)
			if !ok {
				return w
			}
			w.rest = rest
			if last = field.TrimOWS(last); last == "" {
				continue // an empty member of a list says nothing
			}
			addr, ok := read(last)
			if !ok {
				return w
			}
			w.at = addr
			w.named++
		}
	}
	return w
}

// Trusted reports whether addr, a plain one, is in one of the prefixes, which may be
// of IPv4 written as IPv6.
func Trusted(addr netip.Addr, prefixes []netip.Prefix) bool {
	for _, p := range prefixes {
		if p.Contains(addr) {
			return true
		}
		if p.Addr().Is4In6() {
			if p, ok := PlainPrefix(p); ok && p.Contains(addr) {
				return true
			}
		}
	}
	return false
}

// PlainPrefix returns p without the bits beyond its length, as one of IPv4 if it is one
// written as IPv6. It fails for what is no prefix, and for one that holds such addresses
// and others.
func PlainPrefix(p netip.Prefix) (netip.Prefix, bool) {
	switch {
	case !p.IsValid() || p.Addr().Is4In6() && p.Bits() < 96:
		return p, false
	case p.Addr().Is4In6():
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), true
}

// Peer returns the plain address of a connection's other end, as
// [net/http.Request].RemoteAddr has it: with a port.
func Peer(remoteAddr string) (netip.Addr, bool) {
	ap, err := netip.ParseAddrPort(remoteAddr)
	return Plain(ap.Addr()), err == nil
}

// Plain returns addr without a zone, as IPv4 if it is one written as IPv6.
func Plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

func cutLastComma(s string) (rest, last string, ok bool) {
	if i := strings.LastIndexByte(s, ','); i >= 0 {
		rest, last = s[:i], s[i+1:]
	} else {
		last = s
	}
	return rest, last, len(last) <= maxElement
}

// Node reads an address that may have a port: 192.0.2.1, 192.0.2.1:80,
// [2001:db8::1], [2001:db8::1]:80. Where strict isn't set, as for X-Forwarded-For,
// an IPv6 address may come without brackets. "unknown" and made-up names
// (RFC 7239 §6.2, §6.3) aren't addresses.
func Node(s string, strict bool) (netip.Addr, bool) {
	host, port, bracketed := s, "", false
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return netip.Addr{}, false
		}
		host, port, bracketed = s[1:end], s[end+1:], true
		if strings.IndexByte(host, ':') < 0 {
			return netip.Addr{}, false
		}
	} else if i := strings.IndexByte(s, ':'); i >= 0 && i == strings.LastIndexByte(s, ':') {
		host, port = s[:i], s[i:]
	}
	if port != "" && !goodPort(port, strict) {
		return netip.Addr{}, false
	}
	if !addressBytes(host) {
		return netip.Addr{}, false // spares making an error
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || strict && addr.Is6() && !bracketed {
		return netip.Addr{}, false
	}
	return Plain(addr), true
}

// addressBytes reports whether s could be an address. Go takes anything for a zone;
// here it is a token.
func addressBytes(s string) bool {
	s, zone, zoned := strings.Cut(s, "%")
	if zoned && !field.IsToken(zone) {
		return false
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f', 'A' <= c && c <= 'F', c == ':', c == '.':
		default:
			return false
		}
	}
	return s != "" && len(s) <= 45
}

// goodPort checks ":" and a port, or where names allows it a made-up name of one.
func goodPort(s string, names bool) bool {
	s = s[1:]
	if s == "" || s[0] == '_' && !names {
		return false
	}
	if s[0] == '_' {
		return len(s) > 1 && field.IsToken(s)
	}
	n := 0
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' || i == 5 {
			return false
		}
		n = 10*n + int(s[i]-'0')
	}
	return n <= 65535
}
