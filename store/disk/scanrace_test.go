package disk

import (
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
)

// atIndex runs f until it waits for the index in one of the named methods, lets meanwhile
// happen, and then lets f go on.
func atIndex(d *Tier, methods string, f, meanwhile func()) {
	waits := regexp.MustCompile(`\(\*index\)\.(` + methods + `)\(`)
	d.index.mu.Lock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	stacks := make([]byte, 1<<20)
	for !waits.Match(stacks[:runtime.Stack(stacks, true)]) {
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

// The scan ends while somebody deletes what it hasn't come to: that's deleted by its name.
func TestTheScanEndsDuringADeletion(t *testing.T) {
	d := scanned(t, openTier(t, Options{}))
	k := key(1)
	require.Equal(t, store.Kept, d.Put(object(k, []byte("x"))))
	d.index.remove(&k)
	d.handles.drop(&k)
	d.scanned.Store(false)
	d.listed.Store(false)
	was := false
	atIndex(d, "look|lacks", func() { was = d.remove(&k) }, func() {
		d.scanned.Store(true)
		d.listed.Store(true)
	})
	assert.True(t, was)
	objects, _ := filesIn(t, d.files.dir)
	assert.Empty(t, objects)
}

// whileLocked keeps the key's file from being changed until f waits for that in the named
// method, and lets meanwhile happen there.
func whileLocked(d *Tier, k store.Key, method string, f, meanwhile func()) {
	mu := d.files.of(&k)
	mu.Lock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	stacks := make([]byte, 1<<20)
	for !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "(*Tier)."+method+"(") {
		runtime.Gosched()
	}
	meanwhile()
	mu.Unlock()
	<-done
}

// Between the look at an object and its deletion another takes its place, or its file is
// found: that one stays.
func TestDeleteObjectLeavesWhatCameMeanwhile(t *testing.T) {
	for name, c := range map[string]struct{ unread, unknown bool }{
		"found":   {},
		"unread":  {unread: true},
		"unknown": {unread: true, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := scanned(t, openTier(t, Options{}))
			k, o := key(1), object(key(1), []byte("x"))
			require.Equal(t, store.Kept, d.Put(o))
			if c.unread {
				d.reads.shut(syscall.EIO)
			}
			v, known := d.index.look(&k)
			require.True(t, known)
			if c.unknown {
				d.index.remove(&k)
				d.scanned.Store(false)
				d.listed.Store(false)
			} else {
				v.nonce++
			}
			deleted := true
			whileLocked(d, k, "removeUnless", func() { deleted = d.DeleteObject(o) }, func() { d.index.set(&k, v, 0) })
			assert.False(t, deleted)
			now, known := d.index.look(&k)
			assert.True(t, known)
			assert.Equal(t, v, now)
			objects, _ := filesIn(t, d.files.dir)
			assert.Len(t, objects, 1)
		})
	}
}

// A file that could not be deleted isn't found by whoever came to it just before.
func TestAFileIsLookedAtWhileItCannotBeDeleted(t *testing.T) {
	d := scanned(t, openTier(t, Options{}))
	k := key(1)
	require.Equal(t, store.Kept, d.Put(object(k, []byte("x"))))
	d.index.remove(&k)
	d.handles.drop(&k)
	d.scanned.Store(false)
	found := true
	whileLocked(d, k, "examine", func() { _, found = d.Get(k) }, func() { d.undeleted.add(&k, k, true) })
	assert.False(t, found)
	_, known := d.index.look(&k)
	assert.False(t, known)
}
