package middleware

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
)

// A response whose body is on the disk answers other queries too, as long as the
// process lives: what leads to it isn't found again afterwards, which is a miss, and
// never a response that was purged.
func TestNoVarySearchAndDisk(t *testing.T) {
	d := newDiskRig(t)
	d.header["No-Vary-Search"] = utm
	d.route = Route{NoVarySearch: true}
	d.restart()
	d.get("MISS", "/a?utm=1")
	d.get("HIT", "/a?utm=2")
	d.askedOrigin(1)
	_, err := d.mw.Purge(context.Background(), purge.Selector{Kind: purge.ExactURL, Host: "example.com", Path: "/a", Query: "utm=2"})
	require.NoError(t, err)
	d.get("HIT", "/a?utm=3")
	d.get("MISS", "/a?utm=2")
	d.get("HIT", "/a?utm=3")
	d.askedOrigin(1)
	d.restart()
	d.get("HIT", "/a?utm=1")
	d.get("HIT", "/a?utm=2")
	d.askedOrigin(0)
	d.get("MISS", "/a?utm=3")
	d.get("HIT", "/a?utm=4")
	d.get("HIT", "/a?utm=1")
	d.askedOrigin(1)
	d.restart()
	d.get("HIT", "/a?utm=3")
	d.get("MISS", "/a?utm=4")
	d.askedOrigin(1)
}

// What leads from one query to another isn't written to the disk, where nothing would
// use it.
func TestNoVarySearchWritesNothingMore(t *testing.T) {
	d := newDiskRig(t)
	d.body = []byte("small")
	d.header["No-Vary-Search"] = utm
	d.route = Route{NoVarySearch: true}
	d.restart()
	for _, path := range []string{"/a", "/b", "/c"} {
		d.get("MISS", path+"?utm=1")
		d.get("HIT", path+"?utm=2")
	}
	d.restart()
	require.Len(t, d.objects(), 3)
	d.get("MISS", "/a?utm=3")
	require.Zero(t, d.mw.Stats().PurgedLazily)
}

// watched is a disk that remembers which keys it was asked for.
type watched struct {
	store.SpoolTier
	mu    sync.Mutex
	asked map[store.Key]bool
}

func (w *watched) note(k store.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[k] = true
}

func (w *watched) Get(k store.Key) (*store.Object, bool) {
	w.note(k)
	return w.SpoolTier.Get(k)
}

func (w *watched) Put(o *store.Object) store.Rejection {
	w.note(o.Key)
	return w.SpoolTier.Put(o)
}

func (w *watched) Delete(k store.Key) bool {
	w.note(k)
	return w.SpoolTier.Delete(k)
}

// The record of a target's rules is in memory only: the disk isn't even asked for it,
// neither when there is none nor when there is one, is not to write it, and doesn't
// count it as refused.
func TestNoVarySearchRulesHaveNothingToDoWithTheDisk(t *testing.T) {
	d := newDiskRig(t)
	d.body = []byte("small")
	d.header["No-Vary-Search"] = utm
	d.route = Route{NoVarySearch: true}
	disk := &watched{asked: map[store.Key]bool{}}
	d.wrap = func(tier store.SpoolTier) store.SpoolTier {
		disk.SpoolTier = tier
		return disk
	}
	d.restart()
	d.get("MISS", "/a?utm=1")
	d.get("HIT", "/a?utm=2")
	d.header["No-Vary-Search"] = `params=("utm" "ref")` // a second rule
	d.get("MISS", "/a?utm=1&ref=1")
	d.get("HIT", "/a?ref=2")
	r, err := http.NewRequest("GET", "http://example.com/a?utm=1", nil)
	require.NoError(t, err)
	spec := d.mw.cfg.def.spec
	base, problem := spec.SearchBase(&cachekey.Input{Request: r})
	require.Equal(t, cachekey.NoProblem, problem)
	require.Len(t, d.mw.rulesOf(base), 2)
	primary, _ := spec.Primary(&cachekey.Input{Request: r})
	d.mw.store.Delete(store.Key(primary))
	d.stop() // whatever was to be written is written by then
	require.True(t, disk.asked[store.Key(primary)])
	require.False(t, disk.asked[store.Key(base)])
	st := disk.Stats()
	require.Zero(t, st.Rejections)
	d.start()
}
