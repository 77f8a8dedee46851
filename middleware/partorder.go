package middleware

import (
	"sync"

	"github.com/weirhttp/weir/internal/rfc9110"
	"github.com/weirhttp/weir/store"
)

// partOrder gives whole responses and parts an order, on routes that keep parts. They
// are under two keys of the store, and the whole's goes first: a whole that took its
// place a moment too late would hide newer parts. So whatever takes its place does it
// under this lock, and only if what it was made from is still there. What takes its
// place is decided before, without the lock.
type partOrder struct {
	sync.Mutex
	wholes uint64 // that took their place
}

// partOrders are shared by keys that have the same end.
type partOrders [64]partOrder

func (p *partOrders) of(primary store.Key) *partOrder {
	return &p[int(primary[len(primary)-1])%len(p)]
}

// seen returns how many wholes there were. Whoever looks for one afterwards and finds
// none may go on as long as there are no more.
func (p *partOrder) seen() uint64 {
	p.Lock()
	defer p.Unlock()
	return p.wholes
}

// putBesideParts is put where parts are kept, of which the whole makes an end. It does
// nothing if they are newer and of another representation.
func (f *fetch) putBesideParts(fill *store.Fill, o *store.Object) reason {
	if fill != nil {
		f.h.store.Prepare(fill, o) // nobody else waits for that
	}
	order := f.h.order.of(f.key)
	order.Lock()
	defer order.Unlock()
	if there, had := f.h.parts(f.key); there != nil && there.RequestedAt.After(o.RequestedAt) && had.sameAs(o.VaryNames, o.Selecting) {
		size := o.BodySize()
		if fill != nil {
			size, _ = fill.Progress()
		}
		tag, _ := there.Header.Get("Etag")
		if said, _ := o.Header.Get("Etag"); had.size != size || !rfc9110.SameETag(tag, said) {
			return whyOvertaken
		}
	}
	return f.putWhole(order, fill, o)
}

func (f *fetch) putWhole(order *partOrder, fill *store.Fill, o *store.Object) reason {
	why := f.put(fill, o)
	if why == "" {
		order.wholes++
		f.h.dropParts(f.key) // the whole goes first
	}
	return why
}

// putJoined puts what old and a further part have become, with gaps or without, unless
// something else has taken its place since old was found.
func (f *fetch) putJoined(o *store.Object, old *store.Object, seen uint64) bool {
	order := f.h.order.of(f.key)
	order.Lock()
	defer order.Unlock()
	there, _ := f.h.parts(f.key)
	switch {
	case there != old || order.wholes != seen:
		return false
	case o.Key == partsKey(f.key):
		return f.keepParts(o, old)
	}
	return f.putWhole(order, nil, o) == ""
}

// outdateWhole removes o, a whole response, if it's older than x and not what the
// answer to x is of; and reports whether it did. No whole was there when x was handed
// on: it's one that came meanwhile.
func (x *exchange) outdateWhole(o *store.Object, outdates func(etag string, size int64) bool) bool {
	if !o.RequestedAt.Before(x.passed.requestedAt) {
		return false
	}
	etag, _ := o.Header.Get("Etag")
	if !outdates(etag, o.BodySize()) {
		return false
	}
	x.h.supersede(x.route, o)
	return true
}
