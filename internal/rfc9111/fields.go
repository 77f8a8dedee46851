package rfc9111

import (
	"net/http"
	"time"

	"github.com/weirhttp/weir/internal/field"
	"github.com/weirhttp/weir/internal/rfc9110"
)

// StoredHeader returns the fields of a response that are stored and reused
// (RFC 9111 §3.1), as a deep copy. Left out are fields for
// this connection only, what no-cache="…" and private="…" name, cookies unless
// the route stores them, and Age, which is counted in [Life]. A response without
// Date gets receivedAt as one (RFC 9110 §6.6.1).
func StoredHeader(h http.Header, receivedAt time.Time, p *Policy) http.Header {
	out := h.Clone()
	if out == nil {
		out = http.Header{}
	}
	rfc9110.RemoveHopByHop(out)
	delete(out, "Age")
	removeUnstored(out, p)
	if len(out["Date"]) == 0 {
		out["Date"] = []string{field.FormatDate(receivedAt)}
	}
	return out
}

// StoredUnchanged reports whether [StoredHeader] would return the same fields,
// but for Content-Length, so that the work can be saved. It may say no for too
// many headers.
func StoredUnchanged(h http.Header, p *Policy) bool {
	if len(h["Date"]) == 0 {
		return false
	}
	for name := range h {
		if name == "Age" || name == "Set-Cookie" || name == "Set-Cookie2" || rfc9110.IsHopByHop(name) {
			return false
		}
	}
	d := ParseResponse(h, p.targets())
	return len(d.NoCacheFields) == 0 && len(d.PrivateFields) == 0
}

// removeUnstored deletes what the response's own directives and the policy keep
// out of the store.
func removeUnstored(h http.Header, p *Policy) {
	d := ParseResponse(h, p.targets())
	for _, name := range d.NoCacheFields {
		delete(h, name)
	}
	for _, name := range d.PrivateFields {
		delete(h, name)
	}
	if !p.StoreSetCookie {
		delete(h, "Set-Cookie")
		delete(h, "Set-Cookie2")
	}
}
