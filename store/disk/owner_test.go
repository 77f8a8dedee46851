package disk

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
)

// Somebody deletes the directory, or the lock in it, and another process opens it anew:
// the first one leaves all in it alone, until the other has ended.
func TestADirectoryWithASecondOwner(t *testing.T) {
	for _, gone := range []string{".", lockName} {
		t.Run(gone, func(t *testing.T) {
			a := scanned(t, openTier(t, Options{}))
			theirs := func(n int) *store.Object { return object(key(n), bytesOf(100+n, 1000)) }
			for i := range 6 {
				require.Equal(t, store.Kept, a.Put(object(key(i), bytesOf(i, 1000))))
			}
			o, ok := a.Get(key(4))
			require.True(t, ok)
			require.NoError(t, os.RemoveAll(filepath.Join(a.files.dir, gone)))
			b := scanned(t, openTier(t, Options{Dir: a.files.dir}))
			for i := range 6 {
				require.Equal(t, store.Kept, b.Put(theirs(i)))
			}
			a.Delete(key(0))
			a.DeleteObject(object(key(1), nil))
			assert.NotEqual(t, store.Kept, a.Put(object(key(2), []byte("mine"))))
			a.writes.passed()
			assert.NotEqual(t, store.Kept, a.Put(o.Freshened(o.Header.Header(), o.Life, when)))
			a.reads.passed()
			mustMiss(t, a, key(3))
			a.reads.passed()
			evicted := key(5)
			a.index.remove(&evicted)
			a.index.leaving++
			a.evict(&evicted)
			for i := range 6 {
				mustHave(t, b, key(i), theirs(i).Body)
			}

			require.NoError(t, b.Close(t.Context()))
			a.reads.passed()
			a.writes.passed()
			mustMiss(t, a, key(3)) // it's not what was stored
			require.Equal(t, store.Kept, a.Put(object(key(3), []byte("mine"))))
			mustHave(t, a, key(3), []byte("mine"))
			_, err := Open(Options{Dir: a.files.dir})
			var locked *LockedError
			assert.ErrorAs(t, err, &locked)
		})
	}
}

// What somebody else has meanwhile isn't this one's to delete, so that it's neither left
// undeleted nor the fault of the disk.
func TestASecondOwnersFilesAreNotLeftUndeleted(t *testing.T) {
	a := scanned(t, openTier(t, Options{}))
	require.Equal(t, store.Kept, a.Put(object(key(0), []byte("mine"))))
	require.NoError(t, os.RemoveAll(a.files.dir))
	b := scanned(t, openTier(t, Options{Dir: a.files.dir}))
	require.Equal(t, store.Kept, b.Put(object(key(0), []byte("theirs"))))
	assert.False(t, a.Delete(key(0)))
	keys, all := a.Undeleted()
	assert.Empty(t, keys)
	assert.False(t, all)
	assert.Zero(t, a.Stats().SwitchedOff)
	mustHave(t, b, key(0), []byte("theirs"))
}
