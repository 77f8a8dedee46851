package middleware

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
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

// purge purges and checks that it's in effect.
func (s *site) purge(selectors ...purge.Selector) {
	s.t.Helper()
	res, err := s.mw.Purge(context.Background(), selectors...)
	require.NoError(s.t, err)
	require.Equal(s.t, len(selectors), res.Applied)
}

// begin sends a GET without waiting for its answer.
func (s *site) begin(target string, header ...string) <-chan string {
	done := make(chan string, 1)
	go func() {
		w := httptest.NewRecorder()
		s.h.ServeHTTP(w, request("GET", target, header...))
		done <- fmt.Sprint(w.Code, " ", w.Body.String())
	}()
	synctest.Wait()
	return done
}

// tagged are the options of a cache that reads tags.
func tagged() Options {
	return Options{Purge: PurgeOptions{TagFields: []purge.TagField{{Name: "Surrogate-Key"}}}}
}

// What a selector selects is asked of the origin again, and nothing else.
func TestPurgeBySelector(t *testing.T) {
	targets := []string{"/news/a?x=1", "/news/a?x=2", "/news/b", "/shop"}
	responses := map[string]*testnet.Script{
		"/news/a": public("old", "Surrogate-Key", "one two", "Cache-Groups", `"g"`),
		"/news/b": public("old", "Surrogate-Key", "two"),
		"/shop":   public("old", "Surrogate-Key", "twofold"),
	}
	key := func(s *site, target string) (k [32]byte) { return s.get(target).record.Cache.Key }
	for name, c := range map[string]struct {
		selector func(s *site) purge.Selector
		gone     []string
	}{
		"exact URL": {func(*site) purge.Selector {
			return purge.Selector{Kind: purge.ExactURL, Host: "example.com", Path: "/news/a", Query: "x=1"}
		}, targets[:1]},
		"URL": {func(*site) purge.Selector {
			return purge.Selector{Kind: purge.URL, Host: "example.com", Path: "/news/a"}
		}, targets[:2]},
		"prefix": {func(*site) purge.Selector {
			return purge.Selector{Kind: purge.Prefix, Host: "example.com", Path: "/news/"}
		}, targets[:3]},
		"tag":     {func(*site) purge.Selector { return purge.Selector{Kind: purge.Tag, Tag: "two"} }, targets[:3]},
		"one tag": {func(*site) purge.Selector { return purge.Selector{Kind: purge.Tag, Tag: "one"} }, targets[:2]},
		"host":    {func(*site) purge.Selector { return purge.Selector{Kind: purge.Host, Host: "EXAMPLE.com:80"} }, targets},
		"zone":    {func(*site) purge.Selector { return purge.Selector{Kind: purge.Zone} }, targets},
		"all":     {func(*site) purge.Selector { return purge.Selector{Kind: purge.Everything} }, targets},
		"group": {func(*site) purge.Selector {
			return purge.Selector{Kind: purge.Group, Origin: "http://example.com", Tag: "g"}
		}, targets[:2]},
		"key":      {func(s *site) purge.Selector { return purge.Selector{Kind: purge.Key, Key: key(s, "/news/b")} }, targets[2:3]},
		"other":    {func(*site) purge.Selector { return purge.Selector{Kind: purge.Host, Host: "example.org"} }, nil},
		"tag part": {func(*site) purge.Selector { return purge.Selector{Kind: purge.Tag, Tag: "tw"} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, tagged())
				for path, script := range responses {
					s.origin.Handle(path, script)
				}
				for _, target := range targets {
					r := s.get(target)
					r.is(t, missed("old", 60))
				}
				s.purge(c.selector(s))
				for path := range responses {
					s.origin.Handle(path, public("new"))
				}
				for i, target := range targets {
					r := s.get(target)
					if i < len(c.gone) && len(c.gone) > 1 || len(c.gone) == 1 && c.gone[0] == target {
						r.is(t, missed("new", 60))
						r = s.get(target)
						r.is(t, hit("new", 60, 0))
					} else {
						r.is(t, hit("old", 60, 0))
					}
				}
				require.EqualValues(t, len(c.gone), s.mw.Stats().PurgedLazily)
			})
		})
	}
}

// All variants go with their URL, whichever is asked for first afterwards.
func TestPurgeOfAURLTakesAllVariants(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("old", "Vary", "X-Kind"))
		s.get("/", "X-Kind", "1")
		s.get("/", "X-Kind", "2")
		s.purge(purge.Selector{Kind: purge.ExactURL, Host: "example.com", Path: "/"})
		s.answer(public("new", "Vary", "X-Kind"))
		for _, kind := range []string{"2", "1"} {
			r := s.get("/", "X-Kind", kind)
			require.Equal(t, "MISS new", r.header.Get("Weir-Cache-Status")+" "+r.body)
		}
		s.asked(2)
	})
}

// A soft purge makes a response stale at once: it's validated, or served while it's
// refreshed in the background where that is allowed.
func TestSoftPurge(t *testing.T) {
	soft := purge.Selector{Kind: purge.Zone, Soft: true}
	t.Run("validated", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newSite(t, Options{}, public("old", "Etag", `"1"`))
			s.get("/")
			s.purge(soft)
			s.answer(testnet.Text(304, "", "Etag", `"1"`, "Cache-Control", "public, max-age=60"))
			r := s.get("/")
			require.Equal(t, "REVALIDATED old", r.header.Get("Weir-Cache-Status")+" "+r.body)
			require.Equal(t, `"1"`, s.last().Header.Get("If-None-Match"))
			r = s.get("/")
			r.is(t, hit("old", 60, 0))
			s.asked(1)
		})
	})
	t.Run("while revalidating", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newSite(t, Options{}, text("old", "public, max-age=60, stale-while-revalidate=60"))
			s.get("/")
			s.purge(soft)
			gate := testnet.NewGate()
			next := public("new")
			next.Gate = gate
			s.answer(next)
			for range 2 {
				r := s.get("/")
				require.Equal(t, "STALE old", r.header.Get("Weir-Cache-Status")+" "+r.body)
			}
			gate.Open()
			synctest.Wait()
			r := s.get("/")
			r.is(t, hit("new", 60, 0))
			s.asked(1)
		})
	})
	t.Run("stands in", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			s := newSite(t, Options{}, text("old", "public, max-age=60, stale-if-error=60"))
			s.get("/")
			s.purge(soft)
			s.answer(testnet.Text(500, "broken"))
			r := s.get("/")
			require.Equal(t, "STALE-ERROR old", r.header.Get("Weir-Cache-Status")+" "+r.body)
		})
	})
}

// Many more purges than a list remembers: nothing purged comes back.
func TestOverflowOfPurgesBringsNothingBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := tagged()
		o.Purge.List.MaxTombstones = 16
		s := newSite(t, o)
		for i := range 40 {
			s.origin.Handle(fmt.Sprint("/", i), public("old", "Surrogate-Key", fmt.Sprint("k", i)))
			s.get(fmt.Sprint("/", i))
		}
		for i := range 40 {
			s.purge(purge.Selector{Kind: purge.Tag, Tag: fmt.Sprint("k", i)})
		}
		for i := range 40 {
			s.origin.Handle(fmt.Sprint("/", i), public("new"))
			r := s.get(fmt.Sprint("/", i))
			r.is(t, missed("new", 60))
		}
	})
}

// What isn't in the key isn't needed in a purge by URL either, in the API.
func TestPurgeAPISelectsAsKeyed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		spec := cachekey.Options{Query: cachekey.Exclude("utm_source")}
		s := newSite(t, Options{Default: Route{Key: spec}, Logger: quietLog()}, public("old"))
		s.get("/a?id=1&utm_source=x")
		api, err := s.mw.PurgeAPI(purge.BearerToken("secret"))
		require.NoError(t, err)
		call := func(token string) (int, map[string]any) {
			body := `{"purge": [{"kind": "exact-url", "url": "http://example.com/a?utm_source=y&id=1"}]}`
			r := httptest.NewRequest("POST", "/", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r)
			var got map[string]any
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
			return w.Code, got
		}
		s.answer(public("new"))
		code, _ := call("wrong")
		require.Equal(t, 401, code)
		r := s.get("/a?id=1")
		r.is(t, hit("old", 60, 0))
		code, got := call("secret")
		require.Equal(t, 200, code)
		require.EqualValues(t, 1, got["applied"])
		r = s.get("/a?id=1")
		r.is(t, missed("new", 60))
	})
}

// Whatever a key makes of a query, an exact purge of a URL reaches what is stored for
// that very URL, on every way a purge comes.
func TestExactPurgeReachesItsOwnURL(t *testing.T) {
	exclude := cachekey.Options{Query: cachekey.Exclude("utm_source")}
	include := cachekey.Options{Query: cachekey.Include("page"), KeepUnkeyedInputs: true}
	for _, c := range []struct {
		query string
		key   cachekey.Options
	}{
		{"%75tm_source=x", exclude}, {"b=%7e&a=1&%75tm_source=x", exclude}, {"a|b=1&utm_source=y", exclude},
		{"a|b=1", include}, {"filter{x}=1&page=2", include}, {"p%61ge=3&x=^", include}, {"page=%2f%7E", include},
		{"b=2&a=1&&", cachekey.Options{KeepQueryOrder: true}}, {"b=%zz;c", cachekey.Options{}}, {"x", cachekey.Options{Query: cachekey.None()}},
	} {
		for _, by := range []string{"PURGE", "JSON", "Go"} {
			bubble(t, func(t *testing.T) {
				anyone := func(*http.Request) (string, error) { return "me", nil }
				o := Options{Default: Route{Key: c.key}, Logger: quietLog(), Purge: PurgeOptions{Authorise: anyone}}
				s := newSite(t, o, public("old"))
				target := "/news?" + c.query
				if s.get(target); s.get(target).header.Get("Weir-Cache-Status") != "HIT" {
					t.Fatal(target, " is never a hit")
				}
				switch by {
				case "PURGE":
					require.Equal(t, 200, s.do("PURGE", target).status)
				case "JSON":
					api, err := s.mw.PurgeAPI(anyone)
					require.NoError(t, err)
					url, _ := json.Marshal("http://example.com" + target)
					r := httptest.NewRequest("POST", "/", strings.NewReader(`{"purge": [{"kind": "exact-url", "url": `+string(url)+`}]}`))
					r.Header.Set("Content-Type", "application/json")
					w := httptest.NewRecorder()
					api.ServeHTTP(w, r)
					require.Equal(t, 200, w.Code, w.Body)
				default:
					s.purge(purge.Selector{Kind: purge.ExactURL, Host: "example.com", Path: "/news", Query: c.query})
				}
				require.Equal(t, "MISS", s.get(target).header.Get("Weir-Cache-Status"), "%s by %s", c.query, by)
			})
		}
	}
}

// PURGE is the wrapped handler's affair unless somebody is authorised, and then
// it never reaches it.
func TestPurgeMethod(t *testing.T) {
	for name, c := range map[string]struct {
		authorise func(*http.Request) (string, error)
		peer      string
		status    int
		gone      bool
		asked     int
	}{
		"not configured": {nil, "10.0.0.1", 200, true, 1},
		"allowed":        {purge.FromPrefixes([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}), "10.0.0.1", 200, true, 0},
		"refused":        {purge.FromPrefixes([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}), "11.0.0.1", 403, false, 0},
		"nobody":         {purge.FromPrefixes(nil), "10.0.0.1", 403, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				o := tagged()
				o.Purge.Authorise, o.Logger = c.authorise, quietLog()
				s := newSite(t, o, public("old", "Surrogate-Key", "k"))
				s.get("/a")
				s.get("/b")
				s.answer(testnet.Text(200, "the origin's"))
				r := s.do("PURGE", "/a", "Peer", c.peer)
				require.Equal(t, c.status, r.status)
				require.Equal(t, c.status, r.record.StatusCode)
				s.asked(c.asked)
				s.answer(public("new"))
				r = s.get("/a")
				if c.gone {
					r.is(t, missed("new", 60))
				} else {
					r.is(t, hit("old", 60, 0))
				}
				r = s.get("/b")
				r.is(t, hit("old", 60, 0))
				if c.asked == 0 && c.gone {
					require.Equal(t, 200, s.do("PURGE", "/", "Peer", c.peer, "Surrogate-Key", "k").status)
					r = s.get("/b")
					r.is(t, missed("new", 60))
				}
			})
		})
	}
}

// Tags are kept from clients on every way a response takes, and still count.
func TestTagsAreStripped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := tagged()
		o.Purge.StripTagFields = true
		s := newSite(t, o, public("old", "Surrogate-Key", "k", "Etag", `"1"`))
		for _, r := range []reply{
			s.get("/"), s.get("/"), s.get("/", "If-None-Match", `"1"`), s.get("/", "Range", "bytes=0-0"),
			s.do("HEAD", "/"), s.do("POST", "/other"), s.get("/new", "Cache-Control", "no-store"),
		} {
			require.NotContains(t, r.header, "Surrogate-Key", r.header.Get("Weir-Cache-Status"))
		}
		s.purge(purge.Selector{Kind: purge.Tag, Tag: "k"})
		require.Equal(t, "MISS", s.get("/").header.Get("Weir-Cache-Status"))
	})
}

// Handlers that share a Middleware are zones of their own.
func TestPurgeOfAZoneLeavesOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("first"))
		other := s.mw.Wrap(testHandler("second"))
		get := func() string {
			w := httptest.NewRecorder()
			other.ServeHTTP(w, request("GET", "/"))
			return w.Header().Get("Weir-Cache-Status")
		}
		s.get("/")
		require.Equal(t, "MISS", get())
		s.purge(purge.Selector{Kind: purge.Zone, Zone: "2"})
		r := s.get("/")
		r.is(t, hit("first", 60, 0))
		require.Equal(t, "MISS", get())
	})
}

// A purge of a zone that no handler has would purge nothing: it's an error, and nothing
// of the call is purged. What is in all zones needs none.
func TestPurgeOfAnUnknownZoneIsRefused(t *testing.T) {
	mw, err := New(Options{Logger: quietLog()})
	require.NoError(t, err)
	defer mw.Close(context.Background())
	_, err = mw.Purge(context.Background(), purge.Selector{Kind: purge.Zone})
	require.EqualError(t, err, "purge: selector 0: zone: there is no such zone: no handler has been made yet")
	h := mw.WrapZone("shop", testHandler("page"))
	mw.WrapZone("blog", testHandler("page"))
	get := func() string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request("GET", "/"))
		return w.Header().Get("Weir-Cache-Status")
	}
	get()
	res, err := mw.Purge(context.Background(), purge.Selector{Kind: purge.Zone, Zone: "shop"},
		purge.Selector{Kind: purge.Tag, Tag: "news"}, purge.Selector{Kind: purge.Host, Host: "example.com", Zone: "Shop"})
	require.Equal(t, purge.Result{}, res)
	require.EqualError(t, err, `purge: selector 1: zone: there is no such zone: use one of "blog", "shop"`+"\n"+
		`purge: selector 2: zone: there is no such zone: use one of "blog", "shop"`)
	var wrong *purge.SelectorError
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "HIT", get())
	_, err = mw.Purge(context.Background(), purge.Selector{Kind: purge.Everything})
	require.NoError(t, err)
	require.Equal(t, "MISS", get())
	for i := range 30 {
		mw.WrapZone(fmt.Sprint("many", i), testHandler("page"))
	}
	_, err = mw.Purge(context.Background(), purge.Selector{Kind: purge.Zone})
	require.ErrorContains(t, err, `"many25", ...`)
}

// Tags that came in a field that isn't stored count on after a 304, beside groups and
// tags in fields that are.
func TestTagsCountAfterAConfirmation(t *testing.T) {
	for _, kept := range [][2]string{{"Cache-Groups", `"g"`}, {"Cache-Tag", "other"}, {"X-Nothing", "x"}} {
		bubble(t, func(t *testing.T) {
			o := Options{Purge: PurgeOptions{TagFields: []purge.TagField{{Name: "Surrogate-Key"}, {Name: "Cache-Tag"}}}}
			s := newSite(t, o, text("old", `public, max-age=1, no-cache="Surrogate-Key"`, "Etag", `"1"`, "Surrogate-Key", "news", kept[0], kept[1]))
			s.get("/")
			time.Sleep(2 * time.Second)
			s.answer(testnet.Text(304, "", "Etag", `"1"`, "Cache-Control", "public, max-age=60"))
			require.Equal(t, "REVALIDATED", s.get("/").header.Get("Weir-Cache-Status"))
			r := s.get("/")
			r.is(t, hit("old", 60, 0))
			s.purge(purge.Selector{Kind: purge.Tag, Tag: "news"})
			s.answer(public("new"))
			require.Equal(t, "MISS", s.get("/").header.Get("Weir-Cache-Status"), kept[0])
		})
	}
}

func testHandler(body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		goodFor60(w.Header())
		_, _ = w.Write([]byte(body))
	})
}

// All that is wrong with the options is told at once, purging included.
func TestPurgeConfigErrorsComeWithTheOthers(t *testing.T) {
	_, err := New(Options{
		Name: "\n", Store: store.Options{MemoryBytes: 1},
		Purge: PurgeOptions{List: purge.Options{MaxTombstones: -1}, TagFields: []purge.TagField{{Name: "a b"}}},
	})
	for _, field := range []string{"Name", "MemoryBytes", "MaxTombstones", "TagFields[0]"} {
		require.ErrorContains(t, err, field)
	}
	var bad *purge.ConfigError
	require.True(t, errors.As(err, &bad))
}

// A hit costs the same allocations with 4,096 purges remembered.
func TestHitAllocatesOnceBesideManyPurges(t *testing.T) {
	h, r, w := hitFixture(t, 1024, false)
	for i := range 4096 {
		_, err := h.(*handler).Purge(context.Background(), purge.Selector{Kind: purge.Tag, Tag: fmt.Sprint("k", i)})
		require.NoError(t, err)
	}
	testnet.Allocs(t, 1, func() { h.ServeHTTP(w, r) })
}
