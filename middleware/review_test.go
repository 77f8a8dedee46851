package middleware

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/internal/testnet"
)

// Two sites behind one Middleware see the same URLs. However often one of them is
// hit, the other's visitors get their own page.
func TestMountsStayApartHoweverPopular(t *testing.T) {
	mw, err := New(Options{})
	require.NoError(t, err)
	page := func(name string) http.Handler {
		return mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "public, max-age=60")
			_, _ = w.Write([]byte(name))
		}))
	}
	public, admin := page("public"), page("admin")
	get := func(h http.Handler) string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request("GET", "/index"))
		return w.Body.String()
	}
	for range 2000 {
		require.Equal(t, "admin", get(admin))
	}
	for range 2000 {
		require.Equal(t, "public", get(public))
	}
	require.NoError(t, mw.Close(context.Background()))
}

type routeKey struct{}

// pooling is a router that keeps one object of state for all requests, in the
// context of the request that it's for, and takes it back when that has ended.
func pooling(inner http.Handler) http.Handler {
	state := new(atomic.Value)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		state.Store(r.URL.Path)
		defer state.Store("taken back")
		inner.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), routeKey{}, state)))
	})
}

// The cache sits inside of such a router. A client leaves early, and a stale page is
// refreshed in the background: either time the handler must find the state of its
// own request, so that request doesn't end before it.
func TestRequestOutlivesTheFetchThatUsesItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mw, err := New(Options{})
		require.NoError(t, err)
		var seen []string
		h := pooling(mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			seen = append(seen, r.Context().Value(routeKey{}).(*atomic.Value).Load().(string))
			w.Header().Set("Cache-Control", "max-age=1, stale-while-revalidate=60")
			_, _ = w.Write([]byte("page"))
		})))
		ctx, leave := context.WithCancel(context.Background())
		time.AfterFunc(time.Millisecond, leave)
		h.ServeHTTP(httptest.NewRecorder(), request("GET", "/a").WithContext(ctx))
		time.Sleep(3 * time.Second)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request("GET", "/a"))
		assert.Equal(t, "STALE", w.Header().Get("Weir-Cache-Status"))
		synctest.Wait()
		assert.Equal(t, []string{"/a", "/a"}, seen)
		require.NoError(t, mw.Close(context.Background()))
	})
}

// Where only net/http has put values into the context, a stale hit doesn't wait for
// its refresh.
func TestPlainStaleHitDoesNotWaitForItsRefresh(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mw, err := New(Options{})
		require.NoError(t, err)
		s := testnet.Serve(t, mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(10 * time.Second)
			w.Header().Set("Cache-Control", "max-age=1, stale-while-revalidate=60")
			_, _ = w.Write([]byte("page"))
		})))
		get := func() string {
			res, err := s.Client.Get("http://example.com/")
			require.NoError(t, err)
			defer res.Body.Close()
			return res.Header.Get("Weir-Cache-Status")
		}
		assert.Equal(t, "MISS", get())
		time.Sleep(2 * time.Second)
		start := time.Now()
		for range 3 { // on one connection
			assert.Equal(t, "STALE", get())
		}
		assert.Zero(t, time.Since(start))
		time.Sleep(20 * time.Second)
		require.NoError(t, mw.Close(context.Background()))
	})
}

func TestOnlyServerValues(t *testing.T) {
	plain := context.WithValue(context.WithValue(context.Background(), http.ServerContextKey, &http.Server{}),
		http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80})
	cancelled, cancel := context.WithCancel(plain)
	defer cancel()
	timed, cancel2 := context.WithTimeout(plain, time.Hour)
	defer cancel2()
	assert.True(t, onlyServerValues(context.Background()))
	assert.True(t, onlyServerValues(cancelled))
	assert.False(t, onlyServerValues(context.WithValue(cancelled, routeKey{}, 1)))
	inner, cancel3 := context.WithCancel(context.WithValue(plain, routeKey{}, 1))
	defer cancel3()
	assert.False(t, onlyServerValues(inner))
	assert.False(t, onlyServerValues(timed), "what isn't known counts as a value")
}

// A proxy behind the cache removes the fields that Connection names, so the origin
// wouldn't see what the key and Vary saw: the cache keeps out.
func TestConnectionNamingOtherFieldsBypasses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("default", "Vary", "X-Tenant"), public("acme", "Vary", "X-Tenant"))
		r := s.get("/", "X-Tenant", "acme", "Connection", "close, X-Tenant")
		r.is(t, bypassed("default", string(whyNominated)))
		for _, harmless := range []string{"close", "Keep-Alive", "close, TE"} {
			r = s.get("/", "X-Tenant", "acme", "Connection", harmless)
			require.Equal(t, "acme", r.body)
		}
		s.asked(2)
	})
}

// A HEAD that was shaped by what the key leaves out, or that sets a cookie, or that
// proves nothing, changes nothing that is stored for GET.
func TestHeadThatProvesNothingChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		target string
		answer *testnet.Script
	}{
		"dropped parameter": {"/p?utm_source=evil", public("", "Etag", `"v1"`, "X-Seen", "evil")},
		"cookie":            {"/p", public("", "Etag", `"v1"`, "X-Seen", "evil", "Set-Cookie", "a=b")},
		"no validator":      {"/p", public("", "X-Seen", "evil")},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				key := cachekey.Options{Query: cachekey.Exclude("utm_source")}
				s := newSite(t, Options{Default: Route{Key: key}}, public("page", "Etag", `"v1"`))
				s.get("/p")
				s.answer(c.answer)
				after(50 * time.Second)
				s.do("HEAD", c.target, "Cache-Control", "no-cache")
				s.asked(1)
				r := s.get("/p")
				r.is(t, hit("page", 10, 50))
				require.NotContains(t, r.header, "X-Seen")
			})
		})
	}
}

// An adapter writes field names into the header map in another case. They count all
// the same.
func TestFieldNamesInAnotherCaseCount(t *testing.T) {
	for _, c := range [][2]string{
		{"set-cookie", "sid=1"}, {"cache-control", "private"}, {"vary", "*"},
	} {
		n := 0
		mw, err := New(Options{})
		require.NoError(t, err)
		h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n++
			w.Header()["Cache-Control"] = []string{"max-age=60"}
			w.Header()[c[0]] = []string{c[1]}
			_, _ = w.Write([]byte("page"))
		}))
		for range 2 {
			h.ServeHTTP(httptest.NewRecorder(), request("GET", "/"))
		}
		assert.Equal(t, 2, n, "%s", c)
		require.NoError(t, mw.Close(context.Background()))
	}
}

// The origin gets the host, the target and the protocol in the one spelling that the
// key has, and no field whose name has an underscore.
func TestFetchHasTheSpellingOfTheKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("page"))
		var got *http.Request
		h := s.mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = r }))
		r := request("GET", "/a?b", "Host", "SHOP.test:80", "Accept_Encoding", "x")
		r.URL.Scheme, r.URL.Host, r.RequestURI = "http", "shop.test", "http://shop.test/a?b"
		r.Proto, r.ProtoMinor = "HTTP/1.0", 0
		h.ServeHTTP(httptest.NewRecorder(), r)
		assert.Equal(t, []string{"shop.test", "/a?b", "/a?b", "HTTP/1.1"}, []string{got.Host, got.RequestURI, got.URL.String(), got.Proto})
		for name := range got.Header {
			assert.NotContains(t, name, "_")
		}
	})
}

// A body without a length breaks off. A client of HTTP/1.0 couldn't tell, so it gets
// nothing of it; and an outer handler that recovers from every panic doesn't make a
// cut body look whole either.
func TestCutBodyNeverLooksWhole(t *testing.T) {
	mw, err := New(Options{})
	require.NoError(t, err)
	inner := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		_, _ = w.Write(make([]byte, 3000))
		w.(http.Flusher).Flush()
		if r.URL.Path == "/cut" {
			panic(http.ErrAbortHandler)
		}
	}))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { _ = recover() }()
		inner.ServeHTTP(w, r)
	}))
	get := func(path, proto string) (int, error) {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		require.NoError(t, err)
		defer c.Close()
		fmt.Fprintf(c, "GET %s %s\r\nHost: a\r\nConnection: close\r\n\r\n", path, proto)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return 0, err
		}
		defer res.Body.Close()
		n, buf := 0, make([]byte, 512)
		for {
			k, err := res.Body.Read(buf)
			if n += k; err != nil {
				if err.Error() == "EOF" {
					err = nil
				}
				return n, err
			}
		}
	}
	for _, proto := range []string{"HTTP/1.0", "HTTP/1.1"} {
		n, err := get("/whole"+proto[5:], proto)
		assert.NoError(t, err)
		assert.Equal(t, 3000, n, proto)
		_, err = get("/cut", proto)
		assert.Error(t, err, proto)
	}
	s.Close()
	require.NoError(t, mw.Close(context.Background()))
}

// Clients that only come and go don't make the origin work without bound.
func TestFetchesThatNobodyWaitsForAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mw, err := New(Options{})
		require.NoError(t, err)
		var running atomic.Int64
		h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			running.Add(1)
			defer running.Add(-1)
			<-r.Context().Done()
		}))
		for i := range 300 {
			ctx, leave := context.WithCancel(context.Background())
			go h.ServeHTTP(httptest.NewRecorder(), request("GET", fmt.Sprint("/", i)).WithContext(ctx))
			synctest.Wait()
			leave()
			synctest.Wait()
		}
		assert.EqualValues(t, 64, running.Load())
		time.Sleep(DefaultFetchTimeout)
		synctest.Wait()
		assert.Zero(t, running.Load())
		require.NoError(t, mw.Close(context.Background()))
	})
}

// A stale copy that stands in when the origin fails isn't taken away by what one
// client can provoke.
func TestProvokedAnswersLeaveTheStaleCopy(t *testing.T) {
	for _, c := range []*testnet.Script{
		testnet.Text(403, "no"), testnet.Text(429, "no"), testnet.Text(406, "no"), public("mine", "Set-Cookie", "a=b"),
	} {
		bubble(t, func(t *testing.T) {
			s := newSite(t, Options{}, text("page", "max-age=1, stale-if-error=600"), c, testnet.Text(503, "down"))
			s.get("/")
			after(2 * time.Second)
			s.get("/")
			after(20 * time.Second)
			r := s.get("/")
			require.Equal(t, "STALE-ERROR page", r.header.Get("Weir-Cache-Status")+" "+r.body)
		})
	}
}

// A 416 isn't the page: it has nothing of the page's lifetime.
func TestUnsatisfiedRangeIsNotForCaches(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("page", "Expires", "Sat, 01 Jan 2050 00:00:00 GMT"))
		s.get("/")
		r := s.get("/", "Range", "bytes=100-")
		require.Equal(t, 416, r.status)
		require.Equal(t, []string{"no-store"}, r.header["Cache-Control"])
		require.NotContains(t, r.header, "Expires")
	})
}

// A lifetime for all of 4xx reaches what speaks of the resource, not what a client
// can provoke.
func TestClassOfClientErrorsReachesOnlyMissingResources(t *testing.T) {
	for status, stored := range map[int]bool{403: false, 406: false, 415: false, 417: false, 404: true, 410: true} {
		bubble(t, func(t *testing.T) {
			o := Options{Default: Route{TTL: TTL{ByClass: map[int]time.Duration{4: time.Minute}}}}
			s := newSite(t, o, testnet.Text(status, "no"))
			r := s.get("/")
			require.Equal(t, stored, r.record.Cache.Stored, status)
		})
	}
}
