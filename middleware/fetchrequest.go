package middleware

import (
	"maps"
	"net/http"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/internal/rfc9111"
)

// makeRequest makes what the wrapped handler gets in a fetch: the client's
// request without what concerns only this client (ranges and conditions) and
// without what the key leaves out, and with the validators of what is stored.
func (f *fetch) makeRequest(x *exchange) {
	r := x.r.Clone(f.ctx)
	f.asked = maps.Clone(x.r.Header) // r has values of its own, which the handler may change
	f.judged = f.asked
	if x.facts&hasCookie != 0 && !x.cookies {
		// All cookies are in the key, or don't reach the origin.
		f.judged = maps.Clone(f.asked)
		delete(f.judged, "Cookie")
	}
	r.Body, r.ContentLength = http.NoBody, 0
	for _, name := range [...]string{"Range", "If-Range", "If-None-Match", "If-Modified-Since"} {
		delete(r.Header, name)
	}
	if x.barrier.strip {
		stripBarrier(r.Header)
	}
	if x.facts&hasH2C != 0 {
		ignoreH2C(r.Header)
	}
	if x.facts&hasOddName != 0 {
		dropOddNames(r.Header)
	}
	canonicalise(r, x.target().Scheme)
	if reduced, changed := x.route.spec.Reduce(&x.in); changed {
		r = reduced.Apply(r)
		for _, d := range reduced.Dropped {
			kind := "query "
			if d.Kind == cachekey.KindCookie {
				kind = "cookie "
			}
			f.dropped = append(f.dropped, kind+d.Name)
		}
	}
	if f.stale != nil {
		tag, modified := rfc9111.ConditionalFor(f.stale.Header.Header())
		if tag != "" {
			r.Header["If-None-Match"] = []string{tag}
		}
		if modified != "" {
			r.Header["If-Modified-Since"] = []string{modified}
		}
		f.conditional = tag != "" || modified != ""
	}
	target := x.target()
	f.scheme, f.host = target.Scheme, target.Host
	f.req, f.url = r, *r.URL
}

// canonicalise gives a fetch's request the spelling that the key has: what the key
// makes equal must not tell the origin apart.
func canonicalise(r *http.Request, scheme string) {
	r.Host = cachekey.CanonicalHost(scheme, r.Host)
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	if r.RequestURI == "" {
		return // a request made in the process
	}
	if r.URL.Host != "" { // a target in absolute form
		r.URL.Scheme, r.URL.Host, r.URL.User = "", "", nil
	}
	if r.URL.Path == "" {
		r.URL.Path = "/" // RFC 9110 §4.2.3
	}
	if r.URL.RawPath != r.URL.EscapedPath() {
		r.URL.RawPath = "" // no encoding of the path, so that the key has another
	}
	r.RequestURI = r.URL.RequestURI()
}

// unconditional prepares the fetch to ask again, for the whole response.
func (f *fetch) unconditional() {
	f.req = f.req.Clone(f.ctx)
	delete(f.req.Header, "If-None-Match")
	delete(f.req.Header, "If-Modified-Since")
	f.conditional, f.mismatch, f.discard, f.wrote, f.head, f.sniffed, f.held = false, false, false, false, nil, nil, nil
	f.header = make(http.Header)
	f.dog.stop() // the patience with the first answer's body
	f.setDeadline()
}
