package middleware

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/store"
)

// postCapture keeps a copy of the response to a POST that says it answers later
// GETs of the same URL (RFC 9110 §9.3.3).
type postCapture struct {
	f      *fetch
	broken bool
	status int
	header http.Header
	length int64
	limit  int64
	body   []byte
	at     time.Time
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
func (p *postCapture) store(x *exchange, r *http.Request) {
	if p.broken || p.header == nil || r.Context().Err() != nil || p.length >= 0 && int64(len(p.body)) != p.length {
		return
	}
	f := p.f
	f.seq = x.seq // what it has purged itself doesn't count
	d := f.rules(p.header, p.status, p.at)
	if !d.Store || !d.Life.Source.Explicit() {
		return
	}
	names := d.VaryNames
	o := &store.Object{
		Key: f.variantKey(names), Primary: f.key, Status: p.status, Body: p.body,
		Header:    store.EncodeBlock(rfc9111.StoredHeader(p.header, p.at, &x.route.policy), "Content-Length"),
		VaryNames: names, RequestedAt: f.requestedAt, Life: d.Life, Length: strconv.Itoa(len(p.body)),
	}
	if len(names) > 0 {
		o.Selecting = string(x.route.spec.AppendSelecting(nil, names, f.asked))
	}
	o.Attached, o.Facts = attached(f.subject(p.header))
	if f.keep(o) {
		f.keepBySearch(o)
		x.rec.Cache.Stored, x.rec.Cache.NotStored = true, ""
	}
}
