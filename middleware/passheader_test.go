package middleware

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// outside makes an outer handler set a field first, as security middleware does, for
// all that is asked of s.
func (s *site) outside(name, value string) {
	inner := s.h
	s.h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(name, value)
		inner.ServeHTTP(w, r)
	})
}

// bare is a 206 of which nothing but the date says how long it may be kept.
func bare(body string, header ...string) *testnet.Script {
	return testnet.Text(206, body, append([]string{
		"Content-Range", fmt.Sprintf("bytes 0-%d/10", len(body)-1), "Etag", `"v1"`,
		"Content-Type", "video/mp4", "Last-Modified", modified,
	}, header...)...)
}

// An outer handler sets a default, and the wrapped one says the same for itself: it
// counts, also where the response is handed on.
func TestHandlerSaysWhatAnOuterHandlerSaid(t *testing.T) {
	forward, post := Route{ForwardRange: true}, Route{StorePost: true}
	postable := []string{"Content-Location", "/", "Content-Type", "text/html"}
	for _, c := range []struct {
		name, field, value string
		route              Route
		method             string
		answer             func(header ...string) *testnet.Script
	}{
		{"part", "Cache-Control", "no-store", forward, "GET", func(h ...string) *testnet.Script { return bare("0123", h...) }},
		{"part", "Cache-Control", "private", forward, "GET", func(h ...string) *testnet.Script { return bare("0123", h...) }},
		{"part", "Set-Cookie", "a=b", forward, "GET", func(h ...string) *testnet.Script { return bare("0123", h...) }},
		{"part", "Vary", "*", forward, "GET", func(h ...string) *testnet.Script { return bare("0123", h...) }},
		{"post", "Set-Cookie", "a=b", post, "POST", func(h ...string) *testnet.Script {
			return text("whole", "max-age=60", append(h, postable...)...)
		}},
		{"post", "Cache-Control", "no-store", post, "POST", func(h ...string) *testnet.Script {
			return testnet.Text(200, "whole", append(append(h, "Expires", "Fri, 02 Jan 2099 15:04:05 GMT"), postable...)...)
		}},
	} {
		t.Run(c.name+" "+c.value, func(t *testing.T) {
			for _, both := range []bool{false, true} {
				bubble(t, func(t *testing.T) {
					said := []string{}
					if both {
						said = []string{c.field, c.value}
					}
					s := newSite(t, Options{Default: c.route}, c.answer(said...))
					s.outside(c.field, c.value)
					r := s.do(c.method, "/", "Range", "bytes=0-3")
					require.Equal(t, !both, r.record.Cache.Stored)
					require.Equal(t, []string{c.value}, r.header[c.field])
				})
			}
		})
	}
}

// The same with the fields that select: each visitor has his own response.
func TestHandlerVariesByWhatAnOuterHandlerSaid(t *testing.T) {
	answer := &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) {
		tongue := r.Header.Get("Accept-Language")
		w.Header().Set("Cache-Control", "max-age=60")
		w.Header().Set("Vary", "Accept-Language")
		w.Header().Set("Content-Type", "text/html")
		if r.Header.Get("Range") != "" {
			w.Header().Set("Etag", `"`+tongue+`"`)
			w.Header().Set("Content-Range", "bytes 0-1/10")
			w.WriteHeader(206)
		}
		w.Header().Set("Content-Location", "/")
		_, _ = w.Write([]byte(tongue))
	}}
	for method, header := range map[string][]string{"GET": {"Range", "bytes=0-1"}, "POST": nil} {
		t.Run(method, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{Default: Route{ForwardRange: true, StorePost: true}}, answer)
				s.outside("Vary", "Accept-Language")
				r := s.do(method, "/", append(header, "Accept-Language", "de")...)
				require.True(t, r.record.Cache.Stored)
				r = s.get("/", append(header, "Accept-Language", "fr")...)
				require.Equal(t, "fr", r.body)
				r = s.get("/", append(header, "Accept-Language", "fr")...)
				require.Equal(t, [2]string{"fr", "HIT"}, [2]string{r.body, r.header.Get("Weir-Cache-Status")})
			})
		})
	}
}

// And with what an answer to HEAD says of the stored response.
func TestHeadSaysWhatAnOuterHandlerSaid(t *testing.T) {
	for said, kept := range map[string]bool{"no-store": false, "": true} {
		bubble(t, func(t *testing.T) {
			head := testnet.Text(200, "", "Etag", `"v1"`)
			if said != "" {
				head.Header.Set("Cache-Control", said)
			}
			s := newSite(t, Options{}, text("page", "max-age=60", "Etag", `"v1"`))
			s.get("/")
			after(61 * time.Second)
			s.outside("Cache-Control", "no-store")
			s.answer(head)
			r := s.do("HEAD", "/")
			require.Equal(t, []string{"no-store"}, r.header["Cache-Control"])
			r = s.get("/", "Cache-Control", "only-if-cached")
			require.Equal(t, kept, r.status == 200)
		})
	}
}

// What the handler sets reaches the client beside what outer handlers set, also
// where it has a map of its own: in interim responses and trailers too.
func TestPassedFieldsBesideOuterOnes(t *testing.T) {
	for name, c := range map[string]struct {
		route  Route
		method string
		header []string
	}{
		"part": {Route{ForwardRange: true}, "GET", []string{"Range", "bytes=0-3"}},
		"post": {Route{StorePost: true}, "POST", nil},
		"head": {Route{}, "HEAD", nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{Default: c.route}, &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Link", "<early>")
					w.WriteHeader(103)
					w.Header().Del("Link")
					w.Header().Set("Vary", "Mood")
					w.Header().Set("Set-Cookie", "inner=1")
					w.Header().Set("X-Both", "inner")
					w.Header().Set("Trailer", "X-Sum")
					_, _ = w.Write([]byte("0123"))
					w.Header().Set("X-Sum", "4")
					w.Header().Set("X-Late", "no trailer")
					w.Header().Set(http.TrailerPrefix+"X-More", "m")
				}})
				w := &interimRecorder{ResponseRecorder: httptest.NewRecorder()}
				for name, value := range map[string]string{"Vary": "Origin", "Set-Cookie": "outer=1", "X-Both": "outer", "X-Outer": "o"} {
					w.Header().Set(name, value)
				}
				s.h.ServeHTTP(w, request(c.method, "/", c.header...))
				require.Equal(t, http.Header{
					"Link": {"<early>"}, "Vary": {"Origin"}, "Set-Cookie": {"outer=1"}, "X-Both": {"outer"}, "X-Outer": {"o"},
					"Content-Length": nil, // which isn't sent: see internal/informational
				}, w.interim)
				res := w.Result()
				require.Equal(t, []string{"Origin", "Mood"}, res.Header["Vary"])
				require.Equal(t, []string{"outer=1", "inner=1"}, res.Header["Set-Cookie"])
				require.Equal(t, []string{"inner"}, res.Header["X-Both"])
				require.Equal(t, []string{"o"}, res.Header["X-Outer"])
				require.NotContains(t, res.Header, "Link")
				require.NotContains(t, w.Header(), "X-Late")
				require.Equal(t, http.Header{"X-Sum": {"4"}, "X-More": {"m"}}, res.Trailer)
			})
		})
	}
}

// interimRecorder keeps the fields of an interim response.
type interimRecorder struct {
	*httptest.ResponseRecorder
	interim http.Header
}

func (r *interimRecorder) WriteHeader(status int) {
	if status < 200 {
		r.interim = r.Header().Clone()
		return
	}
	r.ResponseRecorder.WriteHeader(status)
}

// A HEAD that a stale response answers has that one's fields, and those of outer
// handlers, and none that the failed handler set.
func TestStandInForHeadBesideOuterFields(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, text("page", "max-age=60, stale-if-error=600"))
		s.get("/")
		after(61 * time.Second)
		s.outside("X-Outer", "o")
		s.answer(testnet.Text(502, "", "X-Failed", "1"))
		r := s.do("HEAD", "/")
		require.Equal(t, "STALE-ERROR", r.header.Get("Weir-Cache-Status"))
		require.Equal(t, "o", r.header.Get("X-Outer"))
		require.NotContains(t, r.header, "X-Failed")
	})
}
