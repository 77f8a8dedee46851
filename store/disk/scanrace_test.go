package disk

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
)

// atIndex runs f until it waits for the index in the named method, lets meanwhile happen,
// and then lets f go on.
func atIndex(d *Tier, method string, f, meanwhile func()) {
	d.index.mu.Lock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	stacks := make([]byte, 1<<20)
	for !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "(*index)."+method+"(") {
		runtime.Gosched()
	}
	meanwhile()
	d.index.mu.Unlock()
	<-done
}

// The scan comes to a file and ends between a request's look into the index and its
// question whether that has everything.
func TestTheScanEndsDuringALook(t *testing.T) {
	d := scanned(t, openTier(t, Options{}))
	unknown := func(k store.Key) { // as if the scan hadn't come to it
		require.Equal(t, store.Kept, d.Put(object(k, []byte("x"))))
		d.index.remove(&k)
		d.handles.drop(&k)
		d.scanned.Store(false)
		d.listed.Store(false)
	}
	ends := func() {
		d.scanned.Store(true)
		d.listed.Store(true)
	}
	unknown(key(1))
	atIndex(d, "look", func() { mustHave(t, d, key(1), []byte("x")) }, ends)

	// The record isn't overlooked, or the variants stored so far would be lost.
	require.Equal(t, store.Kept, d.Put(variant(key(3), key(4), []byte("v"), "accept")))
	p := key(3)
	d.index.remove(&p)
	d.handles.drop(&p)
	d.scanned.Store(false)
	var r *store.Record
	atIndex(d, "look", func() { r, _ = d.recordOf(&p) }, func() {})
	require.NotNil(t, r)
	assert.Equal(t, []store.Key{key(4)}, r.Variants)
}
