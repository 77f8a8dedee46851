package middleware

import (
	"net/http"
	"slices"

	"github.com/zeebo/blake3"

	"github.com/weirhttp/weir/internal/rfc9110"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
)

// Where a route hands ranges to the origin, the parts that come back are kept
// (RFC 9111 §3.3): those of one representation, in one object of the store under a
// key of its own. Its content is in pieces with gaps between them, and takes the room
// of the bytes that came. A further part makes a new object (§3.4), which shares the
// old pieces. It's kept in memory only, and whatever is stored under the ordinary key
// goes first.

// parts is what an object is kept with whose body has gaps. It's the body, too.
type parts struct {
	size      int64 // of the whole
	have      spans // what the pieces make together
	pieces    pieces
	names     []string // the selecting fields
	selecting string   // and what they were
	subject   *purge.Subject
	facts     []byte // the same for a disk, once the parts are the whole
}

// Size implements [store.Content].
func (p *parts) Size() int64 { return p.size }

// Open implements [store.Content].
func (p *parts) Open() (store.File, error) { return piecesFile{p.pieces}, nil }

// Weight implements [store.Attachment].
func (p *parts) Weight() int64 {
	const span, header = 16, 16
	w := p.subject.Weight() + 160 + int64(cap(p.have)*span+len(p.selecting)+len(p.facts)) + p.pieces.weight()
	for _, name := range p.names {
		w += int64(header + len(name))
	}
	return w
}

// partsDomain keeps the keys of parts apart from all others.
const partsDomain = "weir parts\x00"

// partsKey is where the parts of the responses to a primary key are.
func partsKey(primary store.Key) store.Key {
	var text [len(partsDomain) + len(primary)]byte
	copy(text[copy(text[:], partsDomain):], primary[:])
	return blake3.Sum256(text[:])
}

// parts returns what is kept of the responses to a primary key, unless it has
// been purged, even softly.
func (m *Middleware) parts(primary store.Key) (*store.Object, *parts) {
	key := partsKey(primary)
	o := m.store.GetMemory(key)
	if o == nil {
		return nil, nil
	}
	p, ok := o.Attached.(*parts)
	if !ok || m.purges.list.Check(p.subject) != purge.Valid {
		m.store.DeleteMemory(key)
		return nil, nil
	}
	return o, p
}

// dropParts forgets what is kept of the responses to a primary key.
func (m *Middleware) dropParts(primary store.Key) { m.store.DeleteMemory(partsKey(primary)) }

// outdateParts forgets the parts that the head of an answer to f shows to be of an
// older representation.
func (f *fetch) outdateParts(status int, h http.Header) {
	order := f.h.order.of(f.key)
	order.Lock() // or a whole that takes its place just now may bring them back
	defer order.Unlock()
	o, _ := f.h.parts(f.key)
	if o == nil || o.RequestedAt.After(f.requestedAt) {
		return
	}
	if etag, _ := o.Header.Get("Etag"); outdates(status, h, etag, o.BodySize()) {
		f.h.store.DeleteMemoryObject(o)
	}
}

// outdates reports whether a response, to GET or HEAD, shows that what has the given
// strong tag and length isn't the representation any more.
func outdates(status int, h http.Header, etag string, size int64) bool {
	said := h.Get("Etag")
	switch status {
	case http.StatusOK:
		declared := declaredLength(h, status)
		return said != etag || declared >= 0 && declared != size
	case http.StatusPartialContent:
		_, complete, ok := placeOf(status, h)
		return said != etag || ok && complete != size
	case http.StatusNotModified:
		return said != "" && !rfc9110.SameETag(etag, said)
	case http.StatusRequestedRangeNotSatisfiable:
		complete, ok := rfc9110.ParseUnsatisfiedRange(h.Get("Content-Range"))
		return ok && complete != size
	case http.StatusNotFound, http.StatusGone:
		return true
	}
	return false // it says nothing about what the resource is
}

// keepParts keeps an object with gaps in the place of old, unless that isn't there any
// more, or the key was purged since f began.
func (f *fetch) keepParts(o, old *store.Object) bool {
	allowed := func(there *store.Object) bool { return there == old && !f.flight.Doomed() }
	return f.h.store.PutMemory(o, allowed) == store.Kept
}

// sameAs reports whether p's bytes may be combined with others: those of the
// same selecting fields.
func (p *parts) sameAs(names []string, selecting string) bool {
	return p.selecting == selecting && slices.Equal(p.names, names)
}

// strongTag returns a response's entity tag if it's a strong one, without which
// bytes of two responses can't be known to be of the same representation.
func strongTag(h http.Header) (string, bool) {
	lines := h["Etag"]
	if len(lines) != 1 {
		return "", false
	}
	tag, ok := rfc9110.ParseETag(lines[0])
	return lines[0], ok && !tag.Weak
}
