package middleware

import (
	"net/http"
	"net/netip"

	"github.com/weirhttp/weir/admission/guard"
)

// clientAddr is the address of a request's client, invalid if it has none: its peer's,
// or what trusted proxies say in the field. A RemoteAddr without a port isn't the
// connection's but what an outer handler found out about the client: then that's it,
// and not a proxy to be trusted.
func clientAddr(r *http.Request, trusted []netip.Prefix, field guard.Forwarding) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		client, _ := netip.ParseAddr(r.RemoteAddr)
		return guard.ClientAddr(client, nil, field, nil)
	}
	name := "X-Forwarded-For"
	if field == guard.Forwarded {
		name = "Forwarded"
	}
	return guard.ClientAddr(peer.Addr(), trusted, field, r.Header[name])
}
