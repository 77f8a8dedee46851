package disk

import (
	"io"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
)

// Anybody can make a process run out of files, by connections. What is stored stays.
func TestOutOfFilesIsNoReasonToDelete(t *testing.T) {
	for _, fault := range []error{syscall.EMFILE, syscall.ENFILE} {
		var f faults
		d := scanned(t, openWith(t, Options{}, f.check))
		require.Equal(t, store.Kept, d.Put(object(key(1), []byte("one"))))
		o, ok := d.Get(key(1))
		require.True(t, ok)
		d.handles.drop(&o.Key) // as when many others were sent since
		f.set("open", fault)
		_, err := o.Content.Open()
		assert.ErrorIs(t, err, store.ErrUnavailable)
		_, err = o.Load()
		assert.ErrorIs(t, err, store.ErrUnavailable)
		f.set("", nil)
		mustHave(t, d, key(1), []byte("one"))
		s := d.Stats()
		assert.Zero(t, s.SwitchedOff)
		assert.Equal(t, int64(2), s.OutOfFiles)

		d.Put(object(key(1), []byte("two")))
		_, err = o.Content.Open()
		assert.ErrorIs(t, err, store.ErrGone, "another took its place")
		// Who drops what was there doesn't drop what is there, whether he can look or not.
		d.handles.drop(&o.Key)
		f.set("open", fault)
		assert.False(t, d.DeleteObject(o))
		f.set("", nil)
		mustHave(t, d, key(1), []byte("two"))
	}
}

// A disk that is switched off says nothing about what is there either.
func TestSwitchedOffIsUnavailable(t *testing.T) {
	d := scanned(t, openTier(t, Options{}))
	d.Put(object(key(1), []byte("one")))
	o, _ := d.Get(key(1))
	d.handles.drop(&o.Key)
	d.reads.shut(syscall.EIO)
	_, err := o.Content.Open()
	assert.ErrorIs(t, err, store.ErrUnavailable)
	d.reads.passed()
	d.Delete(key(1))
	_, err = o.Content.Open()
	assert.ErrorIs(t, err, store.ErrGone)
}

func TestOutOfFilesOneResponseIsNotStored(t *testing.T) {
	var f faults
	d := scanned(t, openWith(t, Options{}, f.check))
	f.set("create", syscall.EMFILE)
	assert.Equal(t, store.OutOfFiles, d.Put(object(key(1), []byte("one"))))
	_, err := d.Create()
	assert.Equal(t, &store.RejectedError{Reason: store.OutOfFiles}, err)
	f.set("", nil)
	s := d.Stats()
	assert.Zero(t, s.SwitchedOff, "the next is stored at once")
	assert.Equal(t, [2]int64{2, 2}, [2]int64{s.OutOfFiles, s.Rejected(store.OutOfFiles)})
	assert.Equal(t, store.Kept, d.Put(object(key(1), []byte("one"))))
}

// A record that can't be looked at isn't made anew: the other variants would be lost.
func TestOutOfFilesVariantsStay(t *testing.T) {
	var f faults
	d := scanned(t, openWith(t, Options{}, f.check))
	p := key(1)
	require.Equal(t, store.Kept, d.Put(variant(p, key(2), []byte("two"), "accept")))
	d.handles.drop(&p)
	f.set("open", syscall.EMFILE)
	assert.Equal(t, store.SwitchedOff, d.Put(variant(p, key(3), []byte("three"), "accept")))
	f.set("", nil)
	mustHave(t, d, key(2), []byte("two"))
	mustMiss(t, d, key(3))
}

// However many files are being sent, a hit opens, reads and checks its own once.
func TestAHitOpensItsFileOnce(t *testing.T) {
	var opened atomic.Int64
	d := scanned(t, openWith(t, Options{MaxOpenFiles: 8}, func(op, _ string) error {
		if op == "open" {
			opened.Add(1)
		}
		return nil
	}))
	const sent, most = 10, 8
	for i := range sent + 20 {
		require.Equal(t, store.Kept, d.Put(object(key(i), bytesOf(i, 1000))))
	}
	var files []store.File
	for i := range sent {
		o, ok := d.Get(key(i))
		require.True(t, ok)
		f, err := o.Content.Open()
		require.NoError(t, err)
		files = append(files, f)
	}
	for i := sent; i < sent+20; i++ {
		before := opened.Load()
		o, ok := d.Get(key(i))
		require.True(t, ok)
		f, err := o.Content.Open()
		require.NoError(t, err)
		assert.Equal(t, int64(1), opened.Load()-before)
		r, err := f.Section(0, 1000)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, r)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		assert.LessOrEqual(t, d.handles.open, sent+most/4+1)
	}
	for _, f := range files {
		require.NoError(t, f.Close())
	}
	assert.LessOrEqual(t, d.handles.open, most)
	assert.Equal(t, d.handles.open, d.handles.unused)
}
