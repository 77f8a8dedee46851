package guard

import (
	"net/netip"

	"github.com/weirhttp/weir/internal/forwarded"
)

// Forwarding is a request field in which proxies say who the client is.
type Forwarding uint8

// The fields.
const (
	XForwardedFor Forwarding = iota
	Forwarded                // RFC 7239
)

// ClientAddr returns the address of a request's client. peer is the address of the
// connection. If it is in one of the trusted prefixes, lines, the field lines of
// the named field in order, are followed from right to left up to the first address
// that isn't trusted, and no further than they can be read. Nothing that somebody
// who isn't trusted wrote is ever believed.
//
// Name the field that your proxies set, and let them remove the other: one that
// they pass on is the client's own. A peer without an address, such as that of a
// Unix socket, isn't trusted. At most 32 elements are read.
func ClientAddr(peer netip.Addr, trusted []netip.Prefix, f Forwarding, lines []string) netip.Addr {
	if f == Forwarded {
		return forwarded.ClientOf(peer, trusted, lines)
	}
	return forwarded.Client(peer, trusted, lines)
}
