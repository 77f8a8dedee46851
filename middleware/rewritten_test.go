package middleware

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/purge"
)

// Some routers change the request that they are given in place: its path, its query,
// its header. What is stored, found, judged and purged goes by what was asked.

// tenants is such a handler: it strips the tenant off the path and says which path it
// was asked for.
func tenants(header ...string) *testnet.Script {
	return &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) {
		shown := r.URL.Path
		r.URL.Path = strings.TrimPrefix(r.URL.Path, "/tenant")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		if r.Method != http.MethodHead {
			fmt.Fprint(w, r.Method, " ", shown)
		}
	}}
}

func TestPurgesOfURLsThatTheHandlerRewrites(t *testing.T) {
	for _, kind := range []purge.Kind{purge.ExactURL, purge.URL, purge.Prefix} {
		t.Run(kind.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{}, tenants("Cache-Control", "public, max-age=60"))
				s.get("/tenant/items")
				s.purge(purge.Selector{Kind: kind, Host: "example.com", Path: "/tenant/items"})
				r := s.get("/tenant/items")
				require.Equal(t, "MISS", r.header.Get("Weir-Cache-Status"))
				s.asked(2)
			})
		})
	}
}

func TestUnsafeRequestsWhoseURLTheHandlerRewrites(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, tenants("Cache-Control", "public, max-age=60"))
		s.get("/tenant/items")
		s.get("/items")
		s.do("POST", "/tenant/items")
		s.asked(3)
		r := s.get("/items")
		r.is(t, hit("GET /items", 60, 0))
		r = s.get("/tenant/items")
		require.Equal(t, "MISS", r.header.Get("Weir-Cache-Status"))
	})
}

// Whether a response to a request with cookies may be shared goes by the path's
// extension: the one that was asked for.
func TestStaticByThePathAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) {
			r.URL.Path += ".png" // the file that it's kept in
			w.Header().Set("Cache-Control", "max-age=60")
			w.Header().Set("Content-Type", "image/png")
			fmt.Fprint(w, "picture of ", r.Header.Get("Cookie"))
		}})
		s.get("/avatar", "Cookie", "sid=alice")
		r := s.get("/avatar", "Cookie", "sid=bob")
		require.Equal(t, "picture of sid=bob", r.body)
	})
}

// The stale response that stands in for a failed HEAD doesn't teach the memory of keys
// the rewritten URL.
func TestKeysOfRewrittenURLsAreNotRemembered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, tenants("Cache-Control", "public, max-age=1, stale-if-error=3600"))
		require.Equal(t, "GET /tenant/items", s.get("/tenant/items").body)
		after(2 * time.Second)
		down := &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) {
			r.URL.Path = "/items"
			w.WriteHeader(http.StatusBadGateway)
		}}
		s.answer(down)
		for range 300 { // one in so many is remembered
			require.Equal(t, "STALE-ERROR", s.do("HEAD", "/tenant/items").header.Get("Weir-Cache-Status"))
			after(time.Microsecond)
		}
		s.answer(tenants("Cache-Control", "public, max-age=60"))
		r := s.get("/items")
		require.Equal(t, "GET /items", r.body)
		r = s.get("/tenant/items")
		require.Equal(t, "GET /tenant/items", r.body)
	})
}

// A 304 that doesn't fit makes the cache ask again: with the request as it was.
func TestAskedAgainWithTheRequestAsItWas(t *testing.T) {
	bubble(t, func(t *testing.T) {
		etag := `"v1"`
		s := newSite(t, Options{}, &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) {
			r.URL.Path = "/sites" + r.URL.Path
			r.Header.Add("X-Hop", "1")
			w.Header().Set("Cache-Control", "public, max-age=60")
			w.Header().Set("Etag", etag)
			if r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(http.StatusNotModified) // of a version that isn't stored
				return
			}
			fmt.Fprint(w, r.URL.Path, r.Header["X-Hop"])
		}})
		require.Equal(t, "/sites/a[1]", s.get("/a").body)
		after(61 * time.Second)
		etag = `"v2"`
		require.Equal(t, "/sites/a[1]", s.get("/a").body)
		s.asked(3)
	})
}

func TestPassedAnswersBelongToTheURLAskedFor(t *testing.T) {
	t.Run("POST", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newSite(t, Options{Default: Route{StorePost: true}},
				tenants("Cache-Control", "public, max-age=60", "Content-Location", "/items"))
			s.do("POST", "/tenant/items")
			r := s.get("/items")
			require.Equal(t, "GET /items", r.body)
		})
	})
	t.Run("HEAD with No-Vary-Search", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newSite(t, Options{Default: Route{NoVarySearch: true}}, tenants(
				"Cache-Control", "public, max-age=60", "Etag", `"a"`, "No-Vary-Search", `params=("utm")`))
			s.get("/items?utm=9") // its rule is known
			s.get("/tenant/items")
			after(61 * time.Second)
			s.do("HEAD", "/tenant/items")
			r := s.get("/items?utm=1")
			require.Equal(t, "GET /items", r.body)
		})
	})
}

// A wrapped handler that reads the trailers of a request finds them, although it has
// a request of its own.
func TestTrailersOfAPassedRequest(t *testing.T) {
	got := make(chan string, 1)
	r := newRealRig(t, Options{}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		buf := make([]byte, 10)
		for {
			if _, err := r.Body.Read(buf); err != nil {
				break
			}
		}
		got <- r.Trailer.Get("X-Sum")
	}))
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n")
	require.NoError(t, err)
	require.Contains(t, readAll(conn), "200 OK")
	require.Equal(t, "7", <-got)
}
