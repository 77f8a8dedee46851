package middleware

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
)

// searching are the options of a cache that obeys No-Vary-Search.
func searching() Options {
	o := tagged()
	o.Default.NoVarySearch = true
	return o
}

// says answers with the request's query, and with a No-Vary-Search field.
func says(field string, header ...string) *testnet.Script {
	return &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "public, max-age=60")
		h.Set("Content-Type", "text/html")
		if field != "" {
			h.Set("No-Vary-Search", field)
		}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		fmt.Fprintf(w, "for %q", r.URL.RawQuery)
	}}
}

// ignored is the reply from the store to a query that wasn't stored itself.
func ignored(body string, ttl, age int) want {
	w := hit(body, ttl, age)
	w.reason = "No-Vary-Search lets the stored response for another query answer"
	return w
}

const utm = `params=("utm")`

// A request is answered by the response to another query exactly if the response's
// own field says that the difference doesn't matter. The origin always gets the
// client's own query.
func TestNoVarySearch(t *testing.T) {
	for _, c := range []struct {
		field, stored, asked string
		same                 bool
	}{
		{utm, "?id=1&utm=a", "?id=1&utm=b", true},
		{utm, "?id=1&utm=a", "?id=1", true},
		{utm, "?id=1", "?utm=a&id=1", true},
		{utm, "", "?utm=a", true},
		{utm, "?utm=a", "", true},
		{utm, "?", "?utm", true},
		{utm, "?id=1", "?id=2", false},
		{utm, "?id=1", "?id=2&utm", false},
		{utm, "?id=1", "?id=1&x&utm", false},
		{utm, "?id=1&utm", "", false},
		{utm, "?a=1&b=2", "?b=2&a=1&utm", false},
		{utm, "?id=%31", "?id=1&%75tm", true},
		{utm, "?id=a+b", "?id=a%20b&utm", true},
		{utm, "?id=a+b", "?id=a%2Bb&utm", false},
		{utm, "?id=1&id=2", "?id=1&utm&id=2", true},
		{utm, "?id=1&id=2", "?id=2&utm&id=1", false},
		{utm, "?id=1", "?id=1&utm=;x=2", false},
		{utm, "?utm=;x=2", "", false},
		{utm, "?id=1", "?id=1&utm=%zz", false},
		{`key-order, ` + utm, "?a=1&b=2", "?b=2&a=1&utm", true},
		{`key-order`, "?a=1&a=2&b=3", "?b=3&a=1&a=2", true},
		{`key-order`, "?a=1&a=2&b=3", "?b=3&a=2&a=1", false},
		{`params`, "?id=1", "?x=2", true},
		{`params, except=("id")`, "?id=1", "?x=2&id=1", true},
		{`params, except=("id")`, "?id=1", "?x=2&id=2", false},
		{`params=("utm" "%C3%A9+x")`, "?id=1", "?id=1&%c3%a9%20x=2", true},
		{`unknown, params`, "?id=1", "", true},
		{"", "?id=1&utm=a", "?id=1", false},
		{`params=?0`, "?id=1", "?id=1&utm", false},
		{`params=("utm"`, "?id=1", "?id=1&utm", false},
		{`params=(utm)`, "?id=1", "?id=1&utm", false},
		{`params="utm"`, "?id=1", "?id=1&utm", false},
		{`params=("utm"), except=("id")`, "?id=1", "?id=1&utm", false},
		{`except=("id")`, "?id=1", "?id=1&utm", false},
		{`key-order=1, params`, "?id=1", "?id=1&utm", false},
	} {
		t.Run(c.field+" "+c.stored+" "+c.asked, func(t *testing.T) {
			for _, on := range []bool{true, false} {
				bubble(t, func(t *testing.T) {
					s := newSite(t, Options{Default: Route{NoVarySearch: on}}, says(c.field))
					body := func(query string) string { return fmt.Sprintf("for %q", strings.TrimPrefix(query, "?")) }
					r := s.get("/a" + c.stored)
					r.is(t, missed(body(c.stored), 60))
					after(time.Second)
					r = s.get("/a" + c.asked)
					if on && c.same {
						r.is(t, ignored(body(c.stored), 59, 1))
						r = s.get("/a" + c.asked)
						r.is(t, ignored(body(c.stored), 59, 1))
						s.asked(1)
						return
					}
					r.is(t, missed(body(c.asked), 60))
					require.Equal(t, strings.TrimPrefix(c.asked, "?"), s.last().URL.RawQuery)
					r = s.get("/a" + c.asked)
					r.is(t, hit(body(c.asked), 60, 0))
					r = s.get("/a" + c.stored)
					r.is(t, hit(body(c.stored), 59, 1))
					s.asked(2)
					if !on {
						require.EqualValues(t, 2, s.mw.Stats().Memory.Objects, "nothing else is kept")
					}
				})
			}
		})
	}
}

// Nothing but the query may differ: not the path, the host, the scheme, the handler,
// or a keyed field.
func TestNoVarySearchKeepsTargetsApart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := searching()
		o.Default.Key.Headers = []string{"X-Kind"}
		s := newSite(t, o, says("params"))
		s.get("/a?1")
		for i, ask := range []func() reply{
			func() reply { return s.get("/b?2") },
			func() reply { return s.get("/a/?2") },
			func() reply { return s.get("/A?2") },
			func() reply { return s.get("/a?2", "Host", "example.org") },
			func() reply { return s.get("https://example.com/a?2") },
			func() reply { return s.get("/a?2", "X-Kind", "1") },
			func() reply { s.h = s.mw.Wrap(s.origin); return s.get("/a?2") },
		} {
			r := ask()
			r.is(t, missed(`for "2"`, 60))
			s.asked(i + 2)
		}
	})
}

// What the key leaves out doesn't reach the origin, and isn't compared.
func TestNoVarySearchAndReducedKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := searching()
		o.Default.Key.Query = cachekey.Exclude("fbclid")
		s := newSite(t, o, says(utm))
		s.get("/?fbclid=1&id=1&utm=1")
		require.Equal(t, "id=1&utm=1", s.last().URL.RawQuery)
		r := s.get("/?id=1&fbclid=2")
		r.is(t, ignored(`for "id=1&utm=1"`, 60, 0))
	})
}

// A response under the request's own key goes first, also in the memory of keys.
func TestNoVarySearchIsTheSecondChoice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, searching(), says(utm))
		s.get("/?utm=1")
		for range 3 {
			r := s.get("/?utm=2") // the key is remembered
			r.is(t, ignored(`for "utm=1"`, 60, 0))
		}
		own, _ := cachekey.Default().Primary(&cachekey.Input{Request: request("GET", "/?utm=2")})
		require.EqualValues(t, own, s.get("/?utm=2").record.Cache.Key)
		s.purge(purge.Selector{Kind: purge.ExactURL, Host: "example.com", Path: "/", Query: "utm=2"})
		r := s.get("/?utm=2")
		r.is(t, missed(`for "utm=2"`, 60))
		r = s.get("/?utm=2")
		r.is(t, hit(`for "utm=2"`, 60, 0))
		r = s.get("/?utm=1")
		r.is(t, hit(`for "utm=1"`, 60, 0))
		r = s.get("/?utm=3")
		r.is(t, ignored(`for "utm=2"`, 60, 0)) // the newest
	})
}

// A stale response to another query is nothing: the request fetches under its own
// key, and what comes takes the other's place. A response that the origin confirmed
// is the newest again.
func TestNoVarySearchAndStaleness(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, searching(), text("one", "public, max-age=10, stale-while-revalidate=60, stale-if-error=60", "No-Vary-Search", utm, "Etag", `"1"`))
		s.get("/?utm=1")
		after(11 * time.Second)
		s.answer(says(utm, "Etag", `"2"`))
		r := s.get("/?utm=2")
		r.is(t, missed(`for "utm=2"`, 60))
		require.Empty(t, s.last().Header.Get("If-None-Match"))
		r = s.get("/?utm=3")
		r.is(t, ignored(`for "utm=2"`, 60, 0))
		after(61 * time.Second)
		s.answer(testnet.Text(304, "", "Etag", `"2"`, "Cache-Control", "public, max-age=30", "No-Vary-Search", utm))
		r = s.get("/?utm=2")
		require.Equal(t, `REVALIDATED for "utm=2"`, r.header.Get("Weir-Cache-Status")+" "+r.body)
		require.Equal(t, `"2"`, s.last().Header.Get("If-None-Match"))
		after(2 * time.Second)
		r = s.get("/?utm=3")
		r.is(t, ignored(`for "utm=2"`, 28, 2))
		s.asked(1)
	})
}

// A client that takes stale responses gets one for another query too.
func TestNoVarySearchAndMaxStale(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, searching(), says(utm))
		s.get("/?utm=1")
		after(70 * time.Second)
		r := s.get("/?utm=2", "Cache-Control", "max-stale=20")
		require.Equal(t, `STALE for "utm=1"`, r.header.Get("Weir-Cache-Status")+" "+r.body)
		require.EqualValues(t, whySearch, r.record.Cache.Reason)
		r = s.get("/?utm=2", "Cache-Control", "max-stale=5")
		r.is(t, missed(`for "utm=2"`, 60))
	})
}

// A client's own wishes count as for any stored response.
func TestNoVarySearchAndRequestDirectives(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, searching(), says(utm))
		r := s.get("/?utm=2", "Cache-Control", "only-if-cached")
		require.Equal(t, 504, r.status)
		s.get("/?utm=1")
		r = s.get("/?utm=2", "Cache-Control", "only-if-cached")
		r.is(t, ignored(`for "utm=1"`, 60, 0))
		r = s.do("HEAD", "/?utm=2")
		require.Equal(t, "HIT", r.header.Get("Weir-Cache-Status"))
		r = s.get("/?utm=2", "Range", "bytes=0-2")
		require.Equal(t, "206 for", fmt.Sprint(r.status, " ", r.body))
		s.asked(1)
		r = s.get("/?utm=2", "Cache-Control", "no-store")
		require.Equal(t, `BYPASS for "utm=2"`, r.header.Get("Weir-Cache-Status")+" "+r.body)
		r = s.get("/?utm=2", "Cache-Control", "no-cache")
		r.is(t, missed(`for "utm=2"`, 60))
	})
}

// A request with cookies is given what is marked as shared, and nothing else.
func TestNoVarySearchAndCookies(t *testing.T) {
	for control, shared := range map[string]bool{"public, max-age=60": true, "max-age=60": false} {
		bubble(t, func(t *testing.T) {
			s := newSite(t, searching(), says(utm, "Cache-Control", control))
			s.get("/?utm=1")
			r := s.get("/?utm=2", "Cookie", "session=1")
			if shared {
				r.is(t, ignored(`for "utm=1"`, 60, 0))
			} else {
				require.Equal(t, `for "utm=2"`, r.body)
				s.asked(2)
			}
		})
	}
}

// Of a response that varies, the variant that the request selects answers it.
func TestNoVarySearchAndVary(t *testing.T) {
	bubble(t, func(t *testing.T) {
		varying := &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("No-Vary-Search", utm)
			w.Header().Set("Vary", "X-Kind")
			w.Header().Set("Cache-Control", "public, max-age=60")
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, "%s %q", r.URL.RawQuery, r.Header["X-Kind"])
		}}
		s := newSite(t, searching(), varying)
		r := s.get("/?utm=1", "X-Kind", "a")
		r.is(t, missed(`utm=1 ["a"]`, 60))
		r = s.get("/?utm=2", "X-Kind", "b")
		r.is(t, missed(`utm=2 ["b"]`, 60))
		r = s.get("/?utm=3", "X-Kind", "a")
		r.is(t, ignored(`utm=1 ["a"]`, 60, 0))
		r = s.get("/?utm=3", "X-Kind", "b")
		r.is(t, ignored(`utm=2 ["b"]`, 60, 0))
		r = s.get("/?utm=1", "X-Kind", "b") // another variant is stored there
		r.is(t, ignored(`utm=2 ["b"]`, 60, 0))
		r = s.get("/?utm=3", "X-Kind", "c")
		r.is(t, missed(`utm=3 ["c"]`, 60))
		r = s.get("/?utm=4")
		r.is(t, missed(`utm=4 []`, 60))
		// One that doesn't vary any more is for all, and ends the others.
		s.answer(says(utm))
		s.get("/?utm=5", "X-Kind", "d")
		for _, kind := range []string{"a", "b", "c", "d", "e"} {
			r = s.get("/?utm=6", "X-Kind", kind)
			r.is(t, ignored(`for "utm=5"`, 60, 0))
		}
	})
}

// An answer to HEAD that freshens the stored response does so for other queries, and
// the stored response to a POST is one like any other.
func TestNoVarySearchOfResponsesToOtherMethods(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, searching(), says(utm, "Etag", `"1"`))
		s.get("/?utm=1")
		after(50 * time.Second)
		s.answer(says(utm, "Etag", `"1"`))
		s.do("HEAD", "/?utm=1", "Cache-Control", "no-cache")
		after(20 * time.Second)
		r := s.get("/?utm=2")
		r.is(t, ignored(`for "utm=1"`, 40, 20))
	})
	bubble(t, func(t *testing.T) {
		o := searching()
		o.Default.StorePost = true
		s := newSite(t, o, public("old"), public("posted", "No-Vary-Search", utm, "Content-Location", "/?utm=1"), public("new"))
		s.get("/?utm=1")
		s.do("POST", "/?utm=1")
		r := s.get("/?utm=1")
		r.is(t, hit("posted", 60, 0))
		r = s.get("/?utm=2")
		r.is(t, ignored("posted", 60, 0))
		s.purge(purge.Selector{Kind: purge.ExactURL, Host: "example.com", Path: "/", Query: "utm=1"})
		r = s.get("/?utm=2")
		r.is(t, missed("new", 60))
	})
}

// A response that isn't stored is found by nobody, and one that was evicted, or
// whose record was, is a miss.
func TestNoVarySearchOfWhatIsNotStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, searching(), says(utm, "Cache-Control", "no-store"))
		for _, query := range []string{"utm=1", "utm=2"} {
			r := s.get("/?" + query)
			w := dynamic(fmt.Sprintf("for %q", query), "the response says no-store")
			w.notStored, w.reason = r.record.Cache.NotStored, r.record.Cache.Reason
			r.is(t, w)
		}
		s.answer(says(utm))
		stored := s.get("/?utm=1").record.Cache.Key
		base, _ := cachekey.Default().SearchBase(&cachekey.Input{Request: request("GET", "/")})
		s.mw.store.Delete(store.Key(base))
		r := s.get("/?utm=2")
		r.is(t, missed(`for "utm=2"`, 60))
		s.mw.store.Delete(store.Key(r.record.Cache.Key))
		r = s.get("/?utm=3")
		r.is(t, missed(`for "utm=3"`, 60))
		require.NotEqual(t, cachekey.Key{}, stored)
	})
}

// Requests for the same response at the same time, by different queries, each fetch
// under their own key; none is given what isn't for it.
func TestNoVarySearchCollapsesByOwnKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := testnet.NewGate()
		slow := says(utm)
		slow.Gate = gate
		s := newSite(t, searching(), slow)
		one, two, again := s.begin("/?utm=1"), s.begin("/?utm=2"), s.begin("/?utm=1")
		gate.Open()
		require.Equal(t, `200 for "utm=1"`, <-one)
		require.Equal(t, `200 for "utm=2"`, <-two)
		require.Equal(t, `200 for "utm=1"`, <-again)
		s.asked(2)
		synctest.Wait()
	})
}

// An origin, or whoever can make it, that sends another rule with each response
// fills neither the memory nor the time of a lookup.
func TestNoVarySearchOfAHostileOriginIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := 0
		o := searching()
		o.Store.MemoryBytes = 1 << 20
		s := newSite(t, o, &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) {
			n++
			var names []string
			for i := range cachekey.MaxSearchNames {
				names = append(names, fmt.Sprintf(`"%d-%d-%s"`, n, i, strings.Repeat("x", 40)))
			}
			w.Header().Set("No-Vary-Search", "params=("+strings.Join(names, " ")+")")
			w.Header().Set("Cache-Control", "public, max-age=60")
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, n)
		}})
		for i := range 3000 {
			r := s.get(fmt.Sprintf("/?q=%d", i))
			r.is(t, missed(fmt.Sprint(i+1), 60))
		}
		base, _ := cachekey.Default().SearchBase(&cachekey.Input{Request: request("GET", "/")})
		require.LessOrEqual(t, len(s.mw.rulesOf(base)), maxSearchRules)
		stats := s.mw.Stats()
		require.LessOrEqual(t, stats.Memory.Bytes, stats.Memory.MaxBytes)
	})
	bubble(t, func(t *testing.T) {
		s := newSite(t, searching())
		base, _ := cachekey.Default().SearchBase(&cachekey.Input{Request: request("GET", "/")})
		var newest []cachekey.Search
		for i := range 10 {
			field := fmt.Sprintf(`params=("%d")`, i)
			s.answer(says(field))
			s.get(fmt.Sprintf("/?q=%d", i))
			newest = append([]cachekey.Search{cachekey.ParseSearch([]string{field})}, newest...)
		}
		require.Equal(t, newest[:maxSearchRules], s.mw.rulesOf(base))
		r := s.get("/?q=9&9=1")
		r.is(t, ignored(`for "q=9"`, 60, 0))
		r = s.get("/?q=6&6=1")
		r.is(t, ignored(`for "q=6"`, 60, 0))
		r = s.get("/?q=5&5=1")
		r.is(t, missed(`for "q=5&5=1"`, 60)) // its rule fell out
	})
}

// The option costs a hit under the request's own key nothing.
func TestNoVarySearchHitAllocatesOnce(t *testing.T) {
	h, r, w := hitFixtureWith(t, Options{Default: Route{NoVarySearch: true}}, 1024, true, "No-Vary-Search", utm)
	testnet.Allocs(t, 1, func() { h.ServeHTTP(w, r) })
}
