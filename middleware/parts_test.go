package middleware

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/rfc9110"
	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/trace"
)

// forwarding are the options of a cache that hands ranges to the origin.
func forwarding() Options { return Options{Default: Route{ForwardRange: true}} }

// piece is a 206 with the bytes of body from the given place on, out of size.
func piece(body string, from, size int, etag string, header ...string) *testnet.Script {
	return testnet.Text(206, body, append([]string{
		"Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, from+len(body)-1, size), "Etag", etag,
		"Content-Type", "video/mp4", "Cache-Control", "public, max-age=60",
	}, header...)...)
}

// file answers as a file server does, ranges and conditions included.
func file(body, etag string, header ...string) *testnet.Script {
	return &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Etag", etag)
		w.Header().Set("Content-Type", "video/mp4")
		w.Header().Set("Cache-Control", "public, max-age=60")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(body))
	}}
}

// passedPart is the reply from the origin to a range that was handed on, and
// whether it was kept.
func passedPart(body string, kept bool) want {
	w := want{
		status: 206, body: body, word: "BYPASS", cache: "fwd=uri-miss;fwd-status=206", forward: trace.ForwardURIMiss,
		reason: "the route hands ranges to the origin", stored: kept,
	}
	if !kept {
		w.notStored = "the cache kept out of the request"
	}
	return w
}

// hitPart is the reply from stored parts.
func hitPart(body string, ttl, age int) want {
	w := hit(body, ttl, age)
	w.status, w.reason = 206, "a stored part has the whole range and is fresh"
	return w
}

// isRange compares the reply, and the fields about its range.
func (r *reply) isRange(t *testing.T, w want, place string) {
	t.Helper()
	r.is(t, w)
	require.Equal(t, []string{place}, r.header["Content-Range"])
	require.Equal(t, []string{"video/mp4"}, r.header["Content-Type"])
	if w.word == "HIT" {
		require.Equal(t, []string{fmt.Sprint(len(w.body))}, r.header["Content-Length"])
		require.Len(t, r.header["Date"], 1)
	}
}

// partsOf returns which bytes of a path are kept.
func (s *site) partsOf(target string) spans {
	x := begin(s.h.(*handler), httptest.NewRecorder(), request("GET", target))
	x.identify()
	_, p := s.mw.parts(x.key)
	if p == nil {
		return nil
	}
	return p.have
}

// What the origin answers a range with is kept, and serves the same range and
// whatever lies within it, by whichever way of asking; all else goes to the origin.
func TestPartIsReused(t *testing.T) {
	for _, c := range []struct{ name, ask, body, place string }{
		{"same", "bytes=4-7", "4567", "bytes 4-7/10"},
		{"narrower", "bytes=5-6", "56", "bytes 5-6/10"},
		{"one byte", "bytes=7-7", "7", "bytes 7-7/10"},
		{"before", "bytes=3-7", "", ""},
		{"beyond", "bytes=4-8", "", ""},
		{"outside", "bytes=0-1", "", ""},
		{"suffix", "bytes=-2", "", ""},
		{"open", "bytes=5-", "", ""},
		{"unsatisfiable", "bytes=10-", "", ""},
		{"two", "bytes=4-4,6-6", "", ""},
		{"malformed", "bytes=6-4", "", ""},
		{"other unit", "lines=4-7", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, forwarding(), piece("4567", 4, 10, `"v1"`))
				r := s.get("/", "Range", "bytes=4-7")
				r.isRange(t, passedPart("4567", true), "bytes 4-7/10")
				after(time.Second)
				s.answer(testnet.Text(206, "origin", "Content-Range", "bytes 0-5/10"))
				r = s.get("/", "Range", c.ask)
				if c.body == "" {
					r.is(t, passedPart("origin", false))
					require.Equal(t, c.ask, s.last().Header.Get("Range"))
					s.asked(1)
					return
				}
				r.isRange(t, hitPart(c.body, 59, 1), c.place)
				require.Equal(t, `"v1"`, r.header.Get("Etag"))
				s.asked(0)
			})
		})
	}
}

// A suffix and an open range are those of the complete length.
func TestPartAtTheEndIsReused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{Default: RFCProfile()}, piece("56789", 5, 10, `"v1"`))
		r := s.get("/", "Range", "bytes=-5")
		r.isRange(t, passedPart("56789", true), "bytes 5-9/10")
		for _, c := range [][3]string{
			{"bytes=-5", "56789", "bytes 5-9/10"}, {"bytes=-1", "9", "bytes 9-9/10"},
			{"bytes=5-", "56789", "bytes 5-9/10"}, {"bytes=8-", "89", "bytes 8-9/10"}, {"bytes=8-99", "89", "bytes 8-9/10"},
		} {
			r = s.get("/", "Range", c[0])
			r.isRange(t, hitPart(c[1], 60, 0), c[2])
		}
		s.asked(1)
	})
}

// Parts of one representation are combined, whether they overlap, touch or have a
// gap between them, and in whichever order they come.
func TestPartsAreCombined(t *testing.T) {
	const letters = "abcdefghij"
	for _, c := range []struct {
		name  string
		asks  [][2]int
		have  spans
		whole bool
	}{
		{"adjacent", [][2]int{{0, 3}, {4, 7}}, spans{{0, 8}}, false},
		{"overlapping", [][2]int{{0, 5}, {3, 7}}, spans{{0, 8}}, false},
		{"out of order", [][2]int{{8, 9}, {0, 1}, {4, 5}}, spans{{0, 2}, {4, 6}, {8, 10}}, false},
		{"bridged", [][2]int{{8, 9}, {0, 1}, {4, 5}, {1, 8}}, nil, true},
		{"around", [][2]int{{4, 5}, {2, 7}}, spans{{2, 8}}, false},
		{"last first", [][2]int{{5, 9}, {0, 4}}, nil, true},
		{"all at once", [][2]int{{0, 9}}, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, forwarding(), file(letters, `"v1"`))
				for _, a := range c.asks {
					r := s.get("/", "Range", fmt.Sprintf("bytes=%d-%d", a[0], a[1]))
					r.isRange(t, passedPart(letters[a[0]:a[1]+1], true), fmt.Sprintf("bytes %d-%d/10", a[0], a[1]))
					after(time.Second)
				}
				require.Equal(t, c.have, s.partsOf("/"))
				s.answer(public("another"))
				for _, p := range c.have {
					r := s.get("/", "Range", fmt.Sprintf("bytes=%d-%d", p.start, p.end-1))
					r.isRange(t, hitPart(letters[p.start:p.end], 59, 1), fmt.Sprintf("bytes %d-%d/10", p.start, p.end-1))
				}
				r := s.get("/")
				if c.whole {
					r.is(t, hit(letters, 59, 1))
					require.Equal(t, []string{"10"}, r.header["Content-Length"])
					require.Equal(t, `"v1"`, r.header.Get("Etag"))
					require.NotContains(t, r.header, "Content-Range")
					s.asked(0)
				} else {
					r.is(t, missed("another", 60))
				}
			})
		})
	}
}

// A combination has the newest part's fields, and of the others what that one
// doesn't have; and it's as fresh as the newest part.
func TestCombinedHeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, forwarding(), piece("01", 0, 10, `"v1"`, "X-Old", "1", "X-Both", "1", "Age", "7"),
			piece("23", 2, 10, `"v1"`, "X-Both", "2", "X-New", "2", "Age", "20"))
		s.get("/", "Range", "bytes=0-1")
		after(30 * time.Second)
		s.get("/", "Range", "bytes=2-3")
		r := s.get("/", "Range", "bytes=1-2")
		r.isRange(t, hitPart("12", 40, 20), "bytes 1-2/10")
		require.Equal(t, [3]string{"1", "2", "2"}, [3]string{r.header.Get("X-Old"), r.header.Get("X-Both"), r.header.Get("X-New")})
		require.Equal(t, time.Now().UTC().Format(http.TimeFormat), r.header.Get("Date"))
		s.asked(2)
	})
}

// A part of another representation takes the place of those kept.
func TestOtherRepresentationReplacesParts(t *testing.T) {
	for name, next := range map[string]*testnet.Script{
		"tag":    piece("cd", 2, 10, `"v2"`),
		"length": piece("cd", 2, 11, `"v1"`),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, forwarding(), piece("01", 0, 10, `"v1"`), next)
				s.get("/", "Range", "bytes=0-1")
				r := s.get("/", "Range", "bytes=2-3")
				r.is(t, passedPart("cd", true))
				require.Equal(t, spans{{2, 4}}, s.partsOf("/"))
				r = s.get("/", "Range", "bytes=2-3")
				r.isRange(t, hitPart("cd", 60, 0), next.Header.Get("Content-Range"))
			})
		})
	}
}

// An answer that isn't kept, but shows that the representation is another one by
// now, makes an end of the parts of the old one; one that doesn't show it leaves
// them.
func TestAnswerOutdatesParts(t *testing.T) {
	for _, c := range []struct {
		name string
		next *testnet.Script
		ask  string // of the range
		gone bool
	}{
		{"another part that isn't storable", piece("23", 2, 10, `"v2"`, "Set-Cookie", "a=b"), "bytes=2-3", true},
		{"the same that isn't storable", piece("23", 2, 10, `"v1"`, "Set-Cookie", "a=b"), "bytes=2-3", false},
		{"another whole for a range", testnet.Text(200, "new", "Etag", `"v2"`), "bytes=2-3", true},
		{"the same whole for a range", testnet.Text(200, "new", "Etag", `"v1"`), "bytes=2-3", false},
		{"not there", testnet.Text(404, ""), "bytes=2-3", true},
		{"an error", testnet.Text(503, ""), "bytes=2-3", false},
		{"unsatisfiable", testnet.Text(416, ""), "bytes=2-3", false},
		{"not there, with the tag", testnet.Text(404, "", "Etag", `"v1"`), "bytes=2-3", true},
		{"not there for all", testnet.Text(404, ""), "", true},
		{"an error for all", testnet.Text(500, ""), "", false},
		{"another whole", text("new", "no-store", "Etag", `"v2"`), "", true},
		{"another stored", public("new", "Etag", `"v2"`), "", true},
		{"the same, stored", public("0123456789", "Etag", `"v1"`), "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, forwarding(), piece("01", 0, 10, `"v1"`), c.next)
				s.get("/", "Range", "bytes=0-1")
				after(time.Second)
				if c.ask == "" {
					s.get("/")
				} else {
					s.get("/", "Range", c.ask)
				}
				s.asked(2)
				require.Equal(t, c.gone, s.partsOf("/") == nil)
			})
		})
	}
}

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

// Stale parts aren't used, neither while they are refreshed, nor for who accepts
// stale responses, nor instead of an error; a fresh one still joins them.
func TestStalePartsAreNotUsed(t *testing.T) {
	for _, route := range []Route{
		{ForwardRange: true}, {ForwardRange: true, StaleIfError: time.Hour, StaleWhileRevalidate: time.Hour},
	} {
		bubble(t, func(t *testing.T) {
			s := newSite(t, Options{Default: route},
				piece("01", 0, 10, `"v1"`), testnet.Text(503, "away"), testnet.Text(503, "away"), piece("23", 2, 10, `"v1"`))
			s.get("/", "Range", "bytes=0-1")
			after(61 * time.Second)
			for _, header := range [][]string{nil, {"Cache-Control", "max-stale"}} {
				r := s.get("/", append(header, "Range", "bytes=0-1")...)
				w := passedPart("away", false)
				w.status, w.cache = 503, "fwd=uri-miss;fwd-status=503"
				r.is(t, w)
			}
			s.get("/", "Range", "bytes=2-3")
			r := s.get("/", "Range", "bytes=0-3")
			r.isRange(t, hitPart("0123", 60, 0), "bytes 0-3/10")
			s.asked(4)
		})
	}
}

// The request's own directives count as for whole responses.
func TestPartsAndRequestDirectives(t *testing.T) {
	for _, c := range []struct {
		name string
		asks []string
		hit  bool
	}{
		{"only-if-cached", []string{"Cache-Control", "only-if-cached"}, true},
		{"no-cache", []string{"Cache-Control", "no-cache"}, false},
		{"max-age", []string{"Cache-Control", "max-age=5"}, false},
		{"max-age above", []string{"Cache-Control", "max-age=15"}, true},
		{"min-fresh", []string{"Cache-Control", "min-fresh=55"}, false},
		{"no-store", []string{"Cache-Control", "no-store"}, false},
		{"If-Range", []string{"If-Range", `"v1"`}, true},
		{"another If-Range", []string{"If-Range", `"v2"`}, false},
		{"weak If-Range", []string{"If-Range", `W/"v1"`}, false},
		{"If-Range with a date", []string{"If-Range", modified}, false},
		{"cookies", []string{"Cookie", "u=1"}, false},
		{"demand", []string{"If-Match", `"v1"`}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, forwarding(), testnet.Text(206, "0123", "Content-Range", "bytes 0-3/10", "Etag", `"v1"`, "Cache-Control", "max-age=60"), testnet.Text(200, "whole"))
				s.get("/", "Range", "bytes=0-3")
				after(10 * time.Second)
				r := s.get("/", append(c.asks, "Range", "bytes=1-2")...)
				if c.hit {
					r.is(t, hitPart("12", 50, 10))
					s.asked(1)
				} else {
					require.Equal(t, "whole", r.body)
					s.asked(2)
				}
			})
		})
	}
}

// Who has the representation already is told so.
func TestPartAndCondition(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, forwarding(), piece("0123", 0, 10, `"v1"`))
		s.get("/", "Range", "bytes=0-3")
		r := s.get("/", "Range", "bytes=1-2", "If-None-Match", `"v1"`)
		w := hitPart("", 60, 0)
		w.status = 304
		r.is(t, w)
		s.asked(1)
	})
}

// Whatever removes a whole response removes parts, also while one is on its way.
func TestPurgedParts(t *testing.T) {
	for name, purgeIt := range map[string]func(s *site){
		"URL":      func(s *site) { s.purge(purge.Selector{Kind: purge.ExactURL, Host: "example.com", Path: "/"}) },
		"tag":      func(s *site) { s.purge(purge.Selector{Kind: purge.Tag, Tag: "t"}) },
		"softly":   func(s *site) { s.purge(purge.Selector{Kind: purge.Tag, Tag: "t", Soft: true}) },
		"POST":     func(s *site) { s.do("POST", "/", "Body", "x") },
		"Location": func(s *site) { s.do("POST", "/other", "Body", "x") },
	} {
		for _, underway := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					o := tagged()
					o.Default.ForwardRange = true
					gate := closedUntilEnd(t)
					second := piece("23", 2, 10, `"v1"`, "Surrogate-Key", "t")
					second.Gate = gate
					s := newSite(t, o)
					s.origin.Handle("/", piece("01", 0, 10, `"v1"`, "Surrogate-Key", "t"), second)
					s.origin.Handle("/other", testnet.Text(201, "", "Location", "/"))
					s.get("/", "Range", "bytes=0-1")
					require.Equal(t, spans{{0, 2}}, s.partsOf("/"))
					done := make(chan string, 1)
					if underway {
						go func() {
							w := httptest.NewRecorder()
							s.h.ServeHTTP(w, request("GET", "/", "Range", "bytes=2-3"))
							done <- w.Body.String()
						}()
						synctest.Wait()
					}
					if name == "POST" {
						s.origin.Handle("/", testnet.Text(204, ""))
					}
					purgeIt(s)
					require.Nil(t, s.partsOf("/"))
					if underway {
						gate.Open()
						require.Equal(t, "23", <-done)
						require.Nil(t, s.partsOf("/"), "asked for before the purge")
					}
					s.origin.Handle("/", piece("ab", 0, 10, `"v1"`))
					r := s.get("/", "Range", "bytes=0-1")
					r.is(t, passedPart("ab", true))
					require.Equal(t, spans{{0, 2}}, s.partsOf("/"))
				})
			})
		}
	}
}

// An older answer that comes late adds its bytes, but its fields don't count; of
// another representation, or from before a purge, it's dropped.
func TestLatePart(t *testing.T) {
	for _, c := range []struct {
		etag   string
		purged bool
		have   spans
	}{
		{`"v1"`, false, spans{{0, 3}}}, {`"v0"`, false, spans{{1, 3}}}, {`"v1"`, true, spans{{1, 3}}},
	} {
		bubble(t, func(t *testing.T) {
			gate := closedUntilEnd(t)
			late := piece("0a", 0, 10, c.etag, "X-Which", "late")
			late.Gate = gate
			s := newSite(t, forwarding(), late, piece("12", 1, 10, `"v1"`, "X-Which", "newer"))
			done := make(chan struct{})
			go func() {
				s.h.ServeHTTP(httptest.NewRecorder(), request("GET", "/", "Range", "bytes=0-1"))
				close(done)
			}()
			synctest.Wait()
			after(time.Second)
			if c.purged {
				s.purge(purge.Selector{Kind: purge.Everything})
			}
			s.get("/", "Range", "bytes=1-2")
			gate.Open()
			<-done
			require.Equal(t, c.have, s.partsOf("/"))
			first := c.have[0].start
			r := s.get("/", "Range", fmt.Sprintf("bytes=%d-2", first))
			r.isRange(t, hitPart("012"[first:], 60, 0), fmt.Sprintf("bytes %d-2/10", first))
			require.Equal(t, "newer", r.header.Get("X-Which"))
			s.asked(2)
		})
	}
}

// The whole that is stored goes first, and parts asked for before it came aren't
// kept beside it.
func TestWholeGoesFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := closedUntilEnd(t)
		late := piece("ab", 0, 10, `"v0"`)
		late.Gate = gate
		s := newSite(t, forwarding(), late, public(digits, "Etag", `"v1"`))
		done := make(chan struct{})
		go func() {
			s.h.ServeHTTP(httptest.NewRecorder(), request("GET", "/", "Range", "bytes=0-1"))
			close(done)
		}()
		synctest.Wait()
		s.get("/")
		gate.Open()
		<-done
		require.Nil(t, s.partsOf("/"))
		r := s.get("/", "Range", "bytes=0-1")
		w := hit("01", 60, 0)
		w.status = 206
		r.is(t, w)
		s.asked(2)
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

// Somebody asks for every second byte: the list of them stays short, longer parts
// take the place of shorter ones, and what is served is right.
func TestManySmallParts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		body := strings.Repeat(digits, 1000)
		s := newSite(t, forwarding(), file(body, `"v1"`))
		for i := 0; i < len(body); i += 2 {
			s.get("/", "Range", fmt.Sprintf("bytes=%d-%d", i, i))
		}
		require.Len(t, s.partsOf("/"), maxSpans)
		r := s.get("/", "Range", "bytes=5001-5008")
		r.isRange(t, passedPart("12345678", true), "bytes 5001-5008/10000")
		require.Len(t, s.partsOf("/"), maxSpans)
		r = s.get("/", "Range", "bytes=5002-5003")
		r.isRange(t, hitPart("23", 60, 0), "bytes 5002-5003/10000")
		st := s.mw.Stats().Memory
		require.EqualValues(t, 1, st.Objects)
		require.Greater(t, st.Bytes, int64(len(body)))
		require.Less(t, st.Bytes, int64(len(body)+8<<10))
	})
}

// Many clients ask for parts of one resource at random, which changes now and
// then, and is purged: whatever is served from parts is what the resource has, and
// what is kept is what a model without a bound would keep.
func TestRandomParts(t *testing.T) {
	for seed := range uint64(30) {
		bubble(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			size := 1 + rnd.IntN(200)
			version, body := 0, ""
			change := func() {
				version++
				b := make([]byte, size)
				for i := range b {
					b[i] = byte('a' + rnd.IntN(26))
				}
				body = string(b)
			}
			change()
			s := newSite(t, forwarding())
			s.origin.Handle(testnet.AnyPath, &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) {
				file(body, fmt.Sprintf(`"%d"`, version)).Do(w, r)
			}})
			known := make([]bool, size)
			for range 60 {
				after(time.Second)
				if rnd.IntN(15) == 0 {
					s.purge(purge.Selector{Kind: purge.Everything})
					clear(known)
					if rnd.IntN(2) == 0 {
						change()
					}
				}
				a := rnd.IntN(size)
				b := a + rnd.IntN(min(size-a, 1+size/4))
				ask := [...]string{fmt.Sprintf("bytes=%d-%d", a, b), fmt.Sprintf("bytes=%d-", a), fmt.Sprintf("bytes=-%d", size-a)}[rnd.IntN(10)%3]
				asked, _ := rfc9110.ParseRange([]string{ask})
				places, _ := asked.Resolve(int64(size))
				p := spanOf(places[0])
				served := true
				for _, k := range known[p.start:p.end] {
					served = served && k
				}
				r := s.get("/", "Range", ask)
				require.Equal(t, 206, r.status)
				require.Equal(t, body[p.start:p.end], r.body, "seed %d, %s", seed, ask)
				require.Equal(t, places[0].ContentRange(int64(size)), r.header.Get("Content-Range"))
				require.Equal(t, served, r.header.Get("Weir-Cache-Status") == "HIT", "seed %d, %s", seed, ask)
				for i := p.start; i < p.end; i++ {
					known[i] = true
				}
			}
		})
	}
}

// With a disk, parts stay in memory: nothing of them is written, and what is found
// after a restart isn't taken for the whole.
func TestPartsStayInMemory(t *testing.T) {
	dir := t.TempDir()
	o := forwarding()
	o.Store, o.Purge = store.Options{Disk: openDisk(t, dir+"/disk")}, journalIn(dir)
	s := newSite(t, o)
	s.origin.Handle(testnet.AnyPath, file(digits, `"v1"`))
	for _, ask := range []string{"bytes=0-3", "bytes=2-5"} {
		w := httptest.NewRecorder()
		s.h.ServeHTTP(w, request("GET", "/", "Range", ask))
		require.Equal(t, 206, w.Code)
	}
	require.Equal(t, spans{{0, 6}}, s.partsOf("/"))
	st := s.mw.Stats()
	require.Equal(t, [3]int64{0, 0, 0}, [3]int64{st.Disk.Puts, st.DiskQueued, st.DiskDropped})
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, request("GET", "/", "Range", "bytes=6-"))
	require.Nil(t, s.partsOf("/"))
	require.Eventually(t, func() bool { return s.mw.Stats().Disk.Puts == 1 }, 5*time.Second, time.Millisecond, "the whole is written")
}

// hijackable is a writer whose connection can be taken over.
type hijackable struct{ http.ResponseWriter }

func (hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }
