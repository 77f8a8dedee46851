package middleware

import (
	"net/http"

	"github.com/weirhttp/weir/trace"
)

// ServeHTTP answers one request. This is its whole way; each step is in the
// file of its name and says what it found. Only pass, respond, deliver, turnAway and
// refuse write to the client. Nothing reaches the wrapped handler without a permit:
// pass asks for it, and so does the fetch that claim starts.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := begin(h, w, r)
	defer x.end()
	defer x.outlive()

	if !x.enter() { // too many requests, or too many of this client
		return
	}
	if r.Method == "PRI" { // the preface of HTTP/2 where it isn't spoken
		x.refuse(http.StatusHTTPVersionNotSupported, whyPreface)
		return
	}
	if x.isPurge() {
		x.servePurge()
		return
	}
	if why := x.classify(); why != "" {
		x.pass(trace.Bypass, x.bypassForward(), why)
		return
	}
	if why := x.identify(); why != "" {
		x.pass(trace.Bypass, trace.ForwardBypass, why)
		return
	}
	for {
		found := x.lookup()
		if o, ttl := x.part(&found); o != nil && x.open(o) {
			x.respond(o, trace.Hit, whyPart, ttl)
			return
		}
		v := x.judge(&found)
		if x.route.search && found.object == nil {
			x.bySearch(&found, &v)
		}
		switch v.act {
		case serveStored:
			if !x.open(found.object) {
				continue
			}
			x.respond(found.object, v.status, v.reason, v.ttl)
			return
		case serveAndRefresh:
			if !x.open(found.object) {
				continue
			}
			x.refresh(found.object)
			x.respond(found.object, v.status, v.reason, v.ttl)
			return
		case handOn:
			x.pass(v.status, v.forward, v.reason)
			return
		case refuse:
			x.refuse(http.StatusGatewayTimeout, v.reason)
			return
		}
		if a := x.claim(&found, &v); x.answer(&a) {
			return
		}
	}
}

// answer waits for what comes of a fetch and answers with it. It returns false
// if that isn't for x, or not yet: then x looks again.
func (x *exchange) answer(a *attendance) bool {
	defer a.leave()
	head := a.attend(x)
	if head == nil {
		return false
	}
	return x.deliver(a, head)
}
