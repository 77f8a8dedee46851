package middleware

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/purge"
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

// However many URLs a visitor's unsafe requests invalidate, nothing else in the zone
// suffers. (That it is a hit is certain only with few URLs; the probability of
// losing a page to 5,000 is less than 10^-12, and package purge tests many more.)
func TestUnsafeRequestsForManyURLsCostNothingElse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := Options{Default: Route{Key: cachekey.Options{Headers: []string{"X-Device"}}}}
		s := newSite(t, o, public("page"))
		s.get("/hot", "X-Device", "phone")
		s.get("/posted?n=4999", "X-Device", "phone")
		for i := range 5000 {
			s.do("POST", fmt.Sprintf("/posted?n=%d", i))
		}
		r := s.get("/hot", "X-Device", "phone")
		require.Equal(t, "HIT", r.header.Get("Weir-Cache-Status"))
		r = s.get("/posted?n=4999", "X-Device", "phone")
		require.Equal(t, "MISS", r.header.Get("Weir-Cache-Status"))
		st := s.mw.purges.list.Stats()
		require.Equal(t, []int{0, 5000}, []int{st.Tombstones, st.Targets})
	})
}

// However many groups the answers to visitors' unsafe requests name, the operator's
// purges stay one by one, and nothing else in the zone suffers.
func TestGroupsOfManyUnsafeRequestsCostNothingElse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const orders = purge.DefaultMaxTombstones + 500
		o := tagged()
		s := newSite(t, o)
		s.origin.Handle("/hot", public("hot", "Cache-Groups", `"hot"`))
		s.origin.Handle("/item", public("item", "Cache-Groups", `"item 7"`))
		s.purge(purge.Selector{Kind: purge.Tag, Tag: "operator's"})
		s.get("/hot")
		s.get("/item")
		for i := range orders {
			s.origin.Handle("/order", testnet.Text(201, "", "Cache-Group-Invalidation", fmt.Sprintf(`"item %d"`, i)))
			s.do("POST", "/order")
		}
		r := s.get("/hot")
		require.Equal(t, "HIT", r.header.Get("Weir-Cache-Status"))
		r = s.get("/item")
		require.Equal(t, "MISS", r.header.Get("Weir-Cache-Status"))
		st := s.mw.purges.list.Stats()
		require.Equal(t, []int{1, 0, orders + 1}, []int{st.Tombstones, int(st.Folded), st.Groups})
	})
}
