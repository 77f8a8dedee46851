package middleware

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/trace"
)

// Many clients at once, with unsafe requests and purges between them: nobody is
// given a response for another id, or one that was asked for before the last unsafe
// request for the URL, or purge of it, had ended.
func TestNoVarySearchUnderLoad(t *testing.T) {
	var version, ignored, own atomic.Int64
	origin := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			w.Header().Set("X-Version", fmt.Sprint(version.Add(1)))
			return
		}
		v := version.Load()
		h := w.Header()
		h.Set("Cache-Control", "public, max-age=3600")
		h.Set("Content-Type", "text/html")
		h.Set("No-Vary-Search", []string{`params=("utm")`, `key-order, params=("utm")`, `params, except=("id")`}[rand.IntN(3)])
		if rand.IntN(4) == 0 {
			h.Set("Vary", "X-Kind")
		}
		fmt.Fprint(w, r.URL.Query()["id"], " ", v)
	})
	mw, err := New(Options{Default: Route{NoVarySearch: true}, Hook: func(r *trace.Record) {
		if r.Cache.Reason == string(whySearch) {
			ignored.Add(1)
		} else if r.Cache.Status == trace.Hit {
			own.Add(1)
		}
	}})
	require.NoError(t, err)
	defer func() { require.NoError(t, mw.Close(context.Background())) }()
	h := mw.Wrap(origin)

	var mu sync.Mutex
	least := map[string]int64{}
	raise := func(target string, v int64) {
		mu.Lock()
		least[target] = max(least[target], v)
		mu.Unlock()
	}
	client := func() {
		for range 2000 {
			id := fmt.Sprint("id=", rand.IntN(3))
			target, query := "/?"+id, id
			if n := rand.IntN(20); n > 0 {
				query = []string{fmt.Sprintf("%s&utm=%d", id, n), fmt.Sprintf("utm=%d&%s", n, id)}[n%2]
				target = "/?" + query
			}
			switch n := rand.IntN(40); n {
			case 0:
				w := httptest.NewRecorder()
				h.ServeHTTP(w, request("POST", target))
				raise(target, int64(atoi(w.Header().Get("X-Version"))))
			case 1:
				v := version.Add(1)
				_, err := mw.Purge(context.Background(), purge.Selector{Kind: purge.ExactURL, Host: "example.com", Path: "/", Query: query})
				assert.NoError(t, err)
				raise(target, v)
			default:
				mu.Lock()
				want := least[target]
				mu.Unlock()
				w := httptest.NewRecorder()
				h.ServeHTTP(w, request("GET", target, "X-Kind", fmt.Sprint(n%2)))
				var got, v int64
				_, err := fmt.Sscanf(w.Body.String(), "[%d] %d", &got, &v)
				assert.NoError(t, err, w.Body.String())
				assert.Equal(t, id, fmt.Sprint("id=", got))
				assert.GreaterOrEqual(t, v, want, "%s %s", target, w.Header())
			}
		}
	}
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(client)
	}
	clients.Wait()
	assert.Positive(t, ignored.Load())
	assert.Positive(t, own.Load())
	t.Log(ignored.Load(), "for other queries,", own.Load(), "for their own")
}

func BenchmarkHitByNoVarySearch(b *testing.B) {
	mw, err := New(Options{Default: Route{NoVarySearch: true}})
	require.NoError(b, err)
	defer func() { require.NoError(b, mw.Close(context.Background())) }()
	h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=3600")
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("No-Vary-Search", `params=("utm_source" "utm_campaign")`)
		fmt.Fprint(w, "body")
	}))
	h.ServeHTTP(httptest.NewRecorder(), request("GET", "/?id=1"))
	r, w := request("GET", "/?id=1&utm_source=a&utm_campaign=b"), httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		clear(w.Header())
		w.Body.Reset()
		h.ServeHTTP(w, r)
	}
}
