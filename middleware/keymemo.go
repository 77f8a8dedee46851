package middleware

import (
	"hash/maphash"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/weirhttp/weir/store"
)

const (
	memoSlots = 1024
	memoText  = 1 << 10 // longest URL remembered, in bytes
	memoEvery = 16      // one hit in so many writes a slot
)

// keyMemo remembers the keys of popular URLs: writing and hashing a key's text
// is half of what a hit costs otherwise. It's a pure function's memory. What a
// slot holds is compared whole, so it can be absent but never wrong, and it
// works only for specs that key nothing but the URL, for one handler, whose zone is
// in all its keys. At most memoSlots texts of
// memoText bytes are kept. Safe for concurrent use, without locks.
type keyMemo struct {
	seed  maphash.Seed
	slots [memoSlots]atomic.Pointer[memoEntry]
}

type memoEntry struct {
	host, path, rawPath, query string
	tls, forceQuery            bool
	key                        store.Key
}

func newKeyMemo() *keyMemo { return &keyMemo{seed: maphash.MakeSeed()} }

// applies reports whether x's key depends on what a memoEntry has and on
// nothing else.
func (m *keyMemo) applies(x *exchange) bool {
	u := x.r.URL
	return m != nil && u.Scheme == "" && u.Host == "" && u.Opaque == "" && x.r.Host != "" && x.r.RequestURI != "" &&
		x.barrier.scheme == "" && x.barrier.host == "" && x.barrier.extra == nil
}

func (m *keyMemo) slot(r *http.Request) *atomic.Pointer[memoEntry] {
	h := maphash.String(m.seed, r.URL.Path)
	h = h*31 + maphash.String(m.seed, r.URL.RawQuery)
	h = h*31 + maphash.String(m.seed, r.Host)
	return &m.slots[h%memoSlots]
}

func (m *keyMemo) get(r *http.Request) (store.Key, bool) {
	if e := m.slot(r).Load(); e != nil && e.is(r) {
		return e.key, true
	}
	return store.Key{}, false
}

func (e *memoEntry) is(r *http.Request) bool {
	u := r.URL
	return e.path == u.Path && e.query == u.RawQuery && e.host == r.Host && e.rawPath == u.RawPath &&
		e.tls == (r.TLS != nil) && e.forceQuery == u.ForceQuery
}

// put remembers the key of a URL that was just hit.
func (m *keyMemo) put(r *http.Request, key store.Key) {
	u := r.URL
	if len(u.Path)+len(u.RawPath)+len(u.RawQuery)+len(r.Host) > memoText {
		return
	}
	m.slot(r).Store(&memoEntry{
		// The request's own strings may be parts of larger ones.
		host: strings.Clone(r.Host), path: strings.Clone(u.Path), rawPath: strings.Clone(u.RawPath),
		query: strings.Clone(u.RawQuery), tls: r.TLS != nil, forceQuery: u.ForceQuery, key: key,
	})
}
