package middleware

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/purge"
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
