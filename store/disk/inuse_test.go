package disk

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
)

// held is what the process keeps of files in a directory that have no name any more.
func held(t *testing.T, dir string) (bytes int64) {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc/self/fd here: ", err)
	}
	var seen []os.FileInfo // one file may have several descriptors
	for _, fd := range fds {
		path := filepath.Join("/proc/self/fd", fd.Name())
		to, _ := os.Readlink(path)
		st, err := os.Stat(path)
		if err != nil || !strings.HasPrefix(to, dir) || !strings.HasSuffix(to, "(deleted)") {
			continue
		}
		if !slices.ContainsFunc(seen, func(other os.FileInfo) bool { return os.SameFile(st, other) }) {
			seen = append(seen, st)
			bytes += onDisk(st.Size())
		}
	}
	return bytes
}

func named(t *testing.T, dir string) (bytes int64) {
	objects, temps := filesIn(t, dir)
	for _, path := range append(objects, temps...) {
		st, err := os.Stat(path)
		require.NoError(t, err)
		bytes += onDisk(st.Size())
	}
	return bytes
}

// Slow readers hold files, which are deleted, replaced, or were to be evicted: what is on
// the disk stays within the bound, and what nobody holds isn't thrown away in vain.
func TestWhatReadersHoldIsWithinTheBound(t *testing.T) {
	const most, size = 8 << 20, 1 << 20
	d := scanned(t, openTier(t, Options{MaxBytes: most}))
	check := func() {
		t.Helper()
		s := d.Stats()
		assert.LessOrEqual(t, s.Bytes, int64(most))
		assert.Equal(t, named(t, d.files.dir)+held(t, d.files.dir), s.Bytes)
	}
	require.Equal(t, store.Kept, d.Put(object(key(1000), []byte("nobody reads it"))))
	var open []store.File
	refused := 0
	for i := range 30 {
		k := key(i / 3 * 3) // each is replaced twice
		if d.Put(object(k, bytesOf(i, size))) != store.Kept {
			refused++
			continue
		}
		o, ok := d.Get(k)
		require.True(t, ok)
		f, err := o.Content.Open()
		require.NoError(t, err)
		_, err = f.Section(0, 1)
		require.NoError(t, err)
		open = append(open, f)
		if i%5 == 4 {
			d.Delete(k)
		}
		check()
	}
	assert.Len(t, open, 7)
	assert.Equal(t, 23, refused)
	assert.EqualValues(t, 23, d.Stats().Rejections[store.NoRoom])
	mustHave(t, d, key(1000), []byte("nobody reads it"))
	for _, f := range open {
		require.NoError(t, f.Close())
		check()
	}
	assert.Zero(t, held(t, d.files.dir))
	inUse, gone := d.index.read.counts()
	assert.Zero(t, inUse)
	assert.Zero(t, gone)
	for i := range 20 {
		require.Equal(t, store.Kept, d.Put(object(key(i), bytesOf(i, size))))
		check()
	}
}

// A body that is still read where it was written counts, too, when it has been stored and
// deleted; and fresh fields for a file that is being read don't count it twice.
func TestWhatASpoolHoldsIsCounted(t *testing.T) {
	d := scanned(t, openTier(t, Options{}))
	w, err := d.Create()
	require.NoError(t, err)
	_, err = w.Write(bytesOf(1, 1<<20))
	require.NoError(t, err)
	require.Equal(t, store.Kept, w.Commit(object(key(1), nil)))
	o, ok := d.Get(key(1))
	require.True(t, ok)
	f, err := o.Content.Open()
	require.NoError(t, err)
	require.Equal(t, store.Kept, d.Put(o.Freshened(o.Header.Header(), o.Life, when)))
	o, ok = d.Get(key(1))
	require.True(t, ok)
	g, err := o.Content.Open()
	require.NoError(t, err)
	bytes := d.Stats().Bytes
	assert.Equal(t, named(t, d.files.dir), bytes)
	d.Delete(key(1))
	for _, end := range []func() error{w.Close, f.Close, g.Close} {
		assert.Equal(t, bytes, d.Stats().Bytes)
		require.NoError(t, end())
	}
	assert.Zero(t, d.Stats().Bytes)
}
