package middleware

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// A visitor sends a header that is too large, or a byte that the origin's parser
// refuses, and gets an error for a page that is fine. Others get the page.
func TestProvokedErrorIsNotShared(t *testing.T) {
	for _, status := range []int{400, 405, 413, 414, 431, 500, 502} {
		bubble(t, func(t *testing.T) {
			s := newSite(t, Options{Default: Route{TTL: TTL{Floor: time.Hour, ByClass: map[int]time.Duration{2: time.Hour}}}},
				testnet.Text(status, "refused"), text("page", "public, max-age=3600"))
			r := s.get("/ok", "X-App", strings.Repeat("a", 9<<10))
			require.Equal(t, status, r.status)
			r = s.get("/ok")
			r.is(t, missed("page", 3600))
		})
	}
}

// An SDK marks its retries with a header that the origin chokes on. The error,
// which the origin sends with max-age, lives for its own bounded time only.
func TestErrorUnderAnUnkeyedHeaderDiesSoon(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, testnet.Text(500, "oops", "Cache-Control", "public, max-age=86400"), public("page"))
		s.get("/", "X-Debug-Retry", "1")
		after(time.Minute)
		r := s.get("/")
		require.Equal(t, "page", r.body)
	})
}

// A response for one client alone has a validator. The next client's request is
// not made conditional by it, and gets a response of its own.
func TestNoValidationByWhatIsNotStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, text("one", "private, max-age=60", "Etag", `"v1"`), text("two", "private, max-age=60", "Etag", `"v1"`))
		s.get("/")
		r := s.get("/")
		require.Equal(t, "two", r.body)
		require.NotContains(t, s.last().Header, "If-None-Match")
	})
}

// An answer for one client alone doesn't take away what is stored for the rest.
func TestUnshareableAnswerLeavesWhatIsStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("all"), text("mine", "private", "Etag", `"v1"`))
		s.get("/")
		r := s.get("/", "Cache-Control", "no-cache")
		require.Equal(t, "mine", r.body)
		r = s.get("/")
		r.is(t, hit("all", 60, 0))
	})
}

// A 404 is kept for a second. After that the origin is asked again, whatever
// requests wait for one another meanwhile.
func TestNegativeAnswerEndsWithItsLifetime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, testnet.Text(404, "not yet", "Cache-Control", "max-age=1"), public("page"))
		r := s.get("/")
		r.is(t, missed("not yet", 1).at(404))
		after(time.Second - 1)
		r = s.get("/")
		require.Equal(t, 404, r.status)
		after(1)
		r = s.get("/")
		require.Equal(t, "page", r.body)
		s.asked(2)
	})
}

// A client asks to upgrade and the origin answers 200: that's an ordinary answer.
func TestUpgradeThatIsNotTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("page"))
		r := s.get("/", "Connection", "Upgrade", "Upgrade", "websocket")
		r.is(t, bypassed("page", "the request asks to upgrade the connection"))
	})
}

// The first request for a file is one for a part of it, and so is the next. Never
// is the whole called a part.
func TestWholeIsNeverCalledAPart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public(digits, "Content-Length", "10"))
		for range 2 {
			r := s.get("/", "Range", "bytes=0-4")
			require.Equal(t, 206, r.status)
			require.Equal(t, "01234", r.body)
			require.Equal(t, "bytes 0-4/10", r.header.Get("Content-Range"))
		}
		r := s.get("/")
		require.Equal(t, 200, r.status)
		require.NotContains(t, r.header, "Content-Range")
	})
}

// A handler answers a range by itself with 200, Content-Range and a slice. It's
// passed on as it is and no part of it is made.
func TestSliceUnder200(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("01", "Content-Range", "bytes 0-1/10"))
		r := s.get("/", "Range", "bytes=0-0")
		require.Equal(t, 200, r.status)
		require.Equal(t, "01", r.body)
	})
}

// http.FileServer behind the cache: it is asked for whole files, and answers
// conditions and ranges no more, which the cache does.
func TestFileServerBehindTheCache(t *testing.T) {
	bubble(t, func(t *testing.T) {
		asked := 0
		s := newSite(t, Options{}, &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) {
			asked++
			w.Header().Set("Cache-Control", "public, max-age=60")
			http.ServeContent(w, r, "a.css", time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC), strings.NewReader("body { }"))
		}})
		r := s.get("/a.css", "Range", "bytes=5-", "If-Modified-Since", "Thu, 30 Dec 1999 00:00:00 GMT")
		require.Equal(t, 206, r.status)
		require.Equal(t, "{ }", r.body)
		r = s.get("/a.css", "If-Modified-Since", modified)
		require.Equal(t, 304, r.status)
		r = s.get("/a.css")
		r.is(t, hit("body { }", 60, 0))
		require.Equal(t, "text/css; charset=utf-8", r.header.Get("Content-Type"))
		require.Equal(t, 1, asked)
	})
}
