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
