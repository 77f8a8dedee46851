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
	tap      *store.Tap
	joinOnly bool // the header doesn't describe the representation
	part     run
}

// capturePart looks at the head of an answer to a range request.
func (x *exchange) capturePart(status int, h http.Header) capture {
	f := x.passed
	h = canonicalNames(h)
	f.outdateParts(status, h)
	if o := x.lookup().object; o != nil {
		x.outdateWhole(o, func(etag string, size int64) bool { return outdates(status, h, etag, size) })
	}
	if status == http.StatusOK { // the origin doesn't give parts
		if w := f.captureWhole(h, x.typed); w != nil {
			return w
		}
		return nil
	}
	_, strong := strongTag(h)
	place, size, ok := placeOf(status, h)
	if !strong || !ok || size > f.h.store.MaxMemoryObject() {
		return nil
	}
	p := &partCapture{f: f, place: spanOf(place), size: size, at: time.Now(), header: h.Clone()}
	for _, name := range [...]string{"Content-Range", "Content-Length", "Content-Digest", "Content-Md5"} {
		delete(p.header, name) // of the part
	}
	// Who asks with If-Range is known to have the other fields (RFC 9110 §15.3.7).
	p.joinOnly = x.facts&hasIfRange != 0 && len(h["Content-Type"]) == 0
	p.decision = f.rules(p.header, http.StatusOK, p.at) // as if it were the whole
	if !p.decision.Store {
		return nil
	}
	p.tap = f.h.store.NewTap(p.place.length())
	return p
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

func (p *partCapture) add(b []byte, err error) { tapInto(p.tap, b, err) }

func (p *partCapture) flushed() {}

func (p *partCapture) drop() { p.tap.Drop() }

// maxTries bounds how often a part is combined anew because others came meanwhile.
const maxTries = 4

// store keeps the part, if it's as long as it says and not outdated already.
func (p *partCapture) store(x *exchange, r *http.Request) {
	f, body := p.f, p.tap.Take()
	subject, _ := f.subject(p.header)
	if int64(len(body)) != p.place.length() || r.Context().Err() != nil ||
		f.h.purges.list.Check(subject) != purge.Valid {
		return
	}
	p.part = newRun(p.place.start, body)
	for try := range maxTries {
		seen := f.h.order.of(f.key).seen()
		whole := x.lookup().object
		if whole != nil && !x.outdateWhole(whole, p.outdates) {
			return // it goes first
		}
		old, had := f.h.parts(f.key)
		if old == nil && whole == nil && try > 0 {
			return // a newer answer, or a purge, made an end of them
		}
		o := p.combined(old, had)
		if o == nil || !p.valid(o) {
			return
		}
		if slices.Equal(o.Attached.(*parts).have, spans{{0, p.size}}) {
			o = f.whole(o)
		}
		kept := f.putJoined(o, old, seen)
		f.settle(o) // what a whole takes the place of may be in another tier
		if kept {
			x.rec.Cache.Stored, x.rec.Cache.NotStored = true, ""
			return
		}
	}
}

// outdates reports whether a whole response isn't what the part is of.
func (p *partCapture) outdates(etag string, size int64) bool {
	return size != p.size || !rfc9110.SameETag(p.header.Get("Etag"), etag)
}

// valid reports whether what the part makes of others may be stored: it hasn't been
// purged, softly either, since the newest of them was asked for.
func (p *partCapture) valid(o *store.Object) bool {
	return !p.f.flight.Doomed() && p.f.h.purges.list.Check(o.Attached.(*parts).subject) == purge.Valid
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
	next := &parts{size: p.size, names: names, selecting: selecting}
	if old == nil || !p.fits(old) || !had.sameAs(names, selecting) {
		if !newest || p.joinOnly {
			return nil
		}
		next.have, next.pieces = spans{p.place}, pieces{p.part}
		next.subject, next.facts = p.f.subject(p.header)
		return p.object(p.header, p.decision.Life, next)
	}
	var ok bool
	if next.have, ok = had.have.with(p.place); !ok {
		return nil
	}
	switch {
	case had.have.cover(p.place):
		next.pieces = had.pieces
	case newest:
		next.pieces = had.pieces.over(p.part).within(next.have)
	default:
		next.pieces = had.pieces.under(p.part).within(next.have)
	}
	if !newest { // its fields are the older ones
		next.subject, next.facts = p.f.subjectBeside(p.header, had)
		return &store.Object{
			Key: old.Key, Primary: old.Primary, Status: old.Status, Header: old.Header, Content: next,
			RequestedAt: old.RequestedAt, Attached: next, Life: old.Life, Length: old.Length,
		}
	}
	header := p.merged(old.Header.Header())
	decision := p.f.rules(header, http.StatusOK, p.at)
	if !decision.Store || !slices.Equal(decision.VaryNames, names) {
		return nil
	}
	next.subject, next.facts = p.f.subjectBeside(header, had)
	return p.object(header, decision.Life, next)
}

// fits reports whether the part is of the representation that old is of, in the same
// coding.
func (p *partCapture) fits(old *store.Object) bool {
	h := old.Header.Header()
	return slices.Equal(h["Etag"], p.header["Etag"]) && old.BodySize() == p.size &&
		(p.joinOnly || slices.Equal(h["Content-Encoding"], p.header["Content-Encoding"]))
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
func (p *partCapture) object(header http.Header, life rfc9111.Life, have *parts) *store.Object {
	f, key := p.f, partsKey(p.f.key)
	return &store.Object{
		Key: key, Primary: key, Status: http.StatusOK, Content: have,
		Header:      store.EncodeBlock(rfc9111.StoredHeader(header, p.at, &f.route.policy), "Content-Length"),
		RequestedAt: f.requestedAt, Attached: have, Life: life, Length: strconv.FormatInt(have.size, 10),
	}
}

// whole makes an ordinary object of parts that have become the whole.
func (f *fetch) whole(o *store.Object) *store.Object {
	p := o.Attached.(*parts)
	return &store.Object{
		Key: f.variantKey(p.names), Primary: f.key, Status: o.Status, Header: o.Header, Body: p.pieces.join(),
		VaryNames: p.names, Selecting: p.selecting,
		RequestedAt: o.RequestedAt, Attached: p.subject, Facts: p.facts, Life: o.Life, Length: o.Length,
	}
}
