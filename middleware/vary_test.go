package middleware

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/trace"
)

// variantMiss is the reply when variants are stored, but not the one asked for.
func variantMiss(body string) want {
	w := missed(body, 60)
	w.cache, w.forward = "fwd=vary-miss;fwd-status=200;ttl=60;stored", trace.ForwardVaryMiss
	w.reason = "responses are stored for the key, but none for these selecting header fields"
	return w
}

// echo answers with the request's fields of the given names, and varies by them.
func echo(vary []string, names ...string) *testnet.Script {
	return &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Vary"] = vary
		w.Header().Set("Cache-Control", "public, max-age=60")
		w.Header().Set("Content-Type", "text/html")
		for _, n := range names {
			fmt.Fprintf(w, "%s=%q ", n, r.Header[n])
		}
	}}
}

// Each value of the selecting fields has a response of its own; absent, empty
// and given are different, and names are found in any case and line.
func TestVarySelectsByEveryField(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, echo([]string{"service", "X-Mood , Service"}, "Service", "X-Mood"))
		for i, header := range [][]string{
			nil, {"Service", ""}, {"Service", "aa"}, {"Service", "bb"}, {"Service", "aa", "X-Mood", "good"}, {"Service", "aa", "Service", "bb"},
		} {
			first := s.get("/", header...)
			w := variantMiss(first.body)
			if i == 0 {
				w = missed(first.body, 60)
			}
			first.is(t, w)
			again := s.get("/", append(header, "X-Other", "x")...)
			again.is(t, hit(first.body, 60, 0))
			require.Equal(t, first.header["Vary"], again.header["Vary"])
		}
		s.asked(6)
	})
}

// Two lists of codings whose weak hashes are equal. The client that takes gzip
// only isn't given the other's.
func TestVariantsOfEqualWeakHash(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, echo([]string{"Accept-Encoding"}, "Accept-Encoding"))
		a := s.get("/", "Accept-Encoding", "br,gzip,xxx,jdcqiab")
		b := s.get("/", "Accept-Encoding", "gzip")
		b.is(t, variantMiss(b.body))
		require.NotEqual(t, a.body, b.body)
	})
}

// A client that refuses gzip, or takes something that is only spelt like it,
// isn't given the stored gzip body, with the normaliser as without.
func TestRefusedCodingIsNotServed(t *testing.T) {
	for name, key := range map[string]cachekey.Options{
		"raw":        {},
		"normalised": {Normalize: map[string]cachekey.Normalizer{"Accept-Encoding": cachekey.AcceptEncoding("br", "gzip")}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{Default: Route{Key: key}}, echo([]string{"Accept-Encoding"}, "Accept-Encoding"))
				zipped := s.get("/", "Accept-Encoding", "gzip")
				for _, accept := range []string{"gzip;q=0, identity", "x-gzip2", "identity"} {
					r := s.get("/", "Accept-Encoding", accept)
					require.NotEqual(t, zipped.body, r.body, accept)
					require.NotContains(t, s.last().Header.Get("Accept-Encoding"), "gzip;q=1")
				}
				r := s.get("/", "Accept-Encoding", "gzip")
				r.is(t, hit(zipped.body, 60, 0))
			})
		})
	}
}

// With the normaliser the spellings of browsers are one response.
func TestNormalisedEncodingsShare(t *testing.T) {
	bubble(t, func(t *testing.T) {
		key := cachekey.Options{Normalize: map[string]cachekey.Normalizer{"Accept-Encoding": cachekey.AcceptEncoding("br", "gzip")}}
		s := newSite(t, Options{Default: Route{Key: key}}, echo([]string{"Accept-Encoding"}, "Accept-Encoding"))
		s.get("/", "Accept-Encoding", "gzip, deflate, br")
		r := s.get("/", "Accept-Encoding", "gzip, deflate, br, zstd")
		require.Equal(t, "HIT", r.header.Get("Weir-Cache-Status"))
		s.asked(1)
		require.NotContains(t, s.last().Header.Get("Accept-Encoding"), "deflate", "the origin is asked for what is shared")
	})
}

// Ever new values of a selecting field: the number of variants is bounded, the
// oldest goes first, and the newest are served.
func TestVariantsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{Store: store.Options{MaxVariants: 4}}, echo([]string{"Mood"}, "Mood"))
		for i := range 10 {
			s.get("/", "Mood", fmt.Sprint("m", i))
		}
		s.origin.Forget()
		for i := 6; i < 10; i++ {
			r := s.get("/", "Mood", fmt.Sprint("m", i))
			require.Equal(t, "HIT", r.header.Get("Weir-Cache-Status"))
		}
		r := s.get("/", "Mood", "m5")
		require.Equal(t, trace.ForwardVaryMiss, r.record.ForwardReason)
		s.asked(1)
	})
}

// A response without Vary after some with: it is the answer for everybody.
func TestResponseThatVariesNoLonger(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("aa", "Vary", "Mood"), public("all"))
		s.get("/", "Mood", "good")
		r := s.get("/", "Mood", "bad")
		r.is(t, variantMiss("all"))
		r = s.get("/", "Mood", "good")
		r.is(t, hit("all", 60, 0))
	})
}

// Two cookies, and an origin that varies by Cookie and says that each is public.
func TestVaryByCookie(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, echo([]string{"Cookie"}, "Cookie"))
		a := s.get("/", "Cookie", "u=aa")
		b := s.get("/", "Cookie", "u=bb")
		require.NotEqual(t, a.body, b.body)
		r := s.get("/", "Cookie", "u=aa")
		r.is(t, hit(a.body, 60, 0))
		s.asked(2)
	})
}
