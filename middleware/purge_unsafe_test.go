package middleware

import (
	"strings"
	"testing"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/internal/testnet"
)

// The groups that an unsafe request's response names are invalid, those of another
// origin aren't (RFC 9875 §3).
func TestGroupInvalidation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("old", "Cache-Groups", `"a", "b"`))
		s.get("/1")
		s.get("/1", "Host", "example.org")
		s.answer(testnet.Text(200, "", "Cache-Group-Invalidation", `"b"`), public("new"))
		s.do("POST", "/elsewhere")
		r := s.get("/1", "Host", "example.org")
		r.is(t, hit("old", 60, 0))
		r = s.get("/1")
		r.is(t, missed("new", 60))
	})
}

// An unsafe request invalidates what is stored for its URL under keys that have
// more in them than the URL, and it may have come with other values of it.
func TestUnsafeMethodsInvalidateAllOfAURLsKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		spec := cachekey.Options{Headers: []string{"X-Device"}}
		s := newSite(t, Options{Default: Route{Key: spec}}, public("old"))
		long := "/" + strings.Repeat("p", 9000)
		for _, target := range []string{"/a?b=1", "/a?b=2", long} {
			s.get(target, "X-Device", "phone")
			s.get(target, "X-Device", "desktop")
		}
		s.answer(testnet.Text(200, ""), testnet.Text(200, ""), public("new"))
		s.do("POST", "/a?b=1", "X-Device", "robot")
		s.do("POST", long)
		for _, device := range []string{"phone", "desktop"} {
			r := s.get("/a?b=1", "X-Device", device)
			r.is(t, missed("new", 60))
			r = s.get(long, "X-Device", device)
			r.is(t, missed("new", 60))
			r = s.get("/a?b=2", "X-Device", device)
			r.is(t, hit("old", 60, 0))
		}
	})
}
