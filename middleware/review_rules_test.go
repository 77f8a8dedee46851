package middleware

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/internal/testnet"
)

// words are the status word and the body of a reply.
func (r *reply) words() string { return r.header.Get("Weir-Cache-Status") + " " + r.body }

// lasting are the fields of a header that are the same in every hit.
func lasting(h http.Header) http.Header {
	h = maps.Clone(h)
	delete(h, "Age")
	delete(h, "Cache-Status")
	delete(h, "Weir-Cache-Status")
	return h
}

// A public site and an admin site are mounted behind one Middleware and see the same
// paths. Whichever is popular, and while keys are remembered for popular paths, each
// visitor gets the site that was asked.
func TestReviewMountsTakenInTurnsStayApart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("public site"))
		admin := newOrigin(public("admin site"))
		sites := map[string]http.Handler{"public site": s.h, "admin site": s.mw.Wrap(admin)}
		for i := range 3000 {
			for name, h := range sites {
				w := recorder()
				h.ServeHTTP(w, request("GET", fmt.Sprint("/", i%3)))
				require.Equal(t, name, w.Body.String(), "round %d", i)
			}
			if i%100 == 0 {
				time.Sleep(7 * time.Nanosecond) // which hits are remembered goes by the clock
			}
		}
		require.Equal(t, []int{3, 3}, []int{s.origin.Total(), admin.Total()})
	})
}

func newOrigin(scripts ...*testnet.Script) *testnet.Origin { return originOf(scripts...) }

// A client nominates its tenant and its cookies as fields of the connection, so a
// proxy behind the cache drops them although they are in the key: what comes back is
// nobody's, and is kept for nobody.
func TestReviewNominatedFieldsStoreNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		key := cachekey.Options{Cookies: []string{"lang"}, DropOtherCookies: true}
		s := newSite(t, Options{Default: Route{Key: key}}, public("nobody's", "Vary", "X-Tenant"), public("acme, de", "Vary", "X-Tenant"))
		r := s.get("/", "X-Tenant", "acme", "Cookie", "lang=de", "Connection", "X-Tenant, Cookie")
		r.is(t, bypassed("nobody's", "the request's Connection field names other fields of it"))
		r = s.get("/", "X-Tenant", "acme", "Cookie", "lang=de", "Connection", "keep-alive")
		r.is(t, missed("acme, de", 60))
		for _, usual := range []string{"keep-alive", "close", "Close", "Keep-Alive, close"} {
			r = s.get("/", "X-Tenant", "acme", "Cookie", "lang=de", "Connection", usual)
			r.is(t, hit("acme, de", 60, 0))
		}
		s.asked(2)
	})
}

// A HEAD carries a session that the key drops, and the origin's answer, with the
// right validators, greets that user. Nothing of it gets into what all others have,
// and the stored response isn't taken away either.
func TestReviewHeadWithDroppedCookiesChangesNothing(t *testing.T) {
	for name, tag := range map[string]string{"confirming": `"v1"`, "contradicting": `"v2"`} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				o := Options{Default: Route{Key: cachekey.Options{DropOtherCookies: true}}}
				s := newSite(t, o, public("page", "Etag", `"v1"`),
					headOnly("Etag", tag, "Content-Length", "4", "Cache-Control", "public, max-age=90", "X-User", "alice"))
				s.get("/")
				before := s.get("/")
				after(50 * time.Second)
				r := s.do("HEAD", "/", "Cookie", "session=alice", "Cache-Control", "no-cache")
				require.Equal(t, "alice", r.header.Get("X-User"), "it reached the origin")
				r = s.get("/")
				r.is(t, hit("page", 10, 50))
				require.Equal(t, lasting(before.header), lasting(r.header))
				s.asked(2)
			})
		})
	}
}

// A monitor sends a HEAD every few seconds for a page without validators. That
// doesn't keep version 1 alive: nothing says that it's still the page. With the right
// validator it does.
func TestReviewHeadRenewsOnlyByValidator(t *testing.T) {
	for name, c := range map[string]struct {
		validator []string
		want      string
	}{
		"none":                {nil, "version 2"},
		"entity tag":          {[]string{"Etag", `"v1"`}, "version 1"},
		"time of last change": {[]string{"Last-Modified", modified}, "version 1"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				fields := append([]string{"Content-Length", "9", "Content-Type", "text/html", "Cache-Control", "max-age=10"}, c.validator...)
				s := newSite(t, Options{}, text("version 1", "max-age=10", c.validator...))
				s.get("/")
				s.answer(headOnly(fields...))
				for range 5 {
					after(11 * time.Second)
					s.do("HEAD", "/")
				}
				s.asked(5)
				s.answer(text("version 2", "max-age=10", c.validator...))
				r := s.get("/")
				require.Equal(t, c.want, r.body)
				s.asked(map[bool]int{true: 0, false: 1}[c.want == "version 1"])
			})
		})
	}
}

// An origin gives every user another invoice or picture under one URL, with max-age
// and no word of who may share it. Only what is a file of the site beyond doubt, by
// its type and by the extension of its path, is shared between users.
func TestReviewPersonalFilesAreNotShared(t *testing.T) {
	personal := []string{"DYNAMIC one", "DYNAMIC two"}
	shared := []string{"MISS one", "HIT one"}
	for _, c := range []struct {
		path, kind string
		want       []string
	}{
		{"/invoices/latest", "application/pdf", personal},
		{"/avatar", "image/png", personal},
		{"/avatar/", "image/jpeg", personal},
		{"/photo.php", "image/jpeg", personal},
		{"/me.css", "image/png", personal},
		{"/app.css", "text/html", personal},
		{"/app.css", "text/css", shared},
		{"/logo.png", "image/png", shared},
	} {
		t.Run(c.path+" "+c.kind, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{}, testnet.Text(200, "one", "Content-Type", c.kind, "Cache-Control", "max-age=60"),
					testnet.Text(200, "two", "Content-Type", c.kind, "Cache-Control", "max-age=60"))
				alice, bob := s.get(c.path, "Cookie", "session=alice"), s.get(c.path, "Cookie", "session=bob")
				require.Equal(t, c.want, []string{alice.words(), bob.words()})
			})
		})
	}
}

// A handler, or the adapter that it was written with, spells field names in small
// letters in the header map. Each rule reads them like any others.
func TestReviewFieldNamesInSmallLettersCount(t *testing.T) {
	say := func(body string, more http.Header) *testnet.Script {
		s := public(body)
		maps.Copy(s.Header, more)
		return s
	}
	for name, c := range map[string]http.Header{
		"cookie":  {"set-cookie": {"session=secret"}},
		"private": {"cache-control": {"private"}},
		"vary *":  {"vary": {"*"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{}, say("one", c), say("two", c))
				for _, body := range []string{"one", "two"} {
					r := s.get("/")
					require.Equal(t, "DYNAMIC "+body, r.words())
					require.False(t, r.record.Cache.Stored)
				}
				require.Zero(t, s.mw.Stats().Memory.Bytes)
			})
		})
	}
	bubble(t, func(t *testing.T) {
		vary := http.Header{"vary": {"x-tenant"}}
		s := newSite(t, Options{}, say("acme", vary), say("other", vary))
		for _, word := range []string{"MISS", "HIT"} {
			a, b := s.get("/", "X-Tenant", "acme"), s.get("/", "X-Tenant", "other")
			require.Equal(t, []string{word + " acme", word + " other"}, []string{a.words(), b.words()})
		}
	})
}

// A page has a stale copy for bad times. One client's refused, limited or logged-out
// request says nothing about the page, and the copy stands in when the origin is
// down. When the page becomes private or is deleted, the copy is gone.
func TestReviewWhatTakesTheStaleCopyAway(t *testing.T) {
	for name, c := range map[string]struct {
		newer *testnet.Script
		kept  bool
	}{
		"forbidden":      {testnet.Text(403, "no"), true},
		"too many":       {testnet.Text(429, "no"), true},
		"not acceptable": {testnet.Text(406, "no"), true},
		"cookie":         {text("mine", "public, max-age=1, stale-if-error=3600", "Set-Cookie", "session="), true},
		"no-store":       {text("new", "no-store"), false},
		"private":        {text("new", "private"), false},
		"not found":      {testnet.Text(404, "none", "Cache-Control", "no-store"), false},
		"gone":           {testnet.Text(410, "none", "Cache-Control", "no-store"), false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{}, text("page", "public, max-age=1, stale-if-error=3600"), c.newer, testnet.Text(503, "down"))
				s.get("/")
				after(2 * time.Second)
				r := s.get("/")
				require.Equal(t, c.newer.Body[0].Data, r.body)
				after(20 * time.Second)
				r = s.get("/")
				if c.kept {
					require.Equal(t, "STALE-ERROR page", r.words())
					require.Equal(t, 200, r.status)
				} else {
					require.Equal(t, "DYNAMIC down", r.words())
					require.Equal(t, 503, r.status)
				}
				s.asked(3)
			})
		})
	}
}

// A trusted proxy passes its client's Host on beside its own word for the host, and a
// Forwarded field with what others wrote before it. The origin may go by either, so
// neither may be left out of the key.
func TestReviewTrustedProxyWithTwoHosts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
		s := newSite(t, o, public("links to evil.test"), public("links to shop.test"))
		for _, word := range []string{"MISS", "HIT"} {
			evil := s.get("/", "Host", "evil.test", "X-Forwarded-Host", "shop.test")
			shop := s.get("/", "Host", "shop.test")
			require.Equal(t, []string{word + " links to evil.test", word + " links to shop.test"}, []string{evil.words(), shop.words()})
			require.NotEqual(t, evil.record.Cache.Key, shop.record.Cache.Key)
		}
		s.answer(public("two elements"), public("one element"))
		for range 2 {
			r := s.get("/f", "Host", "shop.test", "Forwarded", "host=evil.test, for=10.0.0.1;host=shop.test")
			require.Equal(t, "BYPASS", r.header.Get("Weir-Cache-Status"))
			require.False(t, r.record.Cache.Stored)
		}
		r := s.get("/f", "Host", "shop.test", "Forwarded", "for=10.0.0.2;host=shop.test")
		r.is(t, missed("one element", 60))
	})
}

// The origin answers the validation of a page with a 304 that sets one client's
// session and token. That client gets both; the stored header is as it was.
func TestReviewCookieOfA304LeavesTheStoredHeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("page", "Etag", `"v1"`, "X-Csrf-Token", "none"),
			testnet.Text(304, "", "Etag", `"v1"`, "Cache-Control", "public, max-age=600", "Set-Cookie", "session=abc", "X-Csrf-Token", "of abc"))
		s.get("/")
		before := s.get("/")
		after(5 * time.Second)
		r := s.get("/", "Cache-Control", "no-cache")
		require.Equal(t, "REVALIDATED page", r.words())
		require.Equal(t, []string{"session=abc"}, r.header["Set-Cookie"])
		require.Equal(t, []string{"of abc"}, r.header["X-Csrf-Token"])
		require.False(t, r.record.Cache.Stored)
		for range 2 {
			r = s.get("/")
			r.is(t, hit("page", 55, 5))
			require.Equal(t, lasting(before.header), lasting(r.header))
		}
		s.asked(2)
	})
}

// A client of HTTP/1.0 asks with a target in absolute form, a host in capitals with the
// port that goes without saying, and fields that an origin behind CGI can't tell from
// others. The wrapped handler sees the one spelling that the key stands for.
func TestReviewHandlerSeesTheSpellingOfTheKey(t *testing.T) {
	for name, raw := range map[string]string{
		"absolute form": "GET http://SHOP.test:80/p?x=1 HTTP/1.0\r\nHost: SHOP.test:80\r\nX_Tenant: evil\r\nUser_Agent: evil\r\n\r\n",
		"origin form":   "GET /p?x=1 HTTP/1.1\r\nHost: SHOP.test:80\r\nConnection: close\r\nX_Tenant: evil\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var got *http.Request
				r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					got = r
					goodFor60(w.Header())
				}))
				conn, err := dialRig(r)
				require.NoError(t, err)
				go func() { _, _ = conn.Write([]byte(raw)) }()
				require.Contains(t, readAll(conn), "Weir-Cache-Status: MISS")
				conn.Close()
				synctest.Wait()
				require.Equal(t, []string{"shop.test", "/p?x=1", "/p?x=1", "HTTP/1.1"}, []string{got.Host, got.URL.String(), got.RequestURI, got.Proto})
				require.NotContains(t, got.Header, "X_tenant")
				require.NotContains(t, got.Header, "User_agent")
			})
		})
	}
}
