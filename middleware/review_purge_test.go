package middleware

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
)

func anybody(*http.Request) (string, error) { return "me", nil }

// PURGE to the second handler purges the first one's zone.
func TestReviewPurgeMethodPurgesItsOwnZone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{Purge: PurgeOptions{Authorise: anybody}}, public("old"))
		first := s.h
		second := s.mw.Wrap(s.origin)
		s.get("/a")
		s.h = second
		s.get("/a")
		r := s.do("PURGE", "/a")
		require.Equal(t, 200, r.status, r.body)
		r = s.get("/a")
		t.Log("second after its PURGE:", r.header.Get("Weir-Cache-Status"))
		s.h = first
		r1 := s.get("/a")
		t.Log("first after second's PURGE:", r1.header.Get("Weir-Cache-Status"))
		require.Equal(t, "MISS", r.header.Get("Weir-Cache-Status"))
		require.Equal(t, "HIT", r1.header.Get("Weir-Cache-Status"))
	})
}

// A target in absolute form without a path.
func TestReviewPurgeReachesATargetWithoutPath(t *testing.T) {
	mw, err := New(Options{Purge: PurgeOptions{Authorise: anybody}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer mw.Close(context.Background())
	n := 0
	srv := httptest.NewServer(mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		w.Header().Set("Cache-Control", "public, max-age=600")
		fmt.Fprint(w, n)
	})))
	defer srv.Close()
	raw := func(line string) string {
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		require.NoError(t, err)
		defer c.Close()
		fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n", line)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		b, _ := io.ReadAll(res.Body)
		return fmt.Sprint(res.StatusCode, " ", res.Header.Get("Weir-Cache-Status"), " ", string(b))
	}
	t.Log(raw("GET http://example.com"))
	a := raw("GET /")
	t.Log(a)
	t.Log(raw("PURGE /"))
	b := raw("GET /")
	t.Log(b)
	c := raw("GET http://example.com")
	t.Log(c)
	require.NotContains(t, b, "HIT")
	require.NotContains(t, c, "HIT 1")
}

// Tags in a field that isn't stored.
func TestReviewTagsOfAFieldThatIsNotStoredCountAfterARestart(t *testing.T) {
	for _, cc := range []string{`public, max-age=600, private="Cache-Tag"`, `public, max-age=600, no-cache="Cache-Tag"`} {
		d := newDiskRig(t)
		d.body = []byte("small")
		d.header["Cache-Control"], d.header["Cache-Tag"] = cc, "news"
		d.get("MISS", "/a")
		d.restart()
		_, err := d.mw.Purge(context.Background(), purge.Selector{Kind: purge.Tag, Tag: "news"})
		require.NoError(t, err)
		resp, _, _ := d.do("GET", "/a")
		t.Log(cc, resp.Header.Get("Weir-Cache-Status"))
		if resp.Header.Get("Weir-Cache-Status") == "HIT" {
			t.Errorf("purged by tag after a restart, and still served: %s", cc)
		}
	}
}

// Purged before the restart, in memory gone; comes back.
func TestReviewPurgeOfSuchATagOutlivesTheProcess(t *testing.T) {
	d := newDiskRig(t)
	d.body = []byte("small")
	d.header["Cache-Control"], d.header["Cache-Tag"] = `public, max-age=600, private="Cache-Tag"`, "news"
	d.get("MISS", "/a")
	_, err := d.mw.Purge(context.Background(), purge.Selector{Kind: purge.Tag, Tag: "news"})
	require.NoError(t, err)
	d.restart()
	require.Len(t, d.objects(), 1, "the end of the process before has written it")
	resp, _, _ := d.do("GET", "/a")
	require.Equal(t, "MISS", resp.Header.Get("Weir-Cache-Status"))
}

// Soft purge of what the origin has deleted.
func TestReviewSoftPurgeOfADeletedPageEndsIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, text("old", "public, max-age=3600, stale-while-revalidate=60"))
		s.get("/a")
		s.answer(testnet.Text(404, "gone", "Content-Type", "text/html", "Cache-Control", "no-store"))
		s.purge(purge.Selector{Kind: purge.URL, Host: "example.com", Path: "/a", Soft: true})
		var seen []string
		for range 6 {
			r := s.get("/a")
			seen = append(seen, fmt.Sprint(r.status, r.header.Get("Weir-Cache-Status")))
			after(5 * time.Minute)
		}
		t.Log(seen)
		require.NotContains(t, seen[1:], "200STALE")
	})
}

// PURGE by way of a trusted proxy.
func TestReviewPurgeThroughATrustedProxy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Purge: PurgeOptions{Authorise: anybody}}, public("old"))
		h := []string{"Host", "internal", "Peer", "10.1.1.1", "X-Forwarded-Host", "www.example.com"}
		s.get("/a", h...)
		r0 := s.get("/a", h...)
		require.Equal(t, "HIT", r0.header.Get("Weir-Cache-Status"))
		r := s.do("PURGE", "/a", h...)
		require.Equal(t, 200, r.status)
		r = s.get("/a", h...)
		require.Equal(t, "MISS", r.header.Get("Weir-Cache-Status"))
	})
}

// Go API with an excluded parameter.
func TestReviewPurgeByCallIsAsKeyed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := Options{Purge: PurgeOptions{Authorise: anybody}}
		o.Default.Key.Query = cachekey.Exclude("utm_source")
		s := newSite(t, o, public("old"))
		s.get("/a?id=1&utm_source=x")
		s.purge(purge.Selector{Kind: purge.ExactURL, Host: "example.com", Path: "/a", Query: "id=1&utm_source=x"})
		r := s.get("/a?id=1&utm_source=x")
		require.Equal(t, "MISS", r.header.Get("Weir-Cache-Status"))
	})
}

// One anonymous POST purges all zones' worth: the whole zone, or the whole host.
func TestReviewOnePostInvalidatesOnlyItsOwn(t *testing.T) {
	for name, post := range map[string][]string{
		"host that is none": {"/x", "Host", "a*b"},
		"long path with *":  {"/" + strings.Repeat("a", 254) + "*" + strings.Repeat("a", 8192)},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var o Options
				o.Default.Key.Headers = []string{"X-Device"}
				s := newSite(t, o, public("page"))
				s.get("/victim")
				s.do("POST", post[0], post[1:]...)
				r := s.get("/victim")
				require.Equal(t, "HIT", r.header.Get("Weir-Cache-Status"))
			})
		})
	}
}

// With a disk a handler is known by its name: an order that the next release may
// change would give one the other's responses.
func TestReviewHandlersWithADiskNeedNames(t *testing.T) {
	dir := t.TempDir()
	mk := func() *Middleware {
		mw, err := New(Options{
			Store: store.Options{Disk: openDisk(t, filepath.Join(dir, "objects"))}, Purge: journalIn(dir), Logger: quietLog(),
		})
		require.NoError(t, err)
		return mw
	}
	get := func(h http.Handler) string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request("GET", "/"))
		return w.Header().Get("Weir-Cache-Status") + " " + w.Body.String()
	}
	mw := mk()
	require.Equal(t, "MISS shop", get(mw.WrapZone("shop", testHandler("shop"))))
	require.Equal(t, "MISS admin", get(mw.WrapZone("admin", testHandler("admin"))))
	require.Panics(t, func() { mw.WrapZone("shop", nil) }, "the name is taken")
	require.PanicsWithValue(t, needNames, func() { mw.Wrap(nil) })
	require.NoError(t, mw.Close(context.Background()))

	mw = mk()
	require.Equal(t, "HIT admin", get(mw.WrapZone("admin", testHandler("new"))))
	require.Equal(t, "HIT shop", get(mw.WrapZone("shop", testHandler("new"))))
	require.NoError(t, mw.Close(context.Background()))

	mw = mk()
	require.Equal(t, "MISS only", get(mw.Wrap(testHandler("only"))))
	require.PanicsWithValue(t, needNames, func() { mw.WrapZone("shop", nil) })
	require.NoError(t, mw.Close(context.Background()))
}
