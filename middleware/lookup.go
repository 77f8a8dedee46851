package middleware

import (
	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/store/flight"
)

// found is what is stored for a request.
type found struct {
	object  *store.Object // usable for this request by key, variant and credentials
	varied  bool          // responses are stored, but none for these selecting fields
	soft    bool          // it was purged softly: stale, however fresh
	guarded bool          // one is stored, but not for a request with credentials
	claim   flight.Key    // what to claim if it has to be fetched
}

// lookup finds the stored response for x.
func (x *exchange) lookup() found { return x.find(x.key) }

// find finds what is stored for x under a primary key, or under the variant
// that its selecting header fields choose (RFC 9111 §4.1). It takes no lock and
// allocates nothing.
func (x *exchange) find(primary store.Key) found {
	f := found{claim: flight.Key{Primary: primary}}
	object, index, soft := x.get(primary)
	switch {
	case object != nil:
		f.object, f.soft = object, soft
	case index != nil:
		f.varied = true
		for i, names := range index.Sets {
			key := x.variant(primary, names)
			if i == 0 {
				f.claim.Variant = key
			}
			// The digest says that the selecting fields are the same; comparing
			// them again costs little and rules out every mix-up.
			if o, _, soft := x.get(key); o != nil && x.selects(names, o.Selecting) {
				f.object, f.soft, f.varied, f.claim.Variant = o, soft, false, key
				break
			}
			if o, soft := x.inPreferredLanguage(primary, names); o != nil {
				f.object, f.soft, f.varied, f.claim.Variant = o, soft, false, o.Key
				break
			}
		}
	}
	if x.variesBy != nil {
		f.claim.Variant = x.variant(primary, x.variesBy)
	}
	if x.lost >= maxLost {
		f.object = nil
	}
	if f.object != nil && !x.mayShare(&f.object.Life) {
		f.object, f.guarded = nil, true
	}
	return f
}

func (x *exchange) variant(primary store.Key, names []string) store.Key {
	return store.Key(x.route.spec.WithVary(cachekey.Key(primary), names, x.r.Header))
}

// selects reports whether x's selecting fields are the ones in text.
func (x *exchange) selects(names []string, text string) bool {
	x.selecting = x.route.spec.AppendSelecting(x.selecting[:0], names, x.r.Header)
	return string(x.selecting) == text
}
