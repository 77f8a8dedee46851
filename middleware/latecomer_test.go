package middleware

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/store/flight"
)

// A 304 or a 200 to an older request is slow on its way, and a newer response is stored
// meanwhile: that stays, in memory or on disk, whether it varies or not.
func TestALatecomerDoesNotCoverWhatIsNewer(t *testing.T) {
	for name, with := range map[string]struct {
		disk, vary, full bool
		size             int
	}{
		"304":                    {},
		"200":                    {full: true},
		"304, varies":            {vary: true},
		"200, varies":            {vary: true, full: true},
		"304, disk":              {disk: true},
		"200, large, disk":       {disk: true, full: true, size: 3 << 20},
		"304, large, disk":       {disk: true, size: 3 << 20},
		"304, varies, disk":      {disk: true, vary: true},
		"200, varies, big, disk": {disk: true, vary: true, full: true, size: 3 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := Options{WaitTimeout: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
				if with.disk {
					dir := t.TempDir()
					o.Store, o.Purge = store.Options{Disk: openDisk(t, filepath.Join(dir, "objects"))}, journalIn(dir)
				}
				mw, err := New(o)
				require.NoError(t, err)
				defer func() { require.NoError(t, mw.Close(context.Background())) }()
				var version, validations atomic.Int64
				version.Store(1)
				hold := make(chan struct{})
				h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					now := version.Load()
					etag := strconv.Quote("v" + strconv.FormatInt(now, 10))
					lifetime := "3600"
					if now == 1 && r.Header.Get("If-None-Match") == "" {
						lifetime = "1"
					}
					w.Header().Set("Cache-Control", "public, max-age="+lifetime)
					w.Header().Set("Etag", etag)
					if with.vary {
						w.Header().Set("Vary", "Accept")
					}
					if r.Header.Get("If-None-Match") == etag {
						if validations.Add(1) == 1 {
							<-hold
						}
						if !with.full {
							w.WriteHeader(http.StatusNotModified)
							return
						}
					}
					_, _ = io.WriteString(w, etag+strings.Repeat(".", with.size))
				}))
				get := func() string {
					w := httptest.NewRecorder()
					h.ServeHTTP(w, httptest.NewRequest("GET", "http://a.example/", nil))
					return w.Body.String()[:4]
				}
				require.Equal(t, `"v1"`, get())
				time.Sleep(2 * time.Second)
				slow := make(chan string)
				go func() { slow <- get() }()
				time.Sleep(time.Millisecond)
				version.Store(2)
				require.Equal(t, `"v2"`, get(), "it waits for a while, and then asks by itself")
				require.Equal(t, `"v2"`, get())
				close(hold)
				late := `"v1"`
				if with.size > 0 && !with.full { // what it confirms has been replaced on disk
					late = `"v2"`
				}
				require.Equal(t, late, <-slow)
				require.Equal(t, `"v2"`, get())
			})
		})
	}
}

// What refreshes one stored response, as the answer to a HEAD does, covers no other: another
// may have come between the look and the storing. A response from before the clock was set
// back is in nobody's way.
func TestWhatMayBeCovered(t *testing.T) {
	mw, err := New(Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer func() { require.NoError(t, mw.Close(t.Context())) }()
	h := mw.Wrap(http.NotFoundHandler()).(*handler)
	now := time.Now()
	stored := func(key store.Key, at time.Duration) *store.Object {
		return &store.Object{Key: key, Primary: key, Status: 200, RequestedAt: now.Add(at)}
	}
	for i, c := range []struct {
		there, refreshes, late time.Duration // of the requests; refreshes is 0 for none
		want                   reason
	}{
		{-3, 0, -2, ""},
		{-2, 0, -2, ""},
		{-1, 0, -2, whySuperseded},
		{-3, -3, -1, ""},
		{-2, -3, -1, whySuperseded},
		{3600, 0, -1, ""},
	} {
		key := store.Key{byte(i)}
		f := &fetch{h: h, flight: h.flights.Solo(flight.Key{Primary: key}, laneAnonymous)}
		if c.refreshes != 0 {
			f.refreshes = stored(key, c.refreshes*time.Second)
		}
		there, late := stored(key, c.there*time.Second), stored(key, c.late*time.Second)
		require.Equal(t, store.Kept, h.store.Put(there))
		require.Equal(t, c.want, f.put(nil, late), "%+v", c)
		got, _ := h.store.Get(key)
		if c.want == "" {
			require.Same(t, late, got)
		} else {
			require.Same(t, there, got)
		}
	}
}
