package middleware

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/store"
)

// Each reason not to store a response has its sentence, and the next request
// goes to the origin again.
func TestNotStoredReasons(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		header []string
		reason string
	}{
		{"no-store", 200, []string{"Cache-Control", "public, max-age=60", "Cache-Control", "NO-STORE"}, "the response says no-store"},
		{"targeted no-store", 200, []string{"Cdn-Cache-Control", "no-store", "Cache-Control", "max-age=3600"}, "the response says no-store"},
		{"private", 200, []string{"Cache-Control", "private, max-age=60"}, "the response says private"},
		{"set-cookie", 200, []string{"Cache-Control", "public, max-age=60", "Set-Cookie", "u=1"}, "the response sets a cookie"},
		{"vary star", 200, []string{"Cache-Control", "public, max-age=60", "Vary", "*"}, "the response varies on everything (Vary: *)"},
		{"vary star after a comma", 200, []string{"Cache-Control", "max-age=60", "Vary", ", *"}, "the response varies on everything (Vary: *)"},
		{"vary star among others", 200, []string{"Cache-Control", "max-age=60", "Vary", "*, Foo"}, "the response varies on everything (Vary: *)"},
		{"vary star in a second line", 200, []string{"Cache-Control", "max-age=60", "Vary", "Foo", "Vary", "*"}, "the response varies on everything (Vary: *)"},
		{"vary junk", 200, []string{"Cache-Control", "max-age=60", "Vary", "a b"}, "the response varies on too many fields or its Vary can't be read"},
		{"no lifetime", 200, []string{"Content-Type", "text/html"}, "nothing says how long the response is fresh"},
		{"html with Last-Modified", 200, []string{"Content-Type", "text/html", "Last-Modified", "Mon, 02 Jan 1995 15:04:05 GMT"}, "nothing says how long the response is fresh"},
		{"json with Last-Modified", 200, []string{"Content-Type", "application/json", "Last-Modified", "Mon, 02 Jan 1995 15:04:05 GMT"}, "nothing says how long the response is fresh"},
		{"stale on arrival", 200, []string{"Cache-Control", "max-age=0"}, "the response was stale on arrival and can't be validated"},
		{"older than its lifetime", 200, []string{"Cache-Control", "max-age=60", "Age", "60"}, "the response was stale on arrival and can't be validated"},
		{"no-cache without validator", 200, []string{"Cache-Control", "no-cache"}, "the response says no-cache and can't be validated"},
		{"unknown status with must-understand", 299, []string{"Cache-Control", "must-understand, max-age=60"}, "the response says must-understand and its status isn't known"},
		{"partial", 206, []string{"Cache-Control", "max-age=60", "Content-Range", "bytes 0-4/9"}, "a partial response isn't stored"},
		{"server error", 500, nil, "a server error is stored only with an explicit lifetime"},
		{"bad request", 400, nil, "an error that a client can provoke is stored only with an explicit lifetime"},
		{"header too large", 431, nil, "an error that a client can provoke is stored only with an explicit lifetime"},
		{"unreadable lifetime", 200, []string{"Cache-Control", "max-age=sixty"}, "the response was stale on arrival and can't be validated"},
		{"negative lifetime", 200, []string{"Cache-Control", "max-age=-1"}, "the response was stale on arrival and can't be validated"},
		{"two lifetimes", 200, []string{"Cache-Control", "max-age=60", "Cache-Control", "max-age=0"}, "the response was stale on arrival and can't be validated"},
		{"expires zero", 200, []string{"Expires", "0"}, "the response was stale on arrival and can't be validated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{}, testnet.Text(c.status, "mine", c.header...))
				for n := range 2 {
					r := s.get("/")
					w := dynamic("mine", c.reason).at(c.status)
					w.age = testnet.Header(c.header...).Get("Age")
					r.is(t, w)
					require.Equal(t, testnet.Header(c.header...)["Set-Cookie"], r.header["Set-Cookie"])
					s.asked(n + 1)
				}
			})
		})
	}
}

// A response is stored whatever its status, if its lifetime is explicit.
func TestStoredStatuses(t *testing.T) {
	for _, status := range []int{200, 203, 204, 301, 302, 307, 308, 404, 405, 410, 414, 501} {
		bubble(t, func(t *testing.T) {
			body := "body"
			if status == 204 {
				body = ""
			}
			s := newSite(t, Options{}, testnet.Text(status, body, "Cache-Control", "max-age=30", "Location", "/x"))
			r := s.get("/")
			r.is(t, missed(body, 30).at(status))
			r = s.get("/")
			w := hit(body, 30, 0)
			w.status = status
			r.is(t, w)
			require.Equal(t, "/x", r.header.Get("Location"))
			s.asked(1)
		})
	}
}

// A handler that returns without a word has answered 200 with nothing, as with
// net/http. Without any lifetime that isn't stored.
func TestSilentHandlerIsNotStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, &testnet.Script{Do: nothing})
		for n := range 2 {
			r := s.get("/")
			r.is(t, dynamic("", "nothing says how long the response is fresh"))
			s.asked(n + 1)
		}
	})
}

// A response that is larger than the largest object passes through whole, with
// a declared length and without, and the record says why it isn't stored.
func TestTooLargeIsServedNotStored(t *testing.T) {
	const why = "the response is larger than the largest object that the cache keeps"
	body := strings.Repeat("0123456789", 20<<10)
	for _, declared := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			script := public(body)
			if declared {
				script.Header.Set("Content-Length", "204800")
			}
			s := newSite(t, Options{Store: store.Options{MaxMemoryObjectBytes: 64 << 10}}, script)
			for n := range 2 {
				r := s.get("/")
				require.Equal(t, body, r.body)
				require.Equal(t, "MISS", r.header.Get("Weir-Cache-Status"))
				require.False(t, r.record.Cache.Stored)
				require.Equal(t, why, r.record.Cache.NotStored)
				s.asked(n + 1)
			}
		})
	}
}

// Several writes are one body, on the miss and on the hit.
func TestEveryWriteIsStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		script := public("")
		script.Body = testnet.Chunks("first ", "second ", "third")
		s := newSite(t, Options{}, script)
		r := s.get("/")
		r.is(t, missed("first second third", 60))
		r = s.get("/")
		r.is(t, hit("first second third", 60, 0))
		require.Equal(t, "18", r.header.Get("Content-Length"))
	})
}

// Fields that concern one connection or one recipient aren't stored.
func TestFieldsThatAreNotStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, testnet.Text(200, "page",
			"Cache-Control", `max-age=60, no-cache="X-A", private="X-B"`, "X-A", "a", "X-B", "b", "X-C", "c",
			"Connection", "X-D", "X-D", "d", "Keep-Alive", "timeout=5"))
		r := s.get("/")
		require.Equal(t, "MISS", r.header.Get("Weir-Cache-Status"))
		require.Equal(t, "a", r.header.Get("X-A"), "the client that asked gets all")
		r = s.get("/")
		r.is(t, hit("page", 60, 0))
		for _, name := range []string{"X-A", "X-B", "Connection", "X-D", "Keep-Alive"} {
			require.NotContains(t, r.header, name)
		}
		require.Equal(t, "c", r.header.Get("X-C"))
		require.Equal(t, "Sat, 01 Jan 2000 00:00:00 GMT", r.header.Get("Date"))
	})
}

// A visitor asks for the account page under a name that ends in .css. The page
// has no Cache-Control, or max-age and no type that fits: it isn't stored for
// whoever asks for the same name next.
func TestPageUnderStaticNameIsNotStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for path, script := range map[string]*testnet.Script{
			"/account/a.css": testnet.Text(200, "secret", "Content-Type", "text/html", "Last-Modified", "Mon, 02 Jan 1995 15:04:05 GMT"),
			"/account/b.css": text("secret", "max-age=60"),
			"/account/c.css": text("secret", "no-store"),
			"/account/d.css": testnet.Text(200, "secret", "Content-Type", "image/png", "Cache-Control", "max-age=60"),
		} {
			s := newSite(t, Options{}, script)
			for n := range 2 {
				r := s.get(path, "Cookie", "sid=1")
				require.Equal(t, "DYNAMIC", r.header.Get("Weir-Cache-Status"), path)
				s.asked(n + 1)
			}
		}
	})
}
