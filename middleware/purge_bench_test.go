package middleware

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
)

// selectors are many of one kind.
type selectors struct {
	name string
	make func(i int) purge.Selector
}

// storedKey spreads keys as digests do.
func storedKey(i int) (k store.Key) {
	binary.LittleEndian.PutUint64(k[:], uint64(i)*0x9e3779b97f4a7c15)
	binary.LittleEndian.PutUint64(k[8:], uint64(i))
	return k
}

// fillStore stores n tiny responses, each with one of a hundred tags.
func fillStore(b *testing.B, mw *Middleware, n int) {
	b.Helper()
	header := store.EncodeBlock(http.Header{"Content-Type": {"text/plain"}})
	life := rfc9111.Life{ReceivedAt: time.Now(), Lifetime: time.Hour}
	for i := range n {
		k := storedKey(i)
		o := &store.Object{
			Key: k, Primary: k, Status: 200, Header: header, Body: []byte("tiny"), Length: "4", Life: life,
			Attached: purge.NewSubject(purge.Facts{
				Seq: mw.purges.list.Now(), Host: "www.example.com", Path: "/" + strconv.Itoa(i), Key: k,
				Tags: []string{"tag" + strconv.Itoa(i%100)},
			}),
		}
		if r := mw.store.Put(o); r != store.Kept {
			b.Fatal(r)
		}
	}
	require.EqualValues(b, n, mw.Stats().Memory.Objects)
}

// purged are purges that select all that fillStore stores, some of it or nothing.
var purged = []selectors{
	{"all", func(int) purge.Selector { return purge.Selector{Kind: purge.Host, Host: "www.example.com"} }},
	{"a hundredth", func(i int) purge.Selector { return purge.Selector{Kind: purge.Tag, Tag: "tag" + strconv.Itoa(i%100)} }},
	{"one", func(i int) purge.Selector { return onHost(purge.ExactURL, "/"+strconv.Itoa(i%1000)) }},
	{"none", func(i int) purge.Selector { return purge.Selector{Kind: purge.Tag, Tag: "new" + strconv.Itoa(i)} }},
}

// The time of a purge shouldn't depend on how much is stored, or on how much of it
// is purged.
func BenchmarkPurge(b *testing.B) {
	for _, n := range []int{1000, 100_000, 1_000_000} {
		if testing.Short() && n > 100_000 {
			continue
		}
		b.Run(fmt.Sprintf("stored=%d", n), func(b *testing.B) {
			mw, err := New(Options{Store: store.Options{MemoryBytes: 4 << 30}})
			require.NoError(b, err)
			defer func() { require.NoError(b, mw.Close(context.Background())) }()
			fillStore(b, mw, n)
			for _, c := range purged {
				b.Run(c.name, func(b *testing.B) {
					b.ReportAllocs()
					for i := 0; b.Loop(); i++ {
						if _, err := mw.Purge(context.Background(), c.make(i)); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		})
	}
}

func onHost(kind purge.Kind, path string) purge.Selector {
	return purge.Selector{Kind: kind, Host: "www.example.com", Path: path}
}

// besides are purges of each kind that don't match what the benchmark below hits, on
// its host where that is possible.
var besides = []selectors{
	{"exact-url", func(i int) purge.Selector { return onHost(purge.ExactURL, fmt.Sprint("/purged/", i)) }},
	{"url", func(i int) purge.Selector { return onHost(purge.URL, fmt.Sprint("/purged/", i)) }},
	{"prefix", func(i int) purge.Selector { return onHost(purge.Prefix, fmt.Sprint("/purged/", i)) }},
	{"host", func(i int) purge.Selector { return purge.Selector{Kind: purge.Host, Host: fmt.Sprint("h", i, ".test")} }},
	{"tag", func(i int) purge.Selector { return purge.Selector{Kind: purge.Tag, Tag: fmt.Sprint("purged ", i)} }},
	{"group", func(i int) purge.Selector {
		return purge.Selector{Kind: purge.Group, Origin: "http://www.example.com", Tag: fmt.Sprint("purged ", i)}
	}},
	{"key", func(i int) purge.Selector { return purge.Selector{Kind: purge.Key, Key: storedKey(i + 1)} }},
	{"zone", func(i int) purge.Selector { return purge.Selector{Kind: purge.Zone, Zone: fmt.Sprint("zone ", i)} }},
}

// A hit shouldn't take longer beside 4,096 purges of any kind than beside none: while
// nothing is purged, and while one of them is purged again every hundred hits, so that
// it has to be checked again (that purge is counted in).
func BenchmarkHitBesidePurges(b *testing.B) {
	bench := func(b *testing.B, n int, selector func(i int) purge.Selector, again bool) {
		h, r, w := taggedHit(b)
		mw := h.(*handler).Middleware
		purgeOne := func(i int) {
			if _, err := mw.Purge(context.Background(), selector(i)); err != nil {
				b.Fatal(err)
			}
		}
		for i := range n {
			purgeOne(i)
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if again && i%100 == 0 {
				purgeOne(i / 100 % max(n, 1))
			}
			h.ServeHTTP(w, r)
		}
		b.StopTimer()
		require.Equal(b, "HIT", w.h.Get("Weir-Cache-Status"))
	}
	for _, again := range []bool{false, true} {
		state := map[bool]string{false: "still", true: "purging"}[again]
		b.Run(state+"/none", func(b *testing.B) { bench(b, 0, besides[4].make, again) })
		for _, c := range besides {
			b.Run(fmt.Sprint(state, "/", c.name, "=4096"), func(b *testing.B) { bench(b, 4096, c.make, again) })
		}
	}
}

// taggedHit is hitFixture with tags and groups.
func taggedHit(b *testing.B) (http.Handler, *http.Request, *reusable) {
	b.Helper()
	return taggedHitWith(b, purge.Options{})
}

func taggedHitWith(b *testing.B, o purge.Options) (http.Handler, *http.Request, *reusable) {
	b.Helper()
	mw, err := New(Options{Purge: PurgeOptions{List: o, TagFields: []purge.TagField{{Name: "Surrogate-Key"}}}})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, mw.Close(context.Background())) })
	h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=3600")
		w.Header().Set("Surrogate-Key", "one two three four")
		w.Header().Set("Cache-Groups", `"g"`)
		_, _ = w.Write(make([]byte, 1024))
	}))
	r, err := http.NewRequest(http.MethodGet, "http://www.example.com/products/shoes?colour=red&size=42", nil)
	require.NoError(b, err)
	r.RemoteAddr = "192.0.2.1:1234"
	w := &reusable{h: http.Header{}}
	for range 2 {
		h.ServeHTTP(w, r)
	}
	require.Equal(b, "HIT", w.h.Get("Weir-Cache-Status"))
	return h, r, w
}
