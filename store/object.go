package store

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/weirhttp/weir/internal/rfc9111"
)

// Key is the identity of a stored response: a 256-bit digest, compared whole.
type Key [32]byte

// Object is one stored response. It's immutable once made: a 304 makes a new
// one that shares the body (see [Object.Freshened]).
type Object struct {
	// Key is the identity under which the object is kept: Primary, or the
	// variant's key if the response has selecting header fields.
	Key Key
	// Primary is the key before Vary.
	Primary Key
	// Status is the response's status code.
	Status int
	// Header has the header fields to send, without Age, hop-by-hop fields and
	// Content-Length.
	Header Block
	// Trailer has the trailer fields, empty for nearly all.
	Trailer Block
	// Body is the whole content. Whoever gets it must not write to it.
	Body []byte
	// Content is the content of an object that a tier keeps outside of memory;
	// then Body is nil. It's nil for an object in memory.
	Content Content
	// VaryNames are the selecting header fields' names in lower case, sorted;
	// nil if the response doesn't vary.
	VaryNames []string
	// Selecting is the canonical text of the request's selecting header
	// fields, which a later request must equal to be given this response (RFC
	// 9111 §4.1). The digest in Key says the same; it is compared again all
	// the same.
	Selecting string
	// RequestedAt is when the request for this response was sent to the
	// origin: the instant that a purge is compared with.
	RequestedAt time.Time
	// Attached is what the owner of the store keeps with the object in memory, such
	// as what purges select it by. nil means nothing, as for an object that comes
	// from a disk; see [Object.Attachment].
	Attached Attachment
	// Life tells how fresh the response is and what may be done when it isn't.
	Life rfc9111.Life
	// Facts are what the caller wants to find with the object again, in a form
	// of its own. No tier looks into it, all keep it; at most 64 KiB.
	Facts []byte

	// Length is len(Body) as text, for Content-Length.
	Length string

	// index is set for the record that leads from a primary key to its
	// variants; such an object is nothing else.
	index *Index
	// lineage is set for a variant when it's put into a store: what the index
	// must belong to for the variant to be found.
	lineage atomic.Pointer[lineage]
	memo    atomic.Pointer[Memo]
	revived atomic.Pointer[Attachment]
}

// Attachment is something of the owner's that is kept with an object. The store
// only asks how much memory it takes, in bytes, when the object is put; that must
// not change.
type Attachment interface{ Weight() int64 }

// Attachment returns o.Attached, or if that is nil what revive makes of o, which is
// remembered. Safe for concurrent use; revive may be called more than once, and nil
// is not remembered.
func (o *Object) Attachment(revive func(*Object) Attachment) Attachment {
	if o.Attached != nil {
		return o.Attached
	}
	if a := o.revived.Load(); a != nil {
		return *a
	}
	a := revive(o)
	if a == nil {
		return nil
	}
	o.revived.CompareAndSwap(nil, &a)
	return *o.revived.Load()
}

// Memo keeps texts that change once a second, so that a popular object's
// header fields are made once a second and not for every hit.
type Memo struct {
	Age         int64 // whole seconds, as sent
	TTL         int64 // whole seconds, may be negative
	AgeText     string
	CacheStatus string
}

// Memo returns what SetMemo stored last, or nil. Safe for concurrent use.
func (o *Object) Memo() *Memo { return o.memo.Load() }

// SetMemo stores m. Safe for concurrent use; the last one wins.
func (o *Object) SetMemo(m *Memo) { o.memo.Store(m) }

// Freshened returns a new object with o's identity and body, and with the
// header and life that a successful validation gave it (RFC 9111 §4.3.4).
func (o *Object) Freshened(header http.Header, life rfc9111.Life, requestedAt time.Time) *Object {
	return &Object{
		Key: o.Key, Primary: o.Primary, Status: o.Status,
		Header: EncodeBlock(header, "Content-Length"), Trailer: o.Trailer, Body: o.Body, Content: o.Content,
		VaryNames: o.VaryNames, Selecting: o.Selecting,
		RequestedAt: requestedAt, Life: life, Facts: o.Facts, Length: o.Length,
	}
}

// Same reports whether o and p are the same stored response, although one may
// have been loaded from disk, or loaded again: the same key, requested and
// received at the same instants.
func (o *Object) Same(p *Object) bool {
	return o == p || o.index == nil && p.index == nil && o.Key == p.Key &&
		o.RequestedAt.Equal(p.RequestedAt) && o.Life.ReceivedAt.Equal(p.Life.ReceivedAt)
}
