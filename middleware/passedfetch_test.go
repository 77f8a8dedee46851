package middleware

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// While a POST whose response would be stored is under way, another unsafe request
// makes its URL invalid: what the first one has read may be older than that.
func TestPostOvertakenByAnotherIsNotStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{Default: Route{StorePost: true}})
		slow := &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) {
			s.answer(testnet.Text(204, ""), public("new"))
			s.h.ServeHTTP(recorder(), request("PUT", "/a"))
			w.Header().Set("Content-Location", "/a")
			w.Header().Set("Cache-Control", "public, max-age=60")
			_, _ = w.Write([]byte("old"))
		}}
		s.answer(slow)
		w := recorder()
		s.h.ServeHTTP(w, request("POST", "/a"))
		require.Equal(t, "old", w.Body.String())
		r := s.get("/a")
		r.is(t, missed("new", 60))
	})
}

// The handler takes the visitor's fields off the request, as one does that has
// looked at the session. What it answers is judged by what was asked all the same,
// and selected by it.
func TestPassedAnswersAreJudgedByWhatWasAsked(t *testing.T) {
	strip := func(name, body string, header ...string) *testnet.Script {
		return &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) {
			delete(r.Header, name)
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			_, _ = w.Write([]byte(body))
		}}
	}
	// Not explicitly shared: with cookies it may be one visitor's.
	own := []string{"Cache-Control", "max-age=60", "Content-Type", "text/html"}
	t.Run("POST", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newSite(t, Options{Default: Route{StorePost: true}},
				strip("Cookie", "mine", append(own, "Content-Location", "/a")...), public("page"))
			r := s.do("POST", "/a", "Cookie", "session=1")
			require.False(t, r.record.Cache.Stored)
			r = s.get("/a")
			r.is(t, missed("page", 60))
		})
	})
	t.Run("POST with Vary", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newSite(t, Options{Default: Route{StorePost: true}},
				strip("Accept-Language", "deutsch", "Content-Location", "/a", "Vary", "Accept-Language", "Cache-Control", "public, max-age=60"),
				public("any", "Vary", "Accept-Language"))
			r := s.do("POST", "/a", "Accept-Language", "de")
			require.True(t, r.record.Cache.Stored)
			r = s.get("/a")
			require.Equal(t, "any", r.body)
			r = s.get("/a", "Accept-Language", "de")
			r.is(t, hit("deutsch", 60, 0))
		})
	})
	t.Run("HEAD", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newSite(t, Options{Default: Route{AuthorizationByRFC: true}}, public("page", "Etag", `"v1"`),
				strip("Authorization", "", append(own, "Etag", `"v1"`, "X-Visitor", "me")...))
			s.get("/")
			after(time.Second)
			s.do("HEAD", "/", "Authorization", "Basic me", "Cache-Control", "no-cache")
			s.asked(2)
			r := s.get("/")
			r.is(t, hit("page", 59, 1))
			require.Empty(t, r.header.Get("X-Visitor"))
		})
	})
}

// The spelling of a request that is handed on may tell the origin apart what the
// key doesn't: its answer isn't anybody else's.
func TestOddlySpeltRequestsChangeNothingStored(t *testing.T) {
	t.Run("POST", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newSite(t, Options{Default: Route{StorePost: true}},
				public("evil", "Content-Location", "/a"), public("page"))
			s.do("POST", "/a", "Host", "EXAMPLE.com")
			r := s.get("/a")
			r.is(t, missed("page", 60))
		})
	})
	t.Run("HEAD", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newSite(t, Options{}, public("page", "Etag", `"v1"`),
				headOnly("Cache-Control", "public, max-age=60", "Etag", `"v1"`, "X-Host", "EXAMPLE.com"))
			s.get("/")
			after(time.Second)
			s.do("HEAD", "/", "Host", "EXAMPLE.com", "Cache-Control", "no-cache")
			s.asked(2)
			r := s.get("/")
			r.is(t, hit("page", 59, 1))
			require.Empty(t, r.header.Get("X-Host"))
		})
	})
}

// A response that is stored under its language too is gone from there when HEAD
// tells that it has changed.
func TestHeadInvalidatesByLanguageToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o Options
		o.Default.SelectLanguage = true
		s := newSite(t, o, public("v1", "Etag", `"v1"`, "Vary", "Accept-Language", "Content-Language", "de"))
		german := []string{"Accept-Language", "de, en;q=0.5"}
		s.get("/a", german...)
		s.answer(headOnly("Etag", `"v2"`, "Cache-Control", "public, max-age=60", "Vary", "Accept-Language"))
		s.do("HEAD", "/a", append(german, "Cache-Control", "no-cache")...)
		s.answer(public("v2", "Etag", `"v2"`, "Vary", "Accept-Language", "Content-Language", "de"))
		r := s.get("/a", german...)
		require.Equal(t, "v2", r.body)
	})
}
