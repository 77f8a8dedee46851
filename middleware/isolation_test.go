package middleware

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/internal/testnet"
)

// Two handlers are mounted behind prefix strippers and see the same paths. Each
// has its own space, also for invalidation.
func TestTwoWrapsDoNotShare(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("file xx"))
		other := testnet.NewOrigin()
		other.Handle(testnet.AnyPath, public("file yy"))
		one, two := http.StripPrefix("/c1", s.h), http.StripPrefix("/c2", s.mw.Wrap(other))
		s.h = one
		r := s.get("/c1/file.png")
		r.is(t, missed("file xx", 60))
		s.h = two
		r = s.get("/c2/file.png")
		r.is(t, missed("file yy", 60))
		s.h = one
		r = s.get("/c1/file.png")
		r.is(t, hit("file xx", 60, 0))
		s.h = two
		s.do("DELETE", "/c2/file.png")
		s.h = one
		r = s.get("/c1/file.png")
		r.is(t, hit("file xx", 60, 0))
	})
}

// What the key leaves out isn't sent to the origin, so that it can't shape what
// others get, and the record names it. The visitor's own request stays as it is.
func TestKeyReduction(t *testing.T) {
	route := Route{Key: cachekey.Options{
		Query: cachekey.Exclude("utm_source", "gclid"), Cookies: []string{"lang"}, DropOtherCookies: true,
	}}
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{Default: route}, text("page", "max-age=60"))
		sent := request("GET", "/a?utm_source=evil&b=1&gclid=2&utm_source=x", "Cookie", "fehost=evil; lang=de", "Cookie", "sid=1")
		r := s.send(recorder(), sent)
		r.is(t, missed("page", 60))
		require.Equal(t, []string{"query utm_source", "query gclid", "cookie fehost", "cookie sid"}, r.record.Cache.Dropped)
		require.Equal(t, "b=1", s.last().URL.RawQuery)
		require.Equal(t, []string{"lang=de"}, s.last().Header["Cookie"])
		require.Equal(t, "utm_source=evil&b=1&gclid=2&utm_source=x", sent.URL.RawQuery)
		require.Equal(t, []string{"fehost=evil; lang=de", "sid=1"}, sent.Header["Cookie"])
		r = s.get("/a?b=1&gclid=other", "Cookie", "lang=de")
		r.is(t, hit("page", 60, 0))
		require.Empty(t, r.record.Cache.Dropped)
	})
}

// A request past the cache goes out whole, and so does one that fills it where
// the route wants that.
func TestNoReduction(t *testing.T) {
	for _, keep := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			s := newSite(t, Options{Default: Route{Key: cachekey.Options{Query: cachekey.Exclude("x"), KeepUnkeyedInputs: keep}}}, public("page"))
			method := "GET"
			if !keep {
				method = "POST"
			}
			r := s.do(method, "/?x=1&y=2")
			require.Equal(t, "x=1&y=2", s.last().URL.RawQuery)
			require.Empty(t, r.record.Cache.Dropped)
		})
	}
}

// Some frameworks take ";" for a separator. A parameter hidden behind an excluded
// one, as in utm_content=x;callback=evil, doesn't shape what others get: such a
// pair isn't taken for the excluded one and stays in the key.
func TestParameterHiddenInAnExcludedOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{Default: Route{Key: cachekey.Options{Query: cachekey.Exclude("utm_content")}}}, public("page"))
		s.get("/js?callback=ok&utm_content=x;callback=evil")
		r := s.get("/js?callback=ok")
		r.is(t, missed("page", 60))
		r = s.get("/js?callback=ok&utm_content=x")
		r.is(t, hit("page", 60, 0))
	})
}

// With the key reduced for a POST, its response isn't stored for GETs: it could
// depend on what the key leaves out.
func TestPostWithUnkeyedInputIsNotStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		route := Route{StorePost: true, Key: cachekey.Options{Query: cachekey.Exclude("x")}}
		s := newSite(t, Options{Default: route}, public("posted", "Content-Location", "/?x=1"), public("got"))
		r := s.do("POST", "/?x=1")
		require.False(t, r.record.Cache.Stored)
		r = s.get("/")
		r.is(t, missed("got", 60))
	})
}

// Requests that were waiting get a response that may not be stored but isn't
// private, where the route says so; those that come later don't.
func TestShareOnce(t *testing.T) {
	for _, c := range []struct {
		control  string
		option   bool
		requests int // that reach the origin of three at once and one later
	}{
		{"max-age=0", true, 2}, {"max-age=0", false, 4},
		{"private, max-age=60", true, 4}, {"no-store", true, 4}, {"no-cache", true, 4}, {"max-age=0, must-revalidate", true, 4},
	} {
		t.Run(fmt.Sprint(c.control, c.option), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				slow := &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(time.Second)
					w.Header().Set("Cache-Control", c.control)
					w.Header().Set("Content-Type", "text/html")
					fmt.Fprint(w, "page")
				}}
				s := newSite(t, Options{Default: Route{ShareOnce: c.option}}, slow)
				words := make(chan string, 3)
				for range 3 {
					go func() {
						w := recorder()
						s.h.ServeHTTP(w, request("GET", "/"))
						words <- w.Header().Get("Weir-Cache-Status") + " " + w.Body.String()
					}()
					synctest.Wait()
				}
				got := map[string]int{<-words: 1}
				got[<-words]++
				got[<-words]++
				if c.requests == 2 {
					require.Equal(t, map[string]int{"MISS page": 1, "COLLAPSED page": 2}, got)
				} else {
					require.Equal(t, map[string]int{"DYNAMIC page": 3}, got)
				}
				synctest.Wait()
				r := s.get("/")
				require.NotEqual(t, "HIT", r.header.Get("Weir-Cache-Status"))
				s.asked(c.requests)
			})
		})
	}
}

// A site that reads its host from the request: another host is another page.
func TestReflectedHostIsKeyed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "public, max-age=60")
			fmt.Fprintf(w, "<a href=//%s/>", r.Host)
		}})
		s.get("/", "Host", "evil.test")
		r := s.get("/")
		r.is(t, missed("<a href=//example.com/>", 60))
	})
}

// Who waited for another's response gets it as it would be stored: without the
// fields that are for the first client alone.
func TestWaiterGetsNoFieldsForOneRecipient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := testnet.NewGate()
		slow := text("page", `public, max-age=60, private="X-Mine"`, "X-Mine", "secret", "X-All", "all")
		slow.Gate = gate
		s := newSite(t, Options{}, slow)
		headers := make(chan http.Header, 2)
		for range 2 {
			go func() {
				w := recorder()
				s.h.ServeHTTP(w, request("GET", "/"))
				headers <- w.Header()
			}()
			synctest.Wait()
		}
		gate.Open()
		for range 2 {
			h := <-headers
			require.Equal(t, "all", h.Get("X-All"))
			require.Equal(t, h.Get("Weir-Cache-Status") == "MISS", h.Get("X-Mine") != "")
		}
		s.asked(1)
	})
}
