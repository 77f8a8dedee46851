package middleware

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
)

// Purges of what is on disk count before and after restarts, whether the process saw
// the response being stored or not, by what its key says and by its tags.
func TestPurgesOutliveTheProcess(t *testing.T) {
	for name, c := range map[string]struct {
		body     []byte
		selector purge.Selector
	}{
		"large by tag":    {randomBytes(1, fiveMiB), purge.Selector{Kind: purge.Tag, Tag: "news"}},
		"large by prefix": {randomBytes(1, fiveMiB), purge.Selector{Kind: purge.Prefix, Host: "example.com", Path: "/a"}},
		"small by tag":    {[]byte("small"), purge.Selector{Kind: purge.Tag, Tag: "news"}},
		"small by query":  {[]byte("small"), purge.Selector{Kind: purge.ExactURL, Host: "example.com", Path: "/a", Query: "b=1"}},
		"small by group":  {[]byte("small"), purge.Selector{Kind: purge.Group, Origin: "http://example.com", Tag: "g"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDiskRig(t)
			d.body = c.body
			d.header["Cache-Tag"], d.header["Cache-Groups"] = "news, shop", `"g"`
			d.get("MISS", "/a?b=1")
			d.restart()
			d.get("HIT", "/a?b=1")
			d.askedOrigin(1)
			_, err := d.mw.Purge(context.Background(), purge.Selector{Kind: purge.Tag, Tag: "other"}, c.selector)
			require.NoError(t, err)
			d.restart()
			d.get("MISS", "/a?b=1")
			d.askedOrigin(1)
			d.restart()
			d.get("HIT", "/a?b=1")
			d.askedOrigin(0)
		})
	}
}

// Without the journal nobody knows what was purged: nothing on disk counts.
func TestLostJournalPurgesTheDisk(t *testing.T) {
	d := newDiskRig(t)
	d.get("MISS", "/")
	d.stop()
	journals, err := filepath.Glob(filepath.Join(d.dir, "purges*"))
	require.NoError(t, err)
	require.NotEmpty(t, journals)
	for _, j := range journals {
		require.NoError(t, os.Remove(j))
	}
	d.start()
	d.get("MISS", "/")
	d.askedOrigin(2)
}

// The fingerprint changes with everything that a rule can be made of, and not with
// the order of a map or the addresses of things.
func TestFingerprintOfRules(t *testing.T) {
	seen := map[string]int{}
	routes := []Route{
		{},
		{Name: "a"},
		{CacheOff: true},
		{Methods: []string{"GET"}},
		{StaleIfError: time.Second},
		{TTL: TTL{ByStatus: map[int]time.Duration{404: 1, 200: 2}}},
		{TTL: TTL{ByStatus: map[int]time.Duration{404: 2, 200: 1}}},
		{Key: cachekey.Options{Query: cachekey.Exclude("a")}},
		{Key: cachekey.Options{Normalize: map[string]cachekey.Normalizer{"Accept-Language": cachekey.AcceptLanguage("en", "de")}}},
	}
	for i := range routes {
		for range 10 {
			copied := routes[i]
			if m := copied.TTL.ByStatus; m != nil {
				copied.TTL.ByStatus = map[int]time.Duration{200: m[200], 404: m[404]}
			}
			f := fingerprint(&copied)
			require.Regexp(t, regexp.MustCompile("^[0-9a-f]{64}$"), f)
			if at, ok := seen[f]; ok {
				require.Equal(t, i, at)
			}
			seen[f] = i
		}
	}
	require.Len(t, seen, len(routes))
}

// A disk without a journal of purges would bring back what was purged.
func TestDiskNeedsAJournal(t *testing.T) {
	d := openDisk(t, t.TempDir())
	_, err := New(Options{Name: "\n", Store: store.Options{Disk: d}})
	require.ErrorContains(t, err, "Purge.List.Journal")
	require.ErrorContains(t, err, "Name")
	// A New that failed leaves the tier to its owner.
	require.Equal(t, store.Kept, d.Put(&store.Object{
		Status: http.StatusOK, Body: []byte("x"), Length: "1", RequestedAt: time.Now(), Life: rfc9111.Life{ReceivedAt: time.Now()},
	}))
	require.NoError(t, d.Close(context.Background()))
}

func TestFactsRoundTrip(t *testing.T) {
	for _, f := range []purge.Facts{
		{},
		{Seq: 1<<63 + 5, Zone: "2", Scheme: "https", Host: "example.com:8443", Path: "/a%2Fb", Query: "x=1&y="},
	} {
		b := appendFacts(nil, &f, 7)
		got, written, ok := parseFacts(b)
		require.True(t, ok)
		require.Equal(t, f, got)
		require.EqualValues(t, 7, written)
		for i := range b {
			_, _, ok := parseFacts(b[:i])
			require.False(t, ok, "cut at %d", i)
		}
		_, _, ok = parseFacts(append(b, 0))
		require.False(t, ok)
	}
	_, _, ok := parseFacts(append([]byte{3}, make([]byte, 40)...))
	require.False(t, ok, "another version")
}

func FuzzParseFacts(f *testing.F) {
	f.Add(appendFacts(nil, &purge.Facts{Seq: 3, Host: "a", Path: "/"}, 2))
	f.Add([]byte{2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		if facts, written, ok := parseFacts(b); ok {
			again, still, ok := parseFacts(appendFacts(nil, &facts, written))
			require.True(t, ok)
			require.Equal(t, facts, again)
			require.Equal(t, written, still)
		}
	})
}
