package middleware

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/store/flight"
)

// postCapture keeps a copy of the response to a POST that says it answers later
// GETs of the same URL (RFC 9110 §9.3.3).
type postCapture struct {
	broken bool
	status int
	header http.Header
	length int64
	limit  int64
	body   []byte
	at     time.Time
}

// mayStorePost reports whether x is a POST whose response may answer later GETs:
// not if it was shaped by what isn't in their key.
func (x *exchange) mayStorePost() bool {
	if !x.route.storePost || x.route.cacheOff || x.r.Method != http.MethodPost || x.barrier.bypass || x.facts&(hasNominated|hasOddName) != 0 {
		return false
	}
	in := x.getInput()
	_, reduces := x.route.spec.Reduce(&in)
	return !reduces
}

// begin looks at the head.
func (p *postCapture) begin(x *exchange, status int, h http.Header) bool {
	if status != http.StatusOK || len(h["Content-Location"]) != 1 {
		return false
	}
	h = canonicalNames(h)
	target := x.target()
	ref, err := url.Parse(h["Content-Location"][0])
	if err != nil || target.ResolveReference(ref).String() != target.String() {
		return false
	}
	p.status, p.header, p.at = status, h.Clone(), time.Now()
	p.length, p.limit = declaredLength(h, status), x.h.store.MaxMemoryObject()
	return true
}

func (p *postCapture) add(b []byte, err error) {
	switch {
	case p.broken:
	case err != nil || int64(len(p.body)+len(b)) > p.limit:
		p.broken, p.body = true, nil
	default:
		p.body = append(p.body, b...)
	}
}

// store keeps the response as the one to a GET, if it's whole and the rules
// allow it with a lifetime that the origin itself gave.
func (p *postCapture) store(x *exchange, r *http.Request, asked time.Time) {
	if p.broken || p.header == nil || r.Context().Err() != nil || p.length >= 0 && int64(len(p.body)) != p.length {
		return
	}
	key, ok := x.getKey()
	if !ok {
		return
	}
	fl := x.h.flights.Solo(flight.Key{Primary: key}, x.lane())
	defer fl.Finish(nil)
	in := x.getInput()
	f := &fetch{h: x.h, flight: fl, route: x.route, key: key, search: x.searchPlace(&in), req: r, asked: r.Header, judged: r.Header, requestedAt: asked, seq: x.seq, scheme: x.target().Scheme, host: x.target().Host}
	d := f.rules(p.header, p.status, p.at)
	if !d.Store || !d.Life.Source.Explicit() {
		return
	}
	names := d.VaryNames
	o := &store.Object{
		Key: f.variantKey(names), Primary: key, Status: p.status, Body: p.body,
		Header:    store.EncodeBlock(rfc9111.StoredHeader(p.header, p.at, &x.route.policy), "Content-Length"),
		VaryNames: names, RequestedAt: asked, Life: d.Life, Length: strconv.Itoa(len(p.body)),
	}
	if len(names) > 0 {
		o.Selecting = string(x.route.spec.AppendSelecting(nil, names, r.Header))
	}
	o.Attached, o.Facts = attached(f.subject(p.header))
	if f.keep(o) {
		f.keepBySearch(o)
		x.rec.Cache.Stored, x.rec.Cache.NotStored = true, ""
	}
}
