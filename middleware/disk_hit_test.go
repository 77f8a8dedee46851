package middleware

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
)

func TestHitFromDisk(t *testing.T) {
	for _, path := range []string{"/", "/?length"} {
		d := newDiskRig(t)
		d.get("MISS", path)
		require.Zero(t, d.files.Load())
		d.askedOrigin(1)
		for round := range 3 {
			resp := d.get("HIT", path)
			require.Equal(t, int64(fiveMiB), resp.ContentLength)
			require.Equal(t, "video/mp4", resp.Header.Get("Content-Type"))
			// Each piece goes from the file to the connection. What isn't verified yet
			// goes by 1 MiB, the rest at once.
			require.EqualValues(t, []int{5, 2, 5}[round], d.files.Swap(0), "pieces in round %d", round)
			if round == 1 {
				d.restart()
			}
		}
		d.askedOrigin(0)
		require.Zero(t, d.mw.Stats().Memory.Objects)
		require.EqualValues(t, 1, d.mw.Stats().Disk.Objects)
	}
}

// Small responses survive a restart too, and are in memory again after the first
// hit; variants as well.
func TestSmallHitAfterRestart(t *testing.T) {
	d := newDiskRig(t)
	d.body = []byte("a page, not large")
	d.header["Vary"] = "Accept"
	d.get("MISS", "/")
	d.restart()
	d.get("HIT", "/")
	hits := d.mw.Stats().Memory.Hits
	d.get("HIT", "/")
	require.Equal(t, hits+2, d.mw.Stats().Memory.Hits, "index and variant")
	d.askedOrigin(1)
}

func TestVariantsFromDisk(t *testing.T) {
	d := newDiskRig(t)
	d.header["Vary"] = "Accept"
	for round := range 3 {
		for _, accept := range []string{"a", "b"} {
			resp, body, err := d.do("GET", "/", "Accept", accept)
			require.NoError(t, err)
			require.True(t, bytes.Equal(d.body, body))
			require.Equal(t, round > 0, resp.Header.Get("Weir-Cache-Status") == "HIT")
		}
		if round == 1 {
			d.restart()
		}
	}
	d.askedOrigin(2)
	_, _, err := d.do("POST", "/")
	require.NoError(t, err)
	require.Empty(t, d.objects(), "a purge reaches the disk")
}

func TestPartsFromDisk(t *testing.T) {
	d := newDiskRig(t)
	d.get("MISS", "/")
	for _, c := range []struct {
		ask        string
		status     int
		start, end int // of the body
		pieces     int
	}{
		{"bytes=0-0", 206, 0, 1, 1},
		{"bytes=100-1999999", 206, 100, 2_000_000, 2},
		{"bytes=5000000-", 206, 5_000_000, fiveMiB, 1},
		{"bytes=-7", 206, fiveMiB - 7, fiveMiB, 1},
		{"bytes=9999999-", 416, 0, 0, 0},
		{"bytes=5-2", 200, 0, fiveMiB, 4},
	} {
		d.files.Store(0)
		resp, body, err := d.do("GET", "/", "Range", c.ask)
		require.NoError(t, err)
		rec := <-d.records
		require.Equal(t, c.status, resp.StatusCode, c.ask)
		require.Equal(t, "HIT", resp.Header.Get("Weir-Cache-Status"))
		require.True(t, bytes.Equal(d.body[c.start:c.end], body), c.ask)
		require.EqualValues(t, len(body), resp.ContentLength)
		require.EqualValues(t, len(body), rec.BytesSent)
		require.EqualValues(t, c.pieces, d.files.Load(), c.ask)
		want := fmt.Sprintf("bytes %d-%d/%d", c.start, c.end-1, fiveMiB)
		switch c.status {
		case 200:
			want = ""
		case 416:
			want = fmt.Sprintf("bytes */%d", fiveMiB)
		}
		require.Equal(t, want, resp.Header.Get("Content-Range"), c.ask)
	}

	resp, body, err := d.do("HEAD", "/")
	require.NoError(t, err)
	require.Equal(t, []any{200, int64(fiveMiB), 0, "HIT"}, []any{resp.StatusCode, resp.ContentLength, len(body), resp.Header.Get("Weir-Cache-Status")})
	resp, _, err = d.do("GET", "/", "If-None-Match", `"v1"`)
	require.NoError(t, err)
	require.Equal(t, []any{304, "HIT"}, []any{resp.StatusCode, resp.Header.Get("Weir-Cache-Status")})
	d.askedOrigin(1)
}

func TestSeveralPartsFromDisk(t *testing.T) {
	d := newDiskRig(t)
	d.get("MISS", "/")
	d.files.Store(0)
	resp, body, err := d.do("GET", "/", "Range", "bytes=10-1999999, 3000000-3000009,-5")
	require.NoError(t, err)
	rec := <-d.records
	require.Equal(t, 206, resp.StatusCode)
	require.EqualValues(t, len(body), resp.ContentLength)
	require.EqualValues(t, len(body), rec.BytesSent)
	require.EqualValues(t, 4, d.files.Load())
	_, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	require.NoError(t, err)
	mr := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for _, part := range [][2]int{{10, 2_000_000}, {3_000_000, 3_000_010}, {fiveMiB - 5, fiveMiB}} {
		p, err := mr.NextPart()
		require.NoError(t, err)
		b, err := io.ReadAll(p)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("bytes %d-%d/%d", part[0], part[1]-1, fiveMiB), p.Header.Get("Content-Range"))
		require.True(t, bytes.Equal(d.body[part[0]:part[1]], b))
	}
	_, err = mr.NextPart()
	require.Equal(t, io.EOF, err)
}

// A 304 for what is on disk gives it new fields there, and the body is sent from
// there.
func TestRevalidatedOnDisk(t *testing.T) {
	d := newDiskRig(t)
	d.header["Cache-Control"] = "public, no-cache"
	d.header["X-Version"] = "1"
	d.get("MISS", "/")
	d.header["X-Version"] = "2"
	resp := d.get("REVALIDATED", "/")
	require.Equal(t, "2", resp.Header.Get("X-Version"))
	d.askedOrigin(2)
	d.header["Cache-Control"] = "public, max-age=3600"
	d.get("REVALIDATED", "/")
	d.restart()
	resp = d.get("HIT", "/")
	require.Equal(t, "2", resp.Header.Get("X-Version"))
	d.askedOrigin(1)
	require.Len(t, d.objects(), 1)
}

// A large stale response on disk is served at once and refreshed behind, also by
// somebody who has loaded its fields anew.
func TestStaleOnDiskIsRefreshed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mw, err := New(Options{Store: store.Options{Disk: openDisk(t, t.TempDir())}, Purge: journalIn(t.TempDir())})
		require.NoError(t, err)
		defer func() { require.NoError(t, mw.Close(context.Background())) }()
		version := 1
		h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=10, stale-while-revalidate=600")
			_, _ = w.Write(randomBytes(version, fiveMiB))
		}))
		get := func(version int) string {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "http://example.com/", nil))
			synctest.Wait()
			assert.True(t, bytes.Equal(randomBytes(version, fiveMiB), w.Body.Bytes()))
			return w.Header().Get("Weir-Cache-Status")
		}
		assert.Equal(t, "MISS", get(1))
		version = 2
		time.Sleep(11 * time.Second)
		assert.Equal(t, "STALE", get(1))
		assert.Equal(t, "HIT", get(2))
	})
}

// Two caches on one disk: the second's visitors would get the first one's responses.
func TestADiskIsOneCachesAlone(t *testing.T) {
	dir := t.TempDir()
	d := openDisk(t, filepath.Join(dir, "objects"))
	first, err := New(Options{Store: store.Options{Disk: d}, Purge: journalIn(dir)})
	require.NoError(t, err)
	_, err = New(Options{Store: store.Options{Disk: d}, Purge: journalIn(t.TempDir())})
	var wrong *store.ConfigError
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "Disk", wrong.Field)
	require.NoError(t, first.Close(t.Context()))
}
