package middleware

import (
	"net/http"
	"net/netip"

	"github.com/weirhttp/weir/admission/guard"
	"github.com/weirhttp/weir/internal/forwarded"
)

// authoriser makes of authorise one that sees who a request's client is.
func (m *Middleware) authoriser(authorise func(*http.Request) (string, error)) func(*http.Request) (string, error) {
	if authorise == nil {
		return nil
	}
	return func(r *http.Request) (string, error) { return authorise(m.asClient(r)) }
}

// asClient is r as it would be if the client had sent it to this process itself, where
// a trusted proxy says who that is: nobody may purge because of a proxy's address. If
// it doesn't say, there's no address. What trusted proxies don't account for of the
// fields that say that a request was forwarded is left for the authoriser to see: the
// client is a proxy too, then, and may have visitors.
func (m *Middleware) asClient(r *http.Request) *http.Request {
	peer, ok := forwarded.Peer(r.RemoteAddr)
	if !ok || !forwarded.Trusted(peer, m.cfg.TrustedProxies) {
		return r
	}
	name := forwarded.ForField
	if m.cfg.Admission.ClientField == guard.Forwarded {
		name = forwarded.ForwardedField
	}
	out := *r
	client, header := forwarded.Own(peer, m.cfg.TrustedProxies, name, r.Header)
	if forwarded.Trusted(client, m.cfg.TrustedProxies) {
		out.RemoteAddr = ""
		return &out
	}
	out.RemoteAddr, out.Header = netip.AddrPortFrom(client, 0).String(), header
	return &out
}
