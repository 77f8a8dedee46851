package middleware

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// What may not be kept of a whole response may not be kept of a part; and no part
// is kept that isn't known to be what it says.
func TestPartIsNotKept(t *testing.T) {
	broken := piece("0123", 0, 10, `"v1"`)
	broken.Body = []testnet.Chunk{testnet.AbortChunk("0123")}
	rest := []string{"Etag", `"v1"`, "Cache-Control", "public, max-age=60"}
	part := func(header ...string) *testnet.Script { return testnet.Text(206, "0123", append(header, rest...)...) }
	two := part("Content-Range", "bytes 0-3/10", "Content-Range", "bytes 0-3/10")
	for _, c := range []struct {
		name   string
		route  Route
		answer *testnet.Script
		asks   []string
		kept   bool
	}{
		{"kept", Route{}, piece("0123", 0, 10, `"v1"`), nil, true},
		{"with its length", Route{}, piece("0123", 0, 10, `"v1"`, "Content-Length", "4"), nil, true},
		{"weak tag", Route{}, piece("0123", 0, 10, `W/"v1"`), nil, false},
		{"no tag", Route{}, testnet.Text(206, "0123", "Content-Range", "bytes 0-3/10", "Cache-Control", "public, max-age=60"), nil, false},
		{"bare tag", Route{}, piece("0123", 0, 10, `v1`), nil, false},
		{"two tags", Route{}, piece("0123", 0, 10, `"v1"`, "Etag", `"v1"`), nil, false},
		{"shorter than its place", Route{}, part("Content-Range", "bytes 0-4/10"), nil, false},
		{"longer than its place", Route{}, part("Content-Range", "bytes 0-2/10"), nil, false},
		{"length of the whole", Route{}, part("Content-Range", "bytes 0-3/10", "Content-Length", "10"), nil, false},
		{"beyond the end", Route{}, part("Content-Range", "bytes 7-10/10"), nil, false},
		{"unknown length", Route{}, part("Content-Range", "bytes 0-3/*"), nil, false},
		{"no place", Route{}, part(), nil, false},
		{"two places", Route{}, two, nil, false},
		{"other unit", Route{}, part("Content-Range", "lines 0-3/10"), nil, false},
		{"multipart", Route{}, part("Content-Range", "bytes 0-3/10", "Content-Type", "Multipart/Byteranges; boundary=x"), nil, false},
		{"status 200", Route{}, testnet.Text(200, "0123", append(rest, "Content-Range", "bytes 0-3/10")...), nil, false},
		{"cookie", Route{}, piece("0123", 0, 10, `"v1"`, "Set-Cookie", "a=b"), nil, false},
		{"private", Route{}, piece("0123", 0, 10, `"v1"`, "Cache-Control", "private"), nil, false},
		{"no-store", Route{}, piece("0123", 0, 10, `"v1"`, "Cache-Control", "no-store"), nil, false},
		{"vary all", Route{}, piece("0123", 0, 10, `"v1"`, "Vary", "*"), nil, false},
		{"no lifetime", Route{}, testnet.Text(206, "0123", "Content-Range", "bytes 0-3/10", "Etag", `"v1"`), nil, false},
		{"too large", Route{}, piece("0123", 0, 2<<20+1, `"v1"`), nil, false},
		{"absurdly large", Route{}, piece("0123", 0, 1<<61, `"v1"`), nil, false},
		{"just not too large", Route{}, piece("0123", 0, 2<<20, `"v1"`), nil, true},
		{"aborted", Route{}, broken, nil, false},
		{"for several ranges", Route{}, piece("0123", 0, 10, `"v1"`), []string{"Range", "bytes=0-1,2-3"}, false},
		{"for no-store", Route{}, piece("0123", 0, 10, `"v1"`), []string{"Range", "bytes=0-3", "Cache-Control", "no-store"}, false},
		{"for authorization", Route{}, piece("0123", 0, 10, `"v1"`), []string{"Range", "bytes=0-3", "Authorization", "x"}, false},
		{"for authorization, shared", Route{AuthorizationByRFC: true}, piece("0123", 0, 10, `"v1"`), []string{"Range", "bytes=0-3", "Authorization", "x"}, true},
		{"for cookies", Route{}, testnet.Text(206, "0123", "Content-Range", "bytes 0-3/10", "Etag", `"v1"`, "Cache-Control", "max-age=60"), []string{"Range", "bytes=0-3", "Cookie", "u=1"}, false},
		{"for odd names", Route{}, piece("0123", 0, 10, `"v1"`), []string{"Range", "bytes=0-3", "X_Odd", "1"}, false},
		{"for another spelling of the host", Route{}, piece("0123", 0, 10, `"v1"`), []string{"Range", "bytes=0-3", "Host", "EXAMPLE.com:80"}, false},
		{"for forwarding fields", Route{}, piece("0123", 0, 10, `"v1"`), []string{"Range", "bytes=0-3", "X-Forwarded-Host", "evil"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c.route.ForwardRange = true
				s := newSite(t, Options{Default: c.route}, c.answer, testnet.Text(206, "other"))
				if c.asks == nil {
					c.asks = []string{"Range", "bytes=0-3"}
				}
				if c.name == "aborted" {
					require.PanicsWithValue(t, http.ErrAbortHandler, func() { s.get("/", c.asks...) })
				} else {
					r := s.get("/", c.asks...)
					require.Equal(t, "0123", r.body)
					require.Equal(t, c.kept, r.record.Cache.Stored)
				}
				r := s.get("/", "Range", "bytes=0-3")
				if !c.kept {
					require.Equal(t, "other", r.body)
					s.asked(2)
					return
				}
				r.is(t, hitPart("0123", 60, 0))
			})
		})
	}
}

// A client that leaves before it has all of a part leaves none behind.
func TestPartOfClientThatLeftIsNotKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, forwarding(), piece("0123", 0, 10, `"v1"`))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		r := s.send(httptest.NewRecorder(), request("GET", "/", "Range", "bytes=0-3").WithContext(ctx))
		r.is(t, passedPart("0123", false))
		require.Nil(t, s.partsOf("/"))
	})
}

// A handler that takes over the connection, or says nothing, leaves no part.
func TestSilentHandlerLeavesNoPart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, forwarding(), &testnet.Script{Do: nothing}, &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) {
			_, _, _ = w.(http.Hijacker).Hijack()
		}})
		s.get("/", "Range", "bytes=0-3")
		s.h.ServeHTTP(hijackable{httptest.NewRecorder()}, request("GET", "/", "Range", "bytes=0-3"))
		s.asked(2)
		require.Zero(t, s.mw.Stats().Memory.Objects)
	})
}

// The handler changes the request that it's given: what the client sent decides.
func TestPartIsJudgedByWhatTheClientSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{Default: Route{ForwardRange: true, AuthorizationByRFC: true}}, &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Authorization")
			w.Header().Set("Cache-Control", "max-age=60")
			w.Header().Set("Etag", `"v1"`)
			w.Header().Set("Content-Range", "bytes 0-3/10")
			w.WriteHeader(206)
			_, _ = w.Write([]byte("mine"))
		}})
		r := s.get("/", "Range", "bytes=0-3", "Authorization", "x")
		r.is(t, passedPart("mine", false))
	})
}

// Parts are for requests with the same selecting fields, and so is the whole that
// they become.
func TestPartsThatVary(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, forwarding(), file("english...", `"en"`, "Vary", "X-Kind"), file("german....", `"de"`, "Vary", "X-Kind"),
			file("german....", `"de"`, "Vary", "X-Kind"), public("fetched"))
		s.get("/", "Range", "bytes=0-5", "X-Kind", "en")
		r := s.get("/", "Range", "bytes=1-3", "X-Kind", "en")
		r.isRange(t, hitPart("ngl", 60, 0), "bytes 1-3/10")
		r = s.get("/", "Range", "bytes=0-5", "X-Kind", "de")
		r.isRange(t, passedPart("german", true), "bytes 0-5/10")
		s.get("/", "Range", "bytes=6-", "X-Kind", "de")
		r = s.get("/", "X-Kind", "de")
		r.is(t, hit("german....", 60, 0))
		s.asked(3)
		r = s.get("/", "X-Kind", "en")
		require.Equal(t, "fetched", r.body)
	})
}

// An origin gives representations that it selects the same entity tag: their bytes
// don't mix all the same.
func TestPartsOfVariantsDoNotMix(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, forwarding(), piece("en", 0, 10, `"v1"`, "Vary", "X-Kind"), piece("de", 2, 10, `"v1"`, "Vary", "X-Kind"))
		s.get("/", "Range", "bytes=0-1", "X-Kind", "en")
		s.get("/", "Range", "bytes=2-3", "X-Kind", "de")
		require.Equal(t, spans{{2, 4}}, s.partsOf("/"))
		r := s.get("/", "Range", "bytes=2-3", "X-Kind", "de")
		r.isRange(t, hitPart("de", 60, 0), "bytes 2-3/10")
	})
}

// Without the option a range fetches the whole, as ever, and nothing is kept in
// parts.
func TestDefaultRouteKeepsNoParts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{Default: Route{RangeWindow: 4}}, file(digits, `"v1"`))
		r := s.get("/", "Range", "bytes=6-7")
		w := passedPart("67", false)
		w.reason = "the range starts too far into the object to fetch all of it"
		r.is(t, w)
		require.Nil(t, s.partsOf("/"))
		r = s.get("/", "Range", "bytes=1-2")
		w = missed("12", 60)
		w.status = 206
		r.is(t, w)
		require.NotContains(t, s.last().Header, "Range")
	})
}

// hijackable is a writer whose connection can be taken over.
type hijackable struct{ http.ResponseWriter }

func (hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }
