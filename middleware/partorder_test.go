package middleware

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/internal/testnet"
)

// hooked is a site whose parts vary by X-Kind, with a function that is called when a
// value of it is looked at, which the cache does between its decisions.
func hooked(t *testing.T, scripts ...*testnet.Script) (s *site, hook *func()) {
	hook = new(func())
	o := forwarding()
	o.Default.Key = cachekey.Options{Normalize: map[string]cachekey.Normalizer{"X-Kind": {Value: func(lines []string) string {
		if *hook != nil {
			(*hook)()
		}
		return strings.Join(lines, ",")
	}}}}
	return newSite(t, o, scripts...), hook
}

// halfWay is a range request for a site's page that the origin has answered with a
// part, of which nothing is stored yet.
func (s *site) halfWay(t *testing.T, text string, start, size int, etag string) (x *exchange, p *partCapture) {
	x = begin(s.h.(*handler), httptest.NewRecorder(), request("GET", "/", "Range", fmt.Sprintf("bytes=%d-%d", start, start+len(text)-1)))
	require.Empty(t, x.classify())
	require.Empty(t, x.identify())
	key, in, ok := x.countsAsFetch(whyRange, x.r)
	require.True(t, ok)
	x.passed = x.asFetch(key, &in, x.r, time.Now())
	p = x.capture(206, piece(text, start, size, etag, "Vary", "X-Kind").Header).(*partCapture)
	p.add([]byte(text), nil)
	t.Cleanup(func() {
		x.passed.flight.Finish(nil)
		x.end()
	})
	return x, p
}

// A part makes the whole of those stored. At each instant at which the cache looks at
// the request while it does, a newer part of another representation comes, or an answer
// that isn't stored but tells of one: the older whole isn't there afterwards.
func TestWholeOfPartsDoesNotHideNewerPart(t *testing.T) {
	newer := map[string]struct {
		answer *testnet.Script
		have   spans  // afterwards
		whole  string // what a request for the whole gets
	}{
		"a part":         {piece("XY", 4, 10, `"v2"`, "Vary", "X-Kind"), spans{{4, 6}}, "fetched"},
		"a part of more": {piece("XY", 4, 11, `"v1"`, "Vary", "X-Kind"), spans{{4, 6}}, "fetched"},
		"a part of all":  {piece("9876543210", 0, 10, `"v2"`, "Vary", "X-Kind"), nil, "9876543210"},
		"one not stored": {piece("XY", 4, 10, `"v2"`, "Vary", "X-Kind", "Set-Cookie", "a=b"), nil, "fetched"},
		"it's gone":      {testnet.Text(404, ""), nil, "fetched"},
	}
	for name, c := range newer {
		for _, first := range []bool{true, false} { // whether parts are stored before
			if !first && c.have == nil && c.whole == "fetched" {
				continue // there is nothing of which it could make an end
			}
			t.Run(fmt.Sprint(name, first), func(t *testing.T) {
				for at := 1; ; at++ {
					reached := false
					bubble(t, func(t *testing.T) {
						s, hook := hooked(t)
						text, start := "0123456789", 0
						if first {
							s.answer(piece("01234", 0, 10, `"v1"`, "Vary", "X-Kind"))
							s.get("/", "Range", "bytes=0-4")
							text, start = "56789", 5
						}
						x, p := s.halfWay(t, text, start, 10, `"v1"`)
						after(time.Second)
						calls := 0
						*hook = func() {
							if calls++; calls != at {
								return
							}
							reached = true
							was := *hook
							*hook = nil
							s.answer(c.answer)
							s.get("/", "Range", "bytes=4-5")
							*hook = was
						}
						p.store(x, x.r)
						if !reached {
							return
						}
						*hook = nil
						require.Equal(t, c.have, s.partsOf("/"), "at look %d", at)
						s.answer(public("fetched"))
						require.Equal(t, c.whole, s.get("/").body, "at look %d", at)
					})
					if !reached {
						require.Greater(t, at, 2)
						return
					}
				}
			})
		}
	}
}

// The other way round: a whole of older parts takes its place while a newer part is
// being stored. It's removed again, and the part is kept.
func TestNewerPartOutdatesWholeThatCameFirst(t *testing.T) {
	for at := 0; ; at++ {
		reached := at == 0
		bubble(t, func(t *testing.T) {
			s, hook := hooked(t)
			older, whole := s.halfWay(t, "0123456789", 0, 10, `"v1"`)
			after(time.Second)
			x, p := s.halfWay(t, "XY", 1, 10, `"v2"`)
			calls := 0
			come := func() {
				*hook, reached = nil, true
				whole.store(older, older.r)
			}
			if at == 0 {
				come()
				require.Equal(t, "HIT", s.get("/").header.Get("Weir-Cache-Status"))
			}
			*hook = func() {
				if calls++; calls == at {
					come()
				}
			}
			p.store(x, x.r)
			*hook = nil
			if !reached {
				return
			}
			require.Equal(t, spans{{1, 3}}, s.partsOf("/"), "at look %d", at)
			s.answer(public("fetched"))
			require.Equal(t, "fetched", s.get("/").body, "at look %d", at)
		})
		if !reached {
			require.Greater(t, at, 1)
			return
		}
	}
}

// A part of the same representation, or one that was asked for before, leaves the whole
// that came first where it is.
func TestPartLeavesWholeOfTheSame(t *testing.T) {
	for _, etag := range []string{`"v1"`, `"v0"`} {
		bubble(t, func(t *testing.T) {
			s, _ := hooked(t)
			x, p := s.halfWay(t, "12", 1, 10, etag)
			later, whole := s.halfWay(t, "0123456789", 0, 10, `"v1"`)
			if etag == `"v1"` { // the part is the newer one
				x.passed.requestedAt = later.passed.requestedAt.Add(time.Second)
			}
			whole.store(later, later.r)
			p.store(x, x.r)
			require.Nil(t, s.partsOf("/"))
			require.Equal(t, "HIT", s.get("/").header.Get("Weir-Cache-Status"))
		})
	}
}

// A whole response that was asked for before parts of another representation, and ends
// after they came, isn't stored; one of theirs is.
func TestOlderWholeDoesNotHideNewerParts(t *testing.T) {
	for _, c := range []struct {
		etag, body, status string
	}{{`"v0"`, digits, "BYPASS"}, {`"v1"`, digits + "0", "BYPASS"}, {`"v1"`, digits, "HIT"}, {`W/"v1"`, digits, "HIT"}} {
		bubble(t, func(t *testing.T) {
			gate := closedUntilEnd(t)
			whole := public(c.body, "Etag", c.etag)
			whole.Gate = gate
			s := newSite(t, forwarding(), whole, piece("12", 1, 10, `"v1"`), piece("45", 4, 10, `"v1"`))
			done := make(chan string)
			go func() {
				w := httptest.NewRecorder()
				s.h.ServeHTTP(w, request("GET", "/"))
				done <- w.Body.String()
			}()
			synctest.Wait()
			after(time.Second)
			s.get("/", "Range", "bytes=1-2")
			gate.Open()
			require.Equal(t, c.body, <-done)
			synctest.Wait()
			r := s.get("/", "Range", "bytes=4-5")
			require.Equal(t, []string{c.status, "45"}, []string{r.header.Get("Weir-Cache-Status"), r.body})
		})
	}
}
