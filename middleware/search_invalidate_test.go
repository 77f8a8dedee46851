package middleware

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/purge"
)

// What purges the stored response ends its use for other queries, and so does what
// would purge the response to the query asked for. Other purges don't.
func TestNoVarySearchAndPurges(t *testing.T) {
	exact := func(query string) purge.Selector {
		return purge.Selector{Kind: purge.ExactURL, Host: "example.com", Path: "/a", Query: query}
	}
	key := func(target string) purge.Selector {
		k, _ := cachekey.Default().Primary(&cachekey.Input{Request: request("GET", target)})
		return purge.Selector{Kind: purge.Key, Key: k}
	}
	for name, c := range map[string]struct {
		selector purge.Selector
		gone     bool
	}{
		"stored URL":    {exact("id=1&utm=1"), true},
		"asked URL":     {exact("id=1&utm=2"), true},
		"stored key":    {key("/a?id=1&utm=1"), true},
		"asked key":     {key("/a?id=1&utm=2"), true},
		"all queries":   {purge.Selector{Kind: purge.URL, Host: "example.com", Path: "/a"}, true},
		"prefix":        {purge.Selector{Kind: purge.Prefix, Host: "example.com", Path: "/"}, true},
		"host":          {purge.Selector{Kind: purge.Host, Host: "example.com"}, true},
		"zone":          {purge.Selector{Kind: purge.Zone}, true},
		"tag":           {purge.Selector{Kind: purge.Tag, Tag: "t"}, true},
		"another tag":   {purge.Selector{Kind: purge.Tag, Tag: "u"}, false},
		"another query": {exact("id=1&utm=3"), false},
		"another path":  {purge.Selector{Kind: purge.URL, Host: "example.com", Path: "/b"}, false},
	} {
		for _, soft := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", soft), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					s := newSite(t, searching(), says(utm, "Surrogate-Key", "t"))
					s.get("/a?id=1&utm=1")
					r := s.get("/a?id=1&utm=2")
					r.is(t, ignored(`for "id=1&utm=1"`, 60, 0))
					c.selector.Soft = soft
					s.purge(c.selector)
					r = s.get("/a?id=1&utm=2")
					if !c.gone {
						r.is(t, ignored(`for "id=1&utm=1"`, 60, 0))
						return
					}
					r.is(t, missed(`for "id=1&utm=2"`, 60))
					r = s.get("/a?id=1&utm=2")
					r.is(t, hit(`for "id=1&utm=2"`, 60, 0))
					r = s.get("/a?id=1&utm=4")
					r.is(t, ignored(`for "id=1&utm=2"`, 60, 0)) // fetched after the purge
				})
			})
		}
	}
}

// An unsafe request that succeeds invalidates what answers its URL, wherever that
// is stored; what its response names; and what is the same by the rule.
func TestNoVarySearchAndUnsafeRequests(t *testing.T) {
	for name, c := range map[string]struct {
		method, target string
		status         int
		header         []string
		gone           bool
	}{
		"stored URL":       {"POST", "/a?id=1&utm=1", 200, nil, true},
		"asked URL":        {"POST", "/a?id=1&utm=2", 200, nil, true},
		"the same":         {"DELETE", "/a?id=1", 204, nil, true},
		"location":         {"POST", "/", 201, []string{"Location", "/a?id=1&utm=2"}, true},
		"content location": {"PUT", "/", 200, []string{"Content-Location", "/a?id=1"}, true},
		"it failed":        {"POST", "/a?id=1&utm=2", 500, nil, false},
		"safe":             {"OPTIONS", "/a?id=1&utm=2", 200, nil, false},
		"another":          {"POST", "/a?id=2&utm=2", 200, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, searching(), says(utm))
				s.get("/a?id=1&utm=1")
				r := s.get("/a?id=1&utm=2")
				r.is(t, ignored(`for "id=1&utm=1"`, 60, 0))
				s.answer(testnet.Text(c.status, "", c.header...))
				require.Equal(t, c.status, s.do(c.method, c.target).status)
				s.answer(says(utm))
				r = s.get("/a?id=1&utm=2")
				if c.gone {
					r.is(t, missed(`for "id=1&utm=2"`, 60))
				} else {
					r.is(t, ignored(`for "id=1&utm=1"`, 60, 0))
				}
			})
		})
	}
}

// A response that was asked for before an unsafe request, or a purge, and comes
// after it, doesn't answer that request's URL.
func TestNoVarySearchAndAFetchBeforeAnUnsafeRequest(t *testing.T) {
	for name, change := range map[string]func(s *site){
		"unsafe": func(s *site) { s.do("POST", "/a?utm=2") },
		"purge": func(s *site) {
			s.purge(purge.Selector{Kind: purge.ExactURL, Host: "example.com", Path: "/a", Query: "utm=2"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				gate := testnet.NewGate()
				slow := public("old", "No-Vary-Search", utm)
				slow.Gate = gate
				s := newSite(t, searching(), slow)
				done := s.begin("/a?utm=1")
				s.answer(says(utm))
				change(s)
				gate.Open()
				require.Equal(t, "200 old", <-done)
				synctest.Wait()
				r := s.get("/a?utm=1")
				r.is(t, hit("old", 60, 0))
				r = s.get("/a?utm=3")
				r.is(t, ignored("old", 60, 0))
				r = s.get("/a?utm=2")
				r.is(t, missed(`for "utm=2"`, 60))
			})
		})
	}
}

// What removes or replaces the response under its own key does so for other
// queries: an answer to HEAD that contradicts it, a newer response without the
// field, a newer one with another.
func TestNoVarySearchFollowsTheStoredResponse(t *testing.T) {
	for name, change := range map[string]func(s *site){
		"HEAD": func(s *site) {
			s.answer(testnet.Text(200, "", "Etag", `"2"`, "Content-Length", "3"))
			s.do("HEAD", "/?utm=1", "Cache-Control", "no-cache")
		},
		"no field": func(s *site) {
			s.answer(public("new"))
			s.get("/?utm=1", "Cache-Control", "no-cache")
		},
		"another field": func(s *site) {
			s.answer(public("new", "No-Vary-Search", `params=("x")`))
			s.get("/?utm=1", "Cache-Control", "no-cache")
		},
		"malformed": func(s *site) {
			s.answer(public("new", "No-Vary-Search", `params=("utm`))
			s.get("/?utm=1", "Cache-Control", "no-cache")
		},
		"304 without": func(s *site) {
			s.answer(testnet.Text(304, "", "Etag", `"1"`, "No-Vary-Search", "params=?0", "Cache-Control", "public, max-age=60"))
			s.get("/?utm=1", "Cache-Control", "no-cache")
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, searching(), says(utm, "Etag", `"1"`, "Cache-Control", "public, max-age=90"))
				s.get("/?utm=1")
				r := s.get("/?utm=2")
				r.is(t, ignored(`for "utm=1"`, 90, 0))
				change(s)
				s.answer(says(utm))
				r = s.get("/?utm=2")
				r.is(t, missed(`for "utm=2"`, 60))
			})
		})
	}
}
