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
// key of its own. Its Body is as long as the whole, with nothing in the gaps, and
// its parts say where the gaps are. A further part makes a new object (§3.4). It's
// kept in memory only, and whatever is stored under the ordinary key goes first.

// parts is what an object is kept with whose body has gaps.
type parts struct {
	have      spans
	names     []string // the selecting fields
	selecting string   // and what they were
	subject   *purge.Subject
	facts     []byte // the same for a disk, once the parts are the whole
}

// Weight implements store.Attachment.
func (p *parts) Weight() int64 {
	const span, header = 16, 16
	w := p.subject.Weight() + 128 + int64(cap(p.have)*span+len(p.selecting)+len(p.facts))
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

// outdateParts forgets the parts that an answer to f shows to be of an older
// representation.
func (f *fetch) outdateParts(status int, etag string) {
	switch status {
	case http.StatusOK, http.StatusPartialContent, http.StatusNotFound, http.StatusGone:
	default:
		return // it says nothing about what the resource is
	}
	o, _ := f.h.parts(f.key)
	if o == nil || o.RequestedAt.After(f.requestedAt) {
		return
	}
	if have, _ := o.Header.Get("Etag"); have != etag || status >= 300 {
		f.h.dropParts(f.key)
	}
}

// keepParts keeps an object with gaps, unless it was purged since f began: as
// keepWith does.
func (f *fetch) keepParts(o *store.Object) bool {
	if f.flight.Doomed() || f.h.purges.list.Check(o.Attached.(*parts).subject) != purge.Valid {
		return false
	}
	return f.h.store.PutMemory(o, func() bool { return !f.flight.Doomed() }) == store.Kept
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
