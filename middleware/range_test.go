package middleware

import (
	"io"
	"mime"
	"mime/multipart"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/trace"
)

const digits = "0123456789"

// rangeRows are ranges of ten digits, and what they come to.
var rangeRows = []struct {
	name, ask    string
	status       int
	body, places string
}{
	{"single", "bytes=2-5", 206, "2345", "bytes 2-5/10"},
	{"open", "bytes=7-", 206, "789", "bytes 7-9/10"},
	{"suffix", "bytes=-3", 206, "789", "bytes 7-9/10"},
	{"longer suffix", "bytes=-30", 206, digits, "bytes 0-9/10"},
	{"beyond the end", "bytes=8-99", 206, "89", "bytes 8-9/10"},
	{"unsatisfiable", "bytes=10-", 416, "", "bytes */10"},
	{"empty suffix", "bytes=-0", 416, "", "bytes */10"},
	{"no range", "bytes=", 200, digits, ""},
	{"backwards", "bytes=5-2", 200, digits, ""},
	{"other unit", "lines=1-2", 200, digits, ""},
	{"too many", "bytes=0-0" + strings.Repeat(",2-2", 500), 200, digits, ""},
	{"one of two satisfiable", "bytes=20-,1-1", 206, "1", "bytes 1-1/10"},
}

// Ranges of a stored response, and the same ranges when nothing was stored: then
// the whole is fetched once without a range, and stored.
func TestRanges(t *testing.T) {
	for _, c := range rangeRows {
		for _, known := range []bool{true, false} {
			t.Run(c.name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					script := public(digits, "Content-Length", "10", "Content-Encoding", "identity", "Etag", `"v1"`)
					s := newSite(t, Options{}, script)
					if known {
						s.get("/")
						after(time.Second)
					}
					r := s.get("/", "Range", c.ask)
					w := missed(c.body, 60)
					if known {
						w = hit(c.body, 59, 1)
					} else if c.name == "one of two satisfiable" {
						// A body that is arriving is given whole to who asks for several parts.
						c.status, c.places, w.body = 200, "", digits
					}
					w.status = c.status
					r.is(t, w)
					require.Equal(t, c.places, r.header.Get("Content-Range"))
					if c.status == 416 {
						require.NotContains(t, r.header, "Content-Encoding")
						require.NotContains(t, r.header, "Etag")
						require.Equal(t, "0", r.header.Get("Content-Length"))
					} else {
						require.Equal(t, "text/html", r.header.Get("Content-Type"))
						require.EqualValues(t, len(r.body), atoi(r.header.Get("Content-Length")))
					}
					require.NotContains(t, s.last().Header, "Range")
					r = s.get("/")
					require.Equal(t, digits, r.body)
					require.Equal(t, 200, r.status)
					s.asked(1)
				})
			})
		}
	}
}

// Several ranges of a stored response are a multipart answer of the length that
// it says.
func TestMultipartRanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public(digits))
		s.get("/")
		r := s.get("/", "Range", "bytes=0-1, 4-5,-2")
		require.Equal(t, 206, r.status)
		require.EqualValues(t, len(r.body), atoi(r.header.Get("Content-Length")))
		kind, params, err := mime.ParseMediaType(r.header.Get("Content-Type"))
		require.NoError(t, err)
		require.Equal(t, "multipart/byteranges", kind)
		require.NotContains(t, r.header, "Content-Range")
		mr := multipart.NewReader(strings.NewReader(r.body), params["boundary"])
		for _, part := range [][2]string{{"bytes 0-1/10", "01"}, {"bytes 4-5/10", "45"}, {"bytes 8-9/10", "89"}} {
			p, err := mr.NextPart()
			require.NoError(t, err)
			body, _ := io.ReadAll(p)
			require.Equal(t, part, [2]string{p.Header.Get("Content-Range"), string(body)})
			require.Equal(t, "text/html", p.Header.Get("Content-Type"))
		}
		_, err = mr.NextPart()
		require.Equal(t, io.EOF, err)
		r = s.get("/", "Range", "bytes=0-9,0-9")
		require.Equal(t, 200, r.status, "overlapping ranges that make more than the whole")
	})
}

// If-Range needs the same strong validator; else the whole is the answer.
func TestIfRange(t *testing.T) {
	for _, c := range []struct {
		name, etag, condition string
		status                int
	}{
		{"strong", `"v1"`, `"v1"`, 206},
		{"other", `"v1"`, `"v2"`, 200},
		{"weak", `W/"v1"`, `W/"v1"`, 200},
		{"weak of strong", `"v1"`, `W/"v1"`, 200},
		{"date", `"v1"`, modified, 206},
		{"other date", `"v1"`, "Thu, 30 Dec 1999 00:00:00 GMT", 200},
	} {
		for _, known := range []bool{true, false} {
			t.Run(c.name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					s := newSite(t, Options{}, public(digits, "Etag", c.etag, "Last-Modified", modified, "Content-Length", "10", "Date", "Sat, 01 Jan 2000 00:00:00 GMT"))
					if known {
						s.get("/")
					}
					r := s.get("/", "Range", "bytes=1-2", "If-Range", c.condition)
					require.Equal(t, c.status, r.status)
					require.Equal(t, map[int]string{200: digits, 206: "12"}[c.status], r.body)
					require.NotContains(t, s.last().Header, "If-Range")
				})
			})
		}
	}
}

// A range of a body of unknown length that is arriving: one with an end is
// served as soon as its bytes are there; which bytes a suffix or an open range
// means can't be said yet, so the whole answers.
func TestRangeOfArrivingBodyOfUnknownLength(t *testing.T) {
	for _, c := range []struct {
		ask, body, places string
		status            int
	}{
		{"bytes=1-2", "12", "bytes 1-2/*", 206},
		{"bytes=-3", digits, "", 200},
		{"bytes=7-", digits, "", 200},
		{"bytes=1-99", "123456789", "bytes 1-9/10", 206},
		{"bytes=10-12", "", "bytes */10", 416},
	} {
		bubble(t, func(t *testing.T) {
			gate := testnet.NewGate()
			script := public("")
			script.Body = []testnet.Chunk{{Data: digits[:5]}, {Gate: gate, Data: digits[5:]}}
			s := newSite(t, Options{}, script)
			early := c.places == "bytes 1-2/*"
			go func() {
				time.Sleep(time.Second)
				gate.Open()
			}()
			start := time.Now()
			r := s.get("/", "Range", c.ask)
			if early {
				require.Zero(t, time.Since(start))
			}
			require.Equal(t, c.status, r.status, c.ask)
			require.Equal(t, c.body, r.body, c.ask)
			require.Equal(t, c.places, r.header.Get("Content-Range"), c.ask)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			r = s.get("/")
			r.is(t, hit(digits, r60(r), int(r.record.Cache.Age/time.Second)))
			s.asked(1)
		})
	}
}

func r60(r reply) int { return 60 - int(r.record.Cache.Age/time.Second) }

// A range that starts far into an object isn't worth fetching all of it: it
// passes, and so does any range where the route says so.
func TestRangesThatPass(t *testing.T) {
	for _, c := range []struct {
		name, ask, reason string
		route             Route
	}{
		{"far", "bytes=5-6", "the range starts too far into the object to fetch all of it", Route{RangeWindow: 4}},
		{"route", "bytes=0-1", "the route hands ranges to the origin", Route{ForwardRange: true}},
		{"profile", "bytes=0-1", "the route hands ranges to the origin", RFCProfile()},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				part := testnet.Text(206, "56", "Content-Range", "bytes 5-6/10", "Cache-Control", "public, max-age=60")
				s := newSite(t, Options{Default: c.route}, part, public(digits))
				r := s.get("/", "Range", c.ask, "If-Range", `"v1"`)
				r.is(t, want{status: 206, body: "56", word: "BYPASS", cache: "fwd=uri-miss;fwd-status=206", reason: c.reason,
					forward: trace.ForwardURIMiss, notStored: "the cache kept out of the request"})
				require.Equal(t, c.ask, s.last().Header.Get("Range"))
				require.Equal(t, `"v1"`, s.last().Header.Get("If-Range"))
				r = s.get("/")
				r.is(t, missed(digits, 60))
				r = s.get("/", "Range", c.ask)
				require.Equal(t, 206, r.status)
				require.Equal(t, "HIT", r.header.Get("Weir-Cache-Status"))
				s.asked(2)
			})
		})
	}
}

// A range at the window's edge still fetches the whole.
func TestRangeAtTheWindow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{Default: Route{RangeWindow: 4}}, public(digits, "Content-Length", "10"))
		r := s.get("/", "Range", "bytes=4-5")
		w := missed("45", 60)
		w.status = 206
		r.is(t, w)
	})
}

// An object too large to be stored isn't fetched whole for each of its ranges:
// after the first they come from the origin.
func TestRangesOfTooLargeObject(t *testing.T) {
	bubble(t, func(t *testing.T) {
		large := public(strings.Repeat(digits, 20<<10), "Content-Length", "204800")
		s := newSite(t, Options{Store: store.Options{MaxMemoryObjectBytes: 64 << 10}}, large,
			testnet.Text(206, "0123", "Content-Range", "bytes 0-3/204800"), large)
		r := s.get("/", "Range", "bytes=0-3")
		require.Equal(t, 206, r.status)
		require.Equal(t, "0123", r.body)
		require.Equal(t, "MISS", r.header.Get("Weir-Cache-Status"))
		r = s.get("/", "Range", "bytes=0-3")
		require.Equal(t, "BYPASS", r.header.Get("Weir-Cache-Status"))
		require.Equal(t, "the object is too large to be stored, so its ranges come from the origin", r.record.Cache.Reason)
		require.Equal(t, "bytes=0-3", s.last().Header.Get("Range"))
		after(DefaultUnshareableFor)
		s.get("/", "Range", "bytes=0-3")
		require.NotContains(t, s.last().Header, "Range")
		s.asked(3)
	})
}

// A stale response is validated before a part of it is served; if the origin
// fails, its error is the answer and not a part of it.
func TestRangeOfStaleResponse(t *testing.T) {
	for _, status := range []int{304, 500} {
		bubble(t, func(t *testing.T) {
			s := newSite(t, Options{}, public(digits, "Etag", `"v1"`), testnet.Text(status, ""))
			s.get("/")
			after(61 * time.Second)
			r := s.get("/", "Range", "bytes=1-2")
			require.Equal(t, `"v1"`, s.last().Header.Get("If-None-Match"))
			require.NotContains(t, s.last().Header, "Range")
			if status == 304 {
				require.Equal(t, 206, r.status)
				require.Equal(t, "12", r.body)
				return
			}
			require.Equal(t, 500, r.status)
			require.NotContains(t, r.header, "Content-Range")
		})
	}
}

// A handler that makes ranges itself is asked for the whole and the cache makes
// the parts; a 206 that comes all the same passes and isn't stored.
func TestHandlerThatAnswers206Unasked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, testnet.Text(206, "01", "Content-Range", "bytes 0-1/10", "Cache-Control", "max-age=60"))
		r := s.get("/", "Range", "bytes=0-0")
		require.Equal(t, 206, r.status)
		require.Equal(t, "01", r.body)
		require.False(t, r.record.Cache.Stored)
	})
}
