package middleware

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
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
