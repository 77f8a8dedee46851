package disk

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
)

// undeletable is a tier with so many objects, of which none could be deleted, and what
// counts the tries. It remembers at most so many keys.
func undeletable(t *testing.T, objects, most int) (d *Tier, f *faults, tries *int) {
	t.Helper()
	f, tries = new(faults), new(int)
	d = scanned(t, openWith(t, Options{}, func(op, path string) error {
		if op == "remove" {
			*tries++
		}
		return f.check(op, path)
	}))
	d.undeleted.max = most
	for i := range objects {
		require.Equal(t, store.Kept, d.Put(object(key(i), []byte("old"))))
	}
	f.set("remove", syscall.EROFS)
	for i := range objects {
		require.True(t, d.Delete(key(i)))
	}
	d.writes.passed()
	*tries = 0
	return d, f, tries
}

// A disk that still can't delete is left in peace after one try.
func TestDeletingLaterEndsWithTheFirstFault(t *testing.T) {
	d, _, tries := undeletable(t, 5, 10)
	d.sweep(t.Context())
	assert.Equal(t, 1, *tries)
	keys, over := d.undeleted.list()
	assert.Len(t, keys, 5)
	assert.Zero(t, over)
}

// As long as there may be one left of those that aren't remembered by their keys, no file
// is found by its name.
func TestDeletingLaterGoesOnUntilNoneIsLeft(t *testing.T) {
	d, f, _ := undeletable(t, 3, 0)
	d.sweep(t.Context())
	_, over := d.undeleted.list()
	assert.Equal(t, 3, over)
	d.scanned.Store(false)
	mustMiss(t, d, key(1))
	f.set("", nil)
	d.writes.passed()
	d.sweep(t.Context())
	_, over = d.undeleted.list()
	assert.Zero(t, over)
	assert.False(t, d.undeleted.some.Load())
	objects, _ := filesIn(t, d.files.dir)
	assert.Empty(t, objects)

	u := undeleted{over: 2, max: 1}
	u.some.Store(true)
	u.allThere(1) // there was another while they were deleted
	assert.Equal(t, 2, u.over)
	assert.True(t, u.some.Load())
}

// A file of another version isn't this one's to delete, then either.
func TestDeletingLaterLeavesOtherVersions(t *testing.T) {
	d, f, _ := undeletable(t, 2, 0)
	rewrite(t, d, key(1), 0, func(b []byte) {
		b[8]++
		b[12], b[13], b[14], b[15] = le32(checksum(b[:12]))
	}, slotSize)
	f.set("", nil)
	d.sweep(t.Context())
	objects, _ := filesIn(t, d.files.dir)
	k := key(1)
	assert.Equal(t, []string{d.files.path(&k)}, objects)
	_, over := d.undeleted.list()
	assert.Zero(t, over)
}

// What can't be deleted is tried again after a minute, however much is written meanwhile.
func TestDeletingLaterIsNotTriedAtEachWrite(t *testing.T) {
	d, _, _ := undeletable(t, 1, 10)
	u := &d.undeleted
	require.Equal(t, store.Kept, d.Put(object(key(7), nil)))
	require.Eventually(t, func() bool { return u.after.Load() > 0 }, 10*time.Second, time.Millisecond)
	d.writes.passed()
	assert.InDelta(t, float64(d.writes.now()+retryAfter), float64(u.after.Load()), float64(retryAfter/2))
	require.Equal(t, store.Kept, d.Put(object(key(8), nil)))
	assert.Empty(t, u.again)
	d.writes.start = d.writes.start.Add(-retryAfter)
	u.after.Add(-int64(retryAfter)) // passed moved the clock by less
	d.retryDeletions()
	require.Eventually(t, func() bool { return len(u.again) == 0 && u.after.Load() > int64(retryAfter) }, 10*time.Second, time.Millisecond)
}

// The scan comes to a file that could not be deleted before it.
func TestTheScanLeavesOutWhatCouldNotBeDeleted(t *testing.T) {
	d, f, _ := undeletable(t, 1, 10)
	f.set("", nil)
	k := key(0)
	unread, left := d.scanFile(filepath.Base(d.files.path(&k)), k[0])
	assert.False(t, unread)
	assert.False(t, left)
	_, known := d.index.look(&k)
	assert.False(t, known)
	mustMiss(t, d, k)
	_, err := os.Stat(d.files.path(&k))
	assert.NoError(t, err)
}
