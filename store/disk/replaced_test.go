package disk

import (
	"bytes"
	"os"
	"regexp"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
)

// A file was to be evicted, and before it's deleted its key has another.
func TestWhatIsStoredAgainIsNotEvicted(t *testing.T) {
	d := scanned(t, openTier(t, Options{}))
	require.Equal(t, store.Kept, d.Put(object(key(1), []byte("old"))))
	k, _, ok := d.index.shed()
	require.True(t, ok)
	require.Equal(t, store.Kept, d.Put(object(key(1), []byte("new"))))
	d.evict(&k)
	mustHave(t, d, key(1), []byte("new"))
	assert.Zero(t, d.index.leaving)
}

// A reader of a file that has been replaced comes to damage in it. The new one has none.
func TestDamageInAReplacedFileIsNotTheNewOnes(t *testing.T) {
	d := openTier(t, Options{})
	old, next := bytesOf(1, 3<<20), bytesOf(2, 3<<20)
	require.Equal(t, store.Kept, d.Put(object(key(1), old)))
	o, ok := d.Get(key(1))
	require.True(t, ok)
	f, err := o.Content.Open()
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	rewrite(t, d, key(1), bodyAt+2<<20, flip, 1)
	require.Equal(t, store.Kept, d.Put(object(key(1), next)))
	_, err = sendAll(f, 3<<20)
	require.ErrorIs(t, err, store.ErrCorrupt)
	mustHave(t, d, key(1), next)
}

// A whole file of another key in a key's place isn't the key's.
func TestAFileUnderAnotherKeysName(t *testing.T) {
	d := scanned(t, openTier(t, Options{}))
	require.Equal(t, store.Kept, d.Put(object(key(2), []byte("two"))))
	require.Equal(t, store.Kept, d.Put(object(key(1), []byte("one"))))
	one, two := key(1), key(2)
	b, err := os.ReadFile(d.files.path(&two))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(d.files.path(&one), b, 0o600))
	d.index.remove(&one)
	d.handles.drop(&one)
	d.scanned.Store(false)
	mustMiss(t, d, key(1))
	assert.EqualValues(t, 1, d.Stats().Corrupt)
	_, err = os.Stat(d.files.path(&one))
	assert.ErrorIs(t, err, os.ErrNotExist)
	mustHave(t, d, key(2), []byte("two"))
}

// Files that are deleted in the instant in which they were made, when the time of their
// last change says nothing.
func TestAFileDeletedAtOnceIsNotFound(t *testing.T) {
	d := scanned(t, openTier(t, Options{}))
	for i := range 200 {
		k := key(i)
		require.Equal(t, store.Kept, d.Put(object(k, []byte("x"))))
		mustHave(t, d, k, []byte("x"))
		require.NoError(t, os.Remove(d.files.path(&k)))
		mustMiss(t, d, k)
	}
	assert.Zero(t, d.Stats().Objects)
}

// Whoever comes with a whole file when the tier has been closed doesn't give it its name:
// the directory may be another's by then.
func TestClosedBeforeAFileHasItsName(t *testing.T) {
	d := scanned(t, openTier(t, Options{}))
	r := store.Kept
	whileLocked(d, key(1), "publish", func() { r = d.Put(object(key(1), []byte("x"))) }, func() {
		require.NoError(t, d.Close(t.Context()))
	})
	assert.Equal(t, store.SwitchedOff, r)
	objects, temps := filesIn(t, d.files.dir)
	assert.Empty(t, objects)
	assert.Empty(t, temps)
	openTier(t, Options{Dir: d.files.dir}) // nor does it take the directory again
}

// Close waits for the scan, which uses the directory.
func TestCloseWaitsForTheScan(t *testing.T) {
	d := scanned(t, openTier(t, Options{}))
	require.Equal(t, store.Kept, d.Put(object(key(1), []byte("x"))))
	require.NoError(t, d.Close(t.Context()))
	scans, goOn := make(chan struct{}), make(chan struct{})
	d = openWith(t, Options{Dir: d.files.dir}, func(op, _ string) error {
		if op == "open" {
			close(scans)
			<-goOn
		}
		return nil
	})
	<-scans
	closed := make(chan error, 1)
	go func() { closed <- d.Close(t.Context()) }()
	waits := regexp.MustCompile(`\[select[^\]]*\]:\n[^\n]*\(\*Tier\)\.Close\(`)
	stacks := make([]byte, 1<<20)
	for !waits.Match(stacks[:runtime.Stack(stacks, true)]) {
		select {
		case <-closed:
			close(goOn)
			t.Fatal("it's closed while the scan goes on")
		default:
			runtime.Gosched()
		}
	}
	close(goOn)
	require.NoError(t, <-closed)
}

// A full disk loses a sixteenth of what there is at a time, and no more than 64 files.
func TestAFullDiskLosesLittleAtATime(t *testing.T) {
	for name, c := range map[string]struct{ large, lost int }{
		"a sixteenth": {0, 7},
		"64 files":    {5 << 20, shedFiles},
	} {
		t.Run(name, func(t *testing.T) {
			d := scanned(t, openTier(t, Options{}))
			const n = 100
			for i := range n {
				require.Equal(t, store.Kept, d.Put(object(key(i), []byte("x"))))
			}
			want := int64(n - c.lost)
			if c.large > 0 {
				want++
				require.Equal(t, store.Kept, d.Put(object(key(n), bytes.Repeat([]byte("x"), c.large))))
			}
			d.shed(syscall.ENOSPC)
			assert.Equal(t, want, d.Stats().Objects)
			d.shed(syscall.EIO)
			assert.Equal(t, want, d.Stats().Objects)
			objects, _ := filesIn(t, d.files.dir)
			assert.Len(t, objects, int(want))
		})
	}
}
