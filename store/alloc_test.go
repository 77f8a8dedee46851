package store

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/weirhttp/weir/internal/testnet"
)

// Ceilings of the hit path.
func TestAllocations(t *testing.T) {
	s := newStore(t, Options{})
	s.Put(plain(key(1), 1024))
	s.Put(variant(key(2), key(3), 1024, "accept"))
	b := EncodeBlock(http.Header{
		"Content-Type": {"text/html"}, "Cache-Control": {"max-age=60"}, "Vary": {"Accept", "Cookie"}, "Etag": {`"x"`},
		"Date": {"Mon, 02 Jan 2006 15:04:05 GMT"}, "Link": {"</a>", "</b>"}, "Server": {"origin"}, "X": nil,
	})
	h := b.Header()
	k, v, missing := key(1), key(3), key(4)
	for name, tt := range map[string]struct {
		most float64
		f    func()
	}{
		"hit":              {0, func() { s.Get(k) }},
		"hit of a variant": {0, func() { s.Get(key2); s.Get(v) }},
		"miss":             {0, func() { s.Get(missing) }},
		"Block.CopyTo":     {1, func() { b.CopyTo(h, 4) }},
		"Block.Get":        {0, func() { b.Get("Vary"); b.Get("None") }},
		"Block.Values":     {0, func() { _ = b.Values() }},
		"Weight":           {0, func() { _ = plainObject.Weight() }},
	} {
		testnet.Allocs(t, tt.most, tt.f, name)
	}
}

var (
	key2        = key(2)
	plainObject = plain(key(1), 10)
)

// A reader of what is there already and a writer within its segment allocate
// nothing.
func TestFillAllocations(t *testing.T) {
	f := fillOf(DefaultFillBytes, 1<<20, 1<<20)
	p := make([]byte, 100)
	assert.NoError(t, f.Append(t.Context(), p))
	r, _ := f.Reader(0)
	testnet.Allocs(t, 0, func() {
		_ = f.Append(t.Context(), p)
		_, _ = r.Next(t.Context())
	})
}
