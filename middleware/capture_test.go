package middleware

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/store"
)

// stuckClient is a client that stops reading after some bytes, until it's let go.
type stuckClient struct {
	*httptest.ResponseRecorder
	left     int
	at, stop chan struct{}
}

func (w *stuckClient) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left <= 0 {
		w.at <- struct{}{}
		<-w.stop
	}
	return len(p), nil
}

// Clients of responses that are copied stop reading near the end: the copies take no
// more memory than half of what all fills may have, and 64 KiB each, and those that got
// none are handed on all the same. When they end, all of it is given back.
func TestCopiesAreWithinTheFillBudget(t *testing.T) {
	const size, clients, budget = 512 << 10, 20, 2 << 20
	for _, method := range []string{"GET", "POST"} {
		t.Run(method, func(t *testing.T) {
			mw, err := New(Options{Default: Route{ForwardRange: true, StorePost: true}, Store: store.Options{FillBytes: budget}})
			require.NoError(t, err)
			defer func() { require.NoError(t, mw.Close(context.Background())) }()
			h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Cache-Control", "public, max-age=600")
				w.Header().Set("Etag", `"a"`)
				w.Header().Set("Content-Location", r.URL.Path)
				if r.Method == "GET" {
					w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", size-1, 2*size))
					w.WriteHeader(206)
				}
				chunk := make([]byte, 32<<10)
				for range size / len(chunk) {
					_, _ = w.Write(chunk)
				}
			}))
			at, stop, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
			for i := range clients {
				go func() {
					w := &stuckClient{httptest.NewRecorder(), size, at, stop}
					h.ServeHTTP(w, request(method, fmt.Sprintf("/%d", i), "Range", fmt.Sprintf("bytes=0-%d", size-1)))
					gone <- struct{}{}
				}()
			}
			for range clients {
				<-at
			}
			used := mw.Stats().FillBytes
			require.Greater(t, used, int64(size-64<<10))
			require.LessOrEqual(t, used, int64(budget/2))
			close(stop)
			for range clients {
				<-gone
			}
			st := mw.Stats()
			require.Zero(t, st.FillBytes)
			require.Positive(t, st.Memory.Objects, "some got room")
			require.Less(t, st.Memory.Objects, int64(clients), "others didn't")
		})
	}
}

// A handler that panics, or a client that leaves, gives the memory of the copy back.
func TestBrokenCopiesAreGivenBack(t *testing.T) {
	for name, end := range map[string]func(cancel func()){
		"panic":  func(func()) { panic(http.ErrAbortHandler) },
		"client": func(cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := newSite(t, Options{Default: Route{StorePost: true}}, &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Cache-Control", "max-age=60")
					w.Header().Set("Content-Location", "/")
					_, _ = w.Write(make([]byte, 500<<10))
					end(cancel)
				}})
				func() {
					defer func() { _ = recover() }()
					s.h.ServeHTTP(httptest.NewRecorder(), request("POST", "/").WithContext(ctx))
				}()
				st := s.mw.Stats()
				require.Zero(t, st.FillBytes)
				require.Zero(t, st.Memory.Objects)
			})
		})
	}
}

// Outside of an HTTP server, an origin that breaks off in the middle of a body doesn't
// leave half of it behind as the whole.
func TestCutBodyOutsideAServerIsNotStored(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		w.Header().Set("Content-Location", "/r")
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte("half"))
		_ = http.NewResponseController(w).Flush()
		if r.Header.Get("X-Cut") != "" {
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write([]byte(" and half"))
	}))
	defer origin.Close()
	u, err := url.Parse(origin.URL)
	require.NoError(t, err)
	for _, method := range []string{"POST", "GET"} {
		for _, header := range [][]string{nil, {"Range", "bytes=0-9"}} {
			t.Run(method+fmt.Sprint(header), func(t *testing.T) {
				mw, err := New(Options{Default: Route{StorePost: true, ForwardRange: true}})
				require.NoError(t, err)
				defer func() { require.NoError(t, mw.Close(context.Background())) }()
				h := mw.Wrap(&httputil.ReverseProxy{ErrorLog: silent(), Rewrite: func(pr *httputil.ProxyRequest) { pr.SetURL(u) }, ErrorHandler: ProxyErrorHandler})
				require.Panics(t, func() {
					h.ServeHTTP(httptest.NewRecorder(), request(method, "/r", append(header, "X-Cut", "1")...))
				})
				w := httptest.NewRecorder()
				h.ServeHTTP(w, request("GET", "/r"))
				require.Equal(t, "half and half", w.Body.String(), w.Header().Get("Weir-Cache-Status"))
			})
		}
	}
}

// Where ranges are handed on, an origin that answers one with the whole has it stored,
// as for any GET, and later ranges are served from it.
func TestWholeAnswerToARangeIsStored(t *testing.T) {
	for name, c := range map[string]struct {
		answer *testnet.Script
		stored bool
	}{
		"plain":        {public(digits, "Etag", `"v1"`), true},
		"without tag":  {public(digits), true},
		"no-store":     {text(digits, "no-store"), false},
		"with a place": {public(digits, "Content-Range", "bytes 0-9/10"), false},
		"short":        {public(digits, "Content-Length", "11"), false},
		"too large":    {public(strings.Repeat("x", 2<<20+1)), false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, forwarding(), c.answer)
				r := s.get("/", "Range", "bytes=0-3")
				require.Equal(t, 200, r.status)
				require.Equal(t, c.stored, r.record.Cache.Stored)
				if !c.stored {
					return
				}
				r = s.get("/", "Range", "bytes=4-5")
				w := hit("45", 60, 0)
				w.status = 206
				r.is(t, w)
				s.asked(1)
			})
		})
	}
}

// One byte of each of many files, or many single bytes of a large one: what that costs
// is in proportion to what came.
func TestSmallPartsOfLargeFilesAreCheap(t *testing.T) {
	const size = 32 << 20
	mw, err := New(Options{Default: Route{ForwardRange: true}, Store: store.Options{MemoryBytes: 2 * size, MaxMemoryObjectBytes: size}})
	require.NoError(t, err)
	defer func() { require.NoError(t, mw.Close(context.Background())) }()
	h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var at int
		_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &at)
		w.Header().Set("Cache-Control", "public, max-age=600")
		w.Header().Set("Etag", `"a"`)
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", at, at, size))
		w.WriteHeader(206)
		_, _ = w.Write([]byte("x"))
	}))
	for i := range 100 {
		for _, target := range []string{"/", fmt.Sprintf("/%d", i)} {
			h.ServeHTTP(httptest.NewRecorder(), request("GET", target, "Range", fmt.Sprintf("bytes=%d-%d", 2*i, 2*i)))
		}
	}
	st := mw.Stats().Memory
	require.EqualValues(t, 101, st.Objects)
	require.Zero(t, st.Evictions)
	require.Less(t, st.Bytes, int64(300<<10))
}

// A part that was asked for before the others makes the whole: a restart finds it, and
// by its tags.
func TestWholeOfALatePartIsFoundAgain(t *testing.T) {
	dir := t.TempDir()
	gate, in := make(chan struct{}), make(chan struct{})
	start := func() (*Middleware, http.Handler) {
		o := forwarding()
		o.Store, o.Purge, o.Logger = store.Options{Disk: openDisk(t, filepath.Join(dir, "objects"))}, journalIn(dir), quietLog()
		mw, err := New(o)
		require.NoError(t, err)
		return mw, mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") == "bytes=0-4" {
				close(in)
				<-gate
			}
			w.Header().Set("Etag", `"a"`)
			w.Header().Set("Cache-Control", "public, max-age=600")
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(digits))
		}))
	}
	mw, h := start()
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.ServeHTTP(httptest.NewRecorder(), request("GET", "/v", "Range", "bytes=0-4"))
	}()
	<-in
	h.ServeHTTP(httptest.NewRecorder(), request("GET", "/v", "Range", "bytes=5-9"))
	close(gate)
	<-done
	for range 2 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request("GET", "/v"))
		require.Equal(t, "HIT", w.Header().Get("Weir-Cache-Status"))
		require.Equal(t, digits, w.Body.String())
		require.NoError(t, mw.Close(context.Background()))
		mw, h = start()
	}
	require.NoError(t, mw.Close(context.Background()))
}
