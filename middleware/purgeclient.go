package middleware

import (
	"maps"
	"net/http"
	"net/netip"

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
// it doesn't say, there's no address. What others say about a request's way is left
// for the authoriser to see.
func (m *Middleware) asClient(r *http.Request) *http.Request {
	if peer, ok := forwarded.Peer(r.RemoteAddr); !ok || !forwarded.Trusted(peer, m.cfg.TrustedProxies) {
		return r
	}
	out := *r
	client := clientAddr(r, m.cfg.TrustedProxies, m.cfg.Admission.ClientField)
	if forwarded.Trusted(client, m.cfg.TrustedProxies) {
		out.RemoteAddr = ""
		return &out
	}
	out.RemoteAddr = netip.AddrPortFrom(client, 0).String()
	out.Header = maps.Clone(r.Header)
	maps.DeleteFunc(out.Header, func(name string, _ []string) bool { return forwarded.Says(name) })
	return &out
}
