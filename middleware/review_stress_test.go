package middleware

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
)

// Purges and unsafe requests beside all ways in which responses get stored, with a
// disk and restarts: nobody who comes after one gets what was there before.
func TestReviewNothingInvalidatedComesBack(t *testing.T) {
	dir := t.TempDir()
	var version atomic.Int64
	var floor [8]atomic.Int64
	var kinds [8]atomic.Value
	var bad atomic.Int64
	origin := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := version.Load()
		h := w.Header()
		h.Set("Cache-Control", "public, max-age="+strconv.Itoa(rand.IntN(2))+", stale-while-revalidate=1")
		if rand.IntN(2) == 0 {
			h.Set("Cache-Control", "public, max-age=100")
		}
		h.Set("Cache-Tag", "t"+strings.TrimPrefix(r.URL.Path, "/"))
		h.Set("Etag", fmt.Sprintf(`"%d"`, v))
		if strings.HasSuffix(r.URL.Path, "1") || strings.HasSuffix(r.URL.Path, "3") {
			h.Set("Vary", "Accept-Language")
			h.Set("Content-Language", "de")
		}
		if r.Method == "POST" {
			return
		}
		if r.Header.Get("If-None-Match") == fmt.Sprintf(`"%d"`, v) {
			w.WriteHeader(304)
			return
		}
		size := 10
		if n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/")); n >= 4 {
			size = 100 << 10
		} else if n >= 2 {
			size = 20 << 10
		}
		body := fmt.Sprintf("%d\n", v) + strings.Repeat("x", size)
		w.Write([]byte(body[:len(body)/2]))
		w.Write([]byte(body[len(body)/2:]))
	})
	for round := range 3 {
		var o Options
		o.Default.SelectLanguage = true
		o.Default.StorePost = true
		o.Store = store.Options{Disk: openDisk(t, filepath.Join(dir, "objects")), MemoryBytes: 128 << 10, MaxMemoryObjectBytes: 32 << 10}
		o.Purge = journalIn(dir)
		o.Logger = slog.New(slog.DiscardHandler)
		mw, err := New(o)
		require.NoError(t, err)
		h := mw.Wrap(origin)
		stop := time.Now().Add(1500 * time.Millisecond)
		var wg sync.WaitGroup
		for w := range 6 {
			wg.Go(func() {
				for time.Now().Before(stop) {
					n := rand.IntN(6)
					min := floor[n].Load()
					method := "GET"
					if rand.IntN(20) == 0 {
						method = "HEAD"
					}
					r := request(method, fmt.Sprint("/", n), "Accept-Language", []string{"de", "de, en;q=0.5", "en"}[rand.IntN(3)])
					rec := httptest.NewRecorder()
					func() {
						defer func() { recover() }()
						h.ServeHTTP(rec, r)
					}()
					if rec.Code != 200 || method == "HEAD" {
						continue
					}
					head, _, _ := strings.Cut(rec.Body.String(), "\n")
					v, _ := strconv.ParseInt(head, 10, 64)
					if v < min {
						bad.Add(1)
						t.Logf("round %d worker %d /%d: version %d < %d %s", round, w, n, v, min, rec.Header().Get("Cache-Status")+" "+fmt.Sprint(kinds[n].Load(), " ", r.Header["Accept-Language"], rec.Header()["Age"], len(rec.Body.String())))
					}
				}
			})
		}
		wg.Go(func() {
			for time.Now().Before(stop) {
				n := rand.IntN(6)
				v := version.Add(1)
				kind := "POST"
				if rand.IntN(3) == 0 {
					h.ServeHTTP(httptest.NewRecorder(), request("POST", fmt.Sprint("/", n), "Body", "x"))
				} else {
					sel := purge.Selector{Kind: purge.Tag, Tag: fmt.Sprint("t", n)}
					if rand.IntN(2) == 0 {
						sel = purge.Selector{Kind: purge.URL, Host: "example.com", Path: fmt.Sprint("/", n)}
					}
					kind = sel.Kind.String()
					mw.Purge(context.Background(), sel)
				}
				kinds[n].Store(kind)
				floor[n].Store(v)
				time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
			}
		})
		wg.Wait()
		t.Logf("%+v", mw.Stats().PurgedLazily)
		require.NoError(t, mw.Close(context.Background()))
	}
	require.Zero(t, bad.Load())
}
