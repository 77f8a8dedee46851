package disk

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
)

// oddities are things in the place of a file that can't be read, or not be replaced.
var oddities = map[string]func(t *testing.T, path string){
	"folder": func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) },
	"folder with something in it": func(t *testing.T, path string) {
		require.NoError(t, os.MkdirAll(filepath.Join(path, "x"), 0o700))
	},
	"loop": func(t *testing.T, path string) { require.NoError(t, os.Symlink(filepath.Base(path), path)) },
}

// One file that can't be read is that key's trouble alone: found by a request, by the
// scan, or when something is to take its place.
func TestOneOddFileIsItsKeysTroubleAlone(t *testing.T) {
	for name, put := range oddities {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			d := scanned(t, openTier(t, Options{Logger: logTo(&b)}))
			bad := key(1)
			for i := range 3 {
				require.Equal(t, store.Kept, d.Put(object(key(i), bytesOf(i, 100))))
			}
			spoil := func() {
				require.NoError(t, os.Remove(d.files.path(&bad)))
				put(t, d.files.path(&bad))
			}
			spoil()
			for range 3 {
				mustMiss(t, d, bad)
				mustHave(t, d, key(2), bytesOf(2, 100))
			}
			stays := strings.Contains(name, "something")
			want := store.Kept
			if stays {
				want = store.SwitchedOff
			}
			assert.Equal(t, want, d.Put(object(bad, []byte("new"))))
			if !stays {
				mustHave(t, d, bad, []byte("new"))
				spoil()
				assert.Equal(t, store.Kept, d.Put(object(bad, []byte("newer"))))
				mustHave(t, d, bad, []byte("newer"))
				spoil()
			}
			require.Equal(t, store.Kept, d.Put(object(key(3), bytesOf(3, 100))))
			d = scanned(t, reopened(t, d))
			mustMiss(t, d, bad)
			for _, i := range []int{0, 2, 3} {
				mustHave(t, d, key(i), bytesOf(i, 100))
			}
			assert.EqualValues(t, 3, d.Stats().Objects)
			assert.Zero(t, d.Stats().SwitchedOff)
			assert.Empty(t, b.String())
			keys, _ := d.Undeleted()
			if stays {
				assert.Equal(t, []store.Key{bad}, keys)
			} else {
				assert.Empty(t, keys)
			}
		})
	}
}

// Where many files are odd it's the disk that is at fault: it's left in peace, and what
// there is is found again afterwards.
func TestManyOddFilesAreTheDisksTrouble(t *testing.T) {
	var f faults
	d := scanned(t, openWith(t, Options{}, f.check))
	const n = 3 * maxOdd
	for i := range n {
		require.Equal(t, store.Kept, d.Put(object(key(i), []byte("x"))))
	}
	f.set("open", syscall.EACCES)
	for i := range n {
		mustMiss(t, d, key(i))
	}
	assert.EqualValues(t, 1, d.Stats().SwitchedOff)
	f.set("", nil)
	d.reads.passed()
	assert.EqualValues(t, n-maxOdd, d.Stats().Objects)
	for i := maxOdd; i < n; i++ {
		mustHave(t, d, key(i), []byte("x"))
	}
}

// A file that may not be written to can't be freshened. The others can.
func TestAFileThatCannotBeFreshened(t *testing.T) {
	var f faults
	d := scanned(t, openWith(t, Options{}, f.check))
	require.Equal(t, store.Kept, d.Put(object(key(1), []byte("x"))))
	o, ok := d.Get(key(1))
	require.True(t, ok)
	opens := 0
	d.files.fault = func(op, _ string) error {
		if op == "open" {
			if opens++; opens == 2 { // the first is to look at it
				return syscall.EPERM
			}
		}
		return nil
	}
	assert.Equal(t, store.Gone, d.Put(o.Freshened(o.Header.Header(), o.Life, when)))
	assert.Equal(t, 2, opens)
	mustMiss(t, d, key(1))
	assert.Equal(t, store.Kept, d.Put(object(key(1), []byte("y"))))
	assert.Zero(t, d.Stats().SwitchedOff)
}

// A few odd files now and then, over the days, aren't the disk's trouble.
func TestOddFilesNowAndThen(t *testing.T) {
	var o odd
	for i := range 10 * maxOdd {
		k := key(i)
		assert.False(t, o.another(&k, time.Duration(i)*oddSpan/(maxOdd-1)), i)
	}
	for i := range maxOdd + 2 {
		k := key(i)
		assert.Equal(t, i >= maxOdd, o.another(&k, time.Hour+time.Duration(i)*oddSpan/(2*maxOdd)), i)
	}
}

// Where the folder can't be gone through it's not the file that is odd.
func TestAnOddFolderIsTheDisksTrouble(t *testing.T) {
	d := scanned(t, openTier(t, Options{}))
	k := key(1)
	require.Equal(t, store.Kept, d.Put(object(k, []byte("x"))))
	folder := d.files.folder(&k)
	require.NoError(t, os.Rename(folder, folder+"-"))
	require.NoError(t, os.Symlink(filepath.Base(folder), folder))
	mustMiss(t, d, k)
	assert.EqualValues(t, 1, d.Stats().SwitchedOff)
	require.NoError(t, os.Remove(folder))
	require.NoError(t, os.Rename(folder+"-", folder))
	d.reads.passed()
	mustHave(t, d, k, []byte("x"))
}

// What the disk can't read is deleted, so that nobody waits for that again.
func TestAFileThatTheDiskCannotRead(t *testing.T) {
	var f faults
	d := scanned(t, openWith(t, Options{}, f.check))
	require.Equal(t, store.Kept, d.Put(object(key(1), []byte("x"))))
	f.set("read", syscall.EIO)
	mustMiss(t, d, key(1))
	f.set("", nil)
	d.reads.passed()
	mustMiss(t, d, key(1))
	objects, _ := filesIn(t, d.files.dir)
	assert.Empty(t, objects)
	assert.EqualValues(t, 1, d.Stats().SwitchedOff)
}
