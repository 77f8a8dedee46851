package middleware

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/weirhttp/weir/internal/rfc9110"
	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
)

// partCapture keeps a copy of the part that the origin answers a range request
// with that was handed on.
type partCapture struct {
	f        *fetch
	header   http.Header
	place    span
	size     int64 // the complete length
	decision rfc9111.Decision
	at       time.Time
	body     []byte
	broken   bool
}

func (p *partCapture) begin(x *exchange, status int, h http.Header) bool {
	h = canonicalNames(h)
	etag, strong := strongTag(h)
	p.f.outdateParts(status, etag)
	place, size, ok := placeOf(status, h)
	if !strong || !ok || size > x.h.store.MaxMemoryObject() {
		return false
	}
	p.place, p.size, p.at, p.header = spanOf(place), size, time.Now(), h.Clone()
	delete(p.header, "Content-Range")
	delete(p.header, "Content-Length")
	p.decision = p.f.rules(p.header, http.StatusOK, p.at) // as if it were the whole
	return p.decision.Store
}

// placeOf returns which bytes a 206 has, and of how many. It reports false if
// they aren't one range of a known complete length, or the head contradicts itself.
func placeOf(status int, h http.Header) (place rfc9110.Range, size int64, ok bool) {
	lines, length := h["Content-Range"], declaredLength(h, status)
	if status != http.StatusPartialContent || len(lines) != 1 || len(h["Content-Length"]) > 1 ||
		rfc9111.MediaType(h) == "multipart/byteranges" {
		return place, 0, false
	}
	place, size, ok = rfc9110.ParseContentRange(lines[0])
	return place, size, ok && size >= 0 && (length < 0 || length == place.Length)
}

func (p *partCapture) add(b []byte, err error) {
	switch {
	case p.broken:
	case err != nil || int64(len(p.body)+len(b)) > p.place.length():
		p.broken, p.body = true, nil
	default:
		p.body = append(p.body, b...)
	}
}

// store keeps the part, if it's as long as it says and not outdated already.
func (p *partCapture) store(x *exchange, r *http.Request) {
	f := p.f
	if p.header == nil {
		return
	}
	subject, _ := f.subject(p.header)
	if p.broken || int64(len(p.body)) != p.place.length() || r.Context().Err() != nil ||
		x.lookup().object != nil ||
		f.h.purges.list.Check(subject) != purge.Valid {
		return
	}
	old, had := f.h.parts(f.key)
	o := p.combined(old, had)
	switch {
	case o == nil:
		return
	case slices.Equal(o.Attached.(*parts).have, spans{{0, p.size}}):
		if !f.keep(f.whole(o)) {
			return
		}
	case !f.keepParts(o):
		return
	}
	x.rec.Cache.Stored, x.rec.Cache.NotStored = true, ""
}

// combined returns the new part together with the old ones, if they are of the
// same representation, or else alone; or nil if the old ones are to stay as they
// are.
func (p *partCapture) combined(old *store.Object, had *parts) *store.Object {
	names, selecting := p.decision.VaryNames, ""
	if len(names) > 0 {
		selecting = string(p.f.route.spec.AppendSelecting(nil, names, p.f.asked))
	}
	newest := old == nil || !old.RequestedAt.After(p.f.requestedAt)
	if old == nil || !p.fits(old) || !had.sameAs(names, selecting) {
		if !newest {
			return nil
		}
		body := make([]byte, p.size)
		copy(body[p.place.start:], p.body)
		return p.object(p.header, p.decision.Life, body, &parts{have: spans{p.place}, names: names, selecting: selecting})
	}
	have, ok := had.have.with(p.place)
	if !ok {
		return nil
	}
	body := old.Body
	if !had.have.cover(p.place) {
		body = p.filled(old.Body, had.have, newest)
	}
	next := &parts{have: have, names: names, selecting: selecting}
	if !newest { // its fields are the older ones
		next.subject = had.subject
		return &store.Object{
			Key: old.Key, Primary: old.Primary, Status: old.Status, Header: old.Header, Body: body,
			RequestedAt: old.RequestedAt, Attached: next, Life: old.Life, Length: old.Length,
		}
	}
	header := p.merged(old.Header.Header())
	decision := p.f.rules(header, http.StatusOK, p.at)
	if !decision.Store || !slices.Equal(decision.VaryNames, names) {
		return nil
	}
	return p.object(header, decision.Life, body, next)
}

// fits reports whether the part is of the representation that old is of.
func (p *partCapture) fits(old *store.Object) bool {
	etag, _ := old.Header.Get("Etag")
	return etag == p.header["Etag"][0] && old.BodySize() == p.size
}

// filled returns a copy of a body with the part in its place.
func (p *partCapture) filled(body []byte, have spans, newest bool) []byte {
	next := make([]byte, len(body))
	if newest {
		copy(next, body)
		copy(next[p.place.start:], p.body)
		return next
	}
	copy(next[p.place.start:], p.body)
	for _, s := range have {
		copy(next[s.start:s.end], body[s.start:s.end])
	}
	return next
}

// merged is the header of the combination: the stored fields, each replaced by
// the part's of the same name (RFC 9111 §3.4). Age is the part's own, or none.
func (p *partCapture) merged(stored http.Header) http.Header {
	out := maps.Clone(stored)
	delete(out, "Date")
	maps.Copy(out, p.header)
	return out
}

// object makes the object that f's answer turns the parts into.
func (p *partCapture) object(header http.Header, life rfc9111.Life, body []byte, have *parts) *store.Object {
	f, key := p.f, partsKey(p.f.key)
	have.subject, have.facts = f.subject(header)
	return &store.Object{
		Key: key, Primary: key, Status: http.StatusOK, Body: body,
		Header:      store.EncodeBlock(rfc9111.StoredHeader(header, p.at, &f.route.policy), "Content-Length"),
		RequestedAt: f.requestedAt, Attached: have, Life: life, Length: strconv.Itoa(len(body)),
	}
}

// whole makes an ordinary object of parts that have become the whole.
func (f *fetch) whole(o *store.Object) *store.Object {
	p := o.Attached.(*parts)
	return &store.Object{
		Key: f.variantKey(p.names), Primary: f.key, Status: o.Status, Header: o.Header, Body: o.Body,
		VaryNames: p.names, Selecting: p.selecting,
		RequestedAt: o.RequestedAt, Attached: p.subject, Facts: p.facts, Life: o.Life, Length: o.Length,
	}
}
