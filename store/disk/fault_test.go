package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
)

func logTo(b *bytes.Buffer) *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// passed lets a gate's pause be over.
func (g *gate) passed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.start = g.start.Add(-g.pause)
}

func TestGateOpensByItselfAndSpeaksOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		g := gate{what: "write", log: logTo(&b), start: time.Now()}
		lines := func() int { return strings.Count(b.String(), "\n") }
		require.True(t, g.open())
		for pause := range 8 {
			for range 5 {
				g.shut(syscall.ENOSPC) // all that were under way
			}
			want := min(time.Second<<pause, time.Minute)
			time.Sleep(want - 1)
			require.False(t, g.open())
			time.Sleep(time.Nanosecond)
			require.True(t, g.open())
			assert.Equal(t, 1, lines())
			assert.EqualValues(t, 1, g.episodes.Load())
		}
		time.Sleep(time.Minute)
		g.shut(syscall.ENOSPC)
		assert.Equal(t, 2, lines())
		assert.EqualValues(t, 2, g.episodes.Load())
		time.Sleep(time.Second)
		assert.True(t, g.open())
	})
}

// faults fails the named operations with an error.
type faults struct{ op, err atomic.Value }

func (f *faults) set(op string, err error) { f.op.Store(op); f.err.Store(&err) }

func (f *faults) check(op, _ string) error {
	if v, _ := f.op.Load().(string); v == op {
		return *f.err.Load().(*error)
	}
	return nil
}

func TestEveryOperationMayFail(t *testing.T) {
	for _, op := range []string{"create", "write", "rename", "sync", "open", "read"} {
		for _, fault := range []error{syscall.ENOSPC, syscall.EIO, syscall.ESTALE, syscall.EROFS} {
			t.Run(op+" "+fault.Error(), func(t *testing.T) {
				var b bytes.Buffer
				var f faults
				d := scanned(t, openWith(t, Options{Logger: logTo(&b), Sync: SyncName}, f.check))
				require.Equal(t, store.Kept, d.Put(object(key(1), []byte("one"))))
				require.Equal(t, store.Kept, d.Put(object(key(2), []byte("two"))))
				mustHave(t, d, key(1), []byte("one"))
				f.set(op, fault)
				reading := op == "open" || op == "read"
				if reading {
					mustMiss(t, d, key(2)) // 1 is open
				}
				if op == "sync" {
					r := d.Put(object(key(3), nil))
					assert.Equal(t, store.SwitchedOff, r)
				} else {
					assert.Equal(t, store.SwitchedOff, d.Put(object(key(3), []byte("three"))))
				}
				assert.Equal(t, store.SwitchedOff, d.Put(object(key(3), []byte("three"))))
				_, err := d.Create()
				assert.Error(t, err)
				assert.EqualValues(t, 1, d.Stats().SwitchedOff)
				assert.Equal(t, 1, strings.Count(b.String(), "\n"), b.String())
				_, temps := filesIn(t, d.files.dir)
				assert.Empty(t, temps)

				f.set("", nil)
				d.reads.passed()
				d.writes.passed()
				require.Equal(t, store.Kept, d.Put(object(key(3), []byte("three"))))
				mustHave(t, d, key(3), []byte("three"))
				if !reading && fault != syscall.ENOSPC {
					mustHave(t, d, key(2), []byte("two"))
				}
				assert.Equal(t, 1, strings.Count(b.String(), "\n"))
				n := d.Stats()
				objects, _ := filesIn(t, d.files.dir)
				assert.EqualValues(t, len(objects), n.Objects)
			})
		}
	}
}

// What couldn't be deleted isn't found again, in the index or by its name.
func TestAFileThatCannotBeDeletedIsNotFound(t *testing.T) {
	var f faults
	d := openWith(t, Options{}, f.check)
	d.Put(object(key(1), []byte("one")))
	d.Put(variant(key(2), key(3), []byte("v"), "accept"))
	f.set("remove", syscall.EROFS)
	d.scanned.Store(false)
	assert.True(t, d.Delete(key(1)))
	assert.True(t, d.Delete(key(2)))
	mustMiss(t, d, key(1))
	mustMiss(t, d, key(2))
	mustMiss(t, d, key(3))
	assert.False(t, d.Delete(key(1)))
	f.set("", nil)
	d.writes.passed()
	require.Equal(t, store.Kept, d.Put(object(key(1), []byte("new"))))
	mustHave(t, d, key(1), []byte("new"))
	mustMiss(t, d, key(3))
}

// What couldn't be deleted is told to the caller, once, by its primary key: after a
// restart it's there again.
func TestTheCallerIsToldOfWhatCannotBeDeleted(t *testing.T) {
	var f faults
	dir := t.TempDir()
	d := openWith(t, Options{Dir: dir}, f.check)
	told := func(want ...store.Key) {
		t.Helper()
		keys, all := d.Undeleted()
		assert.Equal(t, want, keys)
		assert.False(t, all)
	}
	d.Put(object(key(1), []byte("one")))
	d.Put(variant(key(2), key(3), []byte("v"), "accept"))
	d.Put(object(key(4), []byte("four")))
	d.Delete(key(4))
	told()
	f.set("remove", syscall.EIO)
	d.Delete(key(1))
	d.Delete(key(1))
	told(key(1))
	told()
	d.Delete(key(2))
	told(key(2), key(2)) // the record and the variant
	require.NoError(t, d.Close(t.Context()))
	d = openWith(t, Options{Dir: dir}, nil)
	mustHave(t, d, key(1), []byte("one"))
	mustHave(t, d, key(3), []byte("v"))
	mustMiss(t, d, key(4))

	var u undeleted
	for i := range maxUndeleted + 1 {
		u.tell(store.Key{byte(i), byte(i >> 8), byte(i >> 16)})
	}
	keys, all := u.take()
	assert.Empty(t, keys)
	assert.True(t, all)
	_, all = u.take()
	assert.False(t, all)
}

// Where names are forced out to the disk, so is that one is no more; if that fails, it
// counts as not deleted.
func TestADeletionIsForcedOut(t *testing.T) {
	var f faults
	d := openWith(t, Options{Sync: SyncName}, f.check)
	d.Put(object(key(1), []byte("one")))
	f.set("sync", syscall.EIO)
	assert.True(t, d.Delete(key(1)))
	mustMiss(t, d, key(1))
	keys, _ := d.Undeleted()
	assert.Equal(t, []store.Key{key(1)}, keys)
}

func TestTooManyOpenFilesIsOnlyAMiss(t *testing.T) {
	var f faults
	d := openWith(t, Options{}, f.check)
	d.Put(object(key(1), []byte("one")))
	f.set("open", syscall.EMFILE)
	mustMiss(t, d, key(1))
	f.set("", nil)
	mustHave(t, d, key(1), []byte("one"))
	assert.Zero(t, d.Stats().SwitchedOff)
}

// A write into a body under way fails: what is there can still be read, and
// nothing of it becomes visible.
func TestASpoolThatFails(t *testing.T) {
	var f faults
	d := openWith(t, Options{}, f.check)
	w, err := d.Create()
	require.NoError(t, err)
	some := bytesOf(1, 100_000)
	_, err = w.Write(some)
	require.NoError(t, err)
	f.set("write", syscall.ENOSPC)
	_, err = w.Write(some)
	require.ErrorIs(t, err, syscall.ENOSPC)
	f.set("", nil)
	b := make([]byte, 2*len(some))
	n, err := w.ReadAt(b, 0)
	assert.Equal(t, io.EOF, err)
	assert.Equal(t, some, b[:n])
	assert.Equal(t, store.SwitchedOff, w.Commit(object(key(1), nil)))
	require.NoError(t, w.Close())
	mustMiss(t, d, key(1))
	assert.Zero(t, d.Stats().Bytes)
}

// mount mounts a small file system.
func mount(t *testing.T, options string) (dir string) {
	dir = t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options)
	privileged(t, err, "mounting a tmpfs")
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

func TestAFullDisk(t *testing.T) {
	for name, options := range map[string]string{"bytes": "size=2m", "inodes": "size=64m,nr_inodes=350"} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			root := mount(t, options)
			d := scanned(t, openTier(t, Options{Dir: filepath.Join(root, "cache"), Logger: logTo(&b)}))
			kept, off := 0, 0
			for i := range 400 {
				body := bytesOf(i, 20_000)
				switch r := d.Put(object(key(i), body)); r {
				case store.Kept:
					kept++
					mustHave(t, d, key(i), body)
				case store.SwitchedOff:
					off++
					d.writes.passed()
				default:
					t.Fatal(r)
				}
			}
			// It makes room for itself and goes on.
			assert.Greater(t, kept, 200)
			assert.Greater(t, off, 0)
			assert.Equal(t, 1, strings.Count(b.String(), "\n"), b.String())
			_, temps := filesIn(t, d.files.dir)
			assert.Empty(t, temps)
			d = scanned(t, reopened(t, d))
			assert.Zero(t, d.Stats().Corrupt)
			found := 0
			for i := range 400 {
				if got, ok := bodyOf(d, key(i)); ok {
					found++
					require.True(t, bytes.Equal(got, bytesOf(i, 20_000)))
				}
			}
			assert.EqualValues(t, d.Stats().Objects, found)
			assert.Greater(t, found, 10)
		})
	}
}

func TestADiskThatTurnsReadOnly(t *testing.T) {
	var b bytes.Buffer
	root := mount(t, "size=8m")
	remount := func(flags uintptr) {
		require.NoError(t, syscall.Mount("", root, "", syscall.MS_REMOUNT|flags, ""))
	}
	d := scanned(t, openTier(t, Options{Dir: filepath.Join(root, "cache"), Logger: logTo(&b)}))
	for i := range 5 {
		d.Put(object(key(i), bytesOf(i, 300_000)))
	}
	remount(syscall.MS_RDONLY)
	for i := range 5 {
		mustHave(t, d, key(i), bytesOf(i, 300_000))
	}
	for range 20 {
		assert.Equal(t, store.SwitchedOff, d.Put(object(key(9), nil)))
	}
	assert.Equal(t, 1, strings.Count(b.String(), "\n"), b.String())
	assert.True(t, d.Delete(key(0)))
	mustMiss(t, d, key(0))
	remount(0)
	d.writes.passed()
	require.Equal(t, store.Kept, d.Put(object(key(9), []byte("x"))))
	mustHave(t, d, key(9), []byte("x"))
	mustMiss(t, d, key(0))
	assert.EqualValues(t, 1, d.Stats().SwitchedOff)
}

func TestTheDirectoryIsRemovedAtRunTime(t *testing.T) {
	var b bytes.Buffer
	d := scanned(t, openTier(t, Options{Logger: logTo(&b)}))
	for i := range 20 {
		require.Equal(t, store.Kept, d.Put(object(key(i), bytesOf(i, 200_000))))
	}
	mustHave(t, d, key(1), bytesOf(1, 200_000))
	o, _ := d.Get(key(1))
	reading, err := o.Content.Open()
	require.NoError(t, err)
	w, err := d.Create()
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(d.files.dir))
	for i := range 20 {
		mustMiss(t, d, key(i))
	}
	assert.Zero(t, d.Stats().Objects)
	got, err := sendAll(reading, 200_000) // it has been opened before
	require.NoError(t, err)
	assert.True(t, bytes.Equal(got, bytesOf(1, 200_000)))
	require.NoError(t, reading.Close())
	_, err = w.Write([]byte("lost"))
	require.NoError(t, err)
	assert.Equal(t, store.SwitchedOff, w.Commit(object(key(1), nil)))
	require.NoError(t, w.Close())

	require.Equal(t, store.Kept, d.Put(object(key(1), []byte("again"))))
	mustHave(t, d, key(1), []byte("again"))
	assert.Empty(t, b.String(), "that was no fault of the disk")
	_, err = Open(Options{Dir: d.files.dir})
	var locked *LockedError
	assert.ErrorAs(t, err, &locked, "the new directory is locked too")
}

func TestFilesDeletedUnderTheProcess(t *testing.T) {
	d := scanned(t, openTier(t, Options{}))
	body := bytesOf(1, 3<<20)
	d.Put(object(key(1), body))
	d.Put(object(key(2), body))
	mustHave(t, d, key(1), body) // open; 2 isn't
	o, _ := d.Get(key(1))
	f, err := o.Content.Open()
	require.NoError(t, err)
	for _, n := range []int{1, 2} {
		k := key(n)
		require.NoError(t, os.Remove(d.files.path(&k)))
	}
	mustMiss(t, d, key(1))
	mustMiss(t, d, key(2))
	got, err := sendAll(f, 3<<20)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(body, got))
	require.NoError(t, f.Close())
	assert.Zero(t, d.Stats().Objects)
}

// A file that somebody cuts while it's sent ends the response with an error.
func TestAFileCutUnderAReader(t *testing.T) {
	d := openTier(t, Options{})
	body := bytesOf(1, 3<<20)
	d.Put(object(key(1), body))
	o, _ := d.Get(key(1))
	f, err := o.Content.Open()
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	s, err := f.Section(0, 3<<20)
	require.NoError(t, err)
	require.Less(t, s.N, int64(2<<20))
	k := key(1)
	require.NoError(t, os.Truncate(d.files.path(&k), 1<<20))
	_, err = sendAll(f, 3<<20)
	require.Error(t, err)
	mustMiss(t, d, key(1))
}

func TestClosedTier(t *testing.T) {
	d := openTier(t, Options{})
	d.Put(object(key(1), nil))
	w, err := d.Create()
	require.NoError(t, err)
	require.NoError(t, d.Close(t.Context()))
	mustMiss(t, d, key(1))
	assert.Equal(t, store.SwitchedOff, d.Put(object(key(2), nil)))
	assert.Equal(t, store.SwitchedOff, w.Commit(object(key(3), nil)))
	require.NoError(t, w.Close())
	require.NoError(t, d.Close(t.Context()))
}

func TestOpenFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Open(Options{Dir: filepath.Join(file, "cache")})
	require.Error(t, err)
	assert.True(t, errors.Is(err, syscall.ENOTDIR), fmt.Sprint(err))
}

// More files can't be deleted than are remembered. What the index has is found all the
// same, and once the disk can be written to again, all of them are deleted.
func TestTooManyUndeletedEndsByItself(t *testing.T) {
	var f faults
	d := openWith(t, Options{}, f.check)
	scanned(t, d)
	d.undeleted.max = 3
	for i := range 12 {
		require.Equal(t, store.Kept, d.Put(object(key(i), []byte("old"))))
	}
	f.set("remove", syscall.EROFS)
	for i := range 8 {
		assert.True(t, d.Delete(key(i)))
	}
	_, all := d.Undeleted()
	assert.True(t, all)
	for i := range 8 { // each was told of already
		d.Delete(key(i))
		mustMiss(t, d, key(i))
	}
	keys, all := d.Undeleted()
	assert.Empty(t, keys)
	assert.False(t, all)
	d.scanned.Store(false)
	for i := range 8 {
		mustMiss(t, d, key(i))
	}
	mustHave(t, d, key(9), []byte("old"))
	d.Delete(key(9))
	keys, all = d.Undeleted()
	assert.Equal(t, []store.Key{key(9)}, keys)
	assert.False(t, all)
	d.scanned.Store(true)

	f.set("", nil)
	d.writes.passed()
	require.Equal(t, store.Kept, d.Put(object(key(0), []byte("new"))))
	require.Equal(t, store.Kept, d.Put(object(key(20), []byte("new"))))
	require.Eventually(t, func() bool {
		objects, _ := filesIn(t, d.files.dir)
		return len(objects) == 5 && !d.undeleted.some.Load()
	}, 10*time.Second, time.Millisecond)
	mustHave(t, d, key(0), []byte("new"))
	mustHave(t, d, key(20), []byte("new"))
	mustHave(t, d, key(11), []byte("old"))
	mustMiss(t, d, key(1))
	assert.EqualValues(t, 5, d.Stats().Objects)
}

// What isn't there isn't deleted: no system call once the index is whole, and before no
// fault of a disk that refuses whatever the name leads to.
func TestWhatIsNotThereCannotFailToBeDeleted(t *testing.T) {
	removes := 0
	d := openWith(t, Options{}, func(op, _ string) error {
		if op == "remove" {
			removes++
			return syscall.EROFS
		}
		return nil
	})
	scanned(t, d)
	for i := range 20 {
		assert.False(t, d.Delete(key(i)))
	}
	assert.Zero(t, removes)
	d.listed.Store(false)
	for i := range 20 {
		assert.False(t, d.Delete(key(i)))
	}
	assert.Equal(t, 20, removes)
	keys, all := d.Undeleted()
	assert.Empty(t, keys)
	assert.False(t, all)
	assert.Zero(t, d.Stats().SwitchedOff)
	require.Equal(t, store.Kept, d.Put(object(key(1), nil)))
}

// A file that the scan left out is deleted by its name: one of another version, which
// would find it again, or one that couldn't be read just then.
func TestWhatTheScanLeftOutIsDeleted(t *testing.T) {
	for name, fault := range map[string]error{"version": nil, "unread": syscall.EMFILE} {
		t.Run(name, func(t *testing.T) {
			d := scanned(t, openTier(t, Options{}))
			require.Equal(t, store.Kept, d.Put(object(key(1), []byte("old"))))
			if fault == nil {
				rewrite(t, d, key(1), 0, func(b []byte) {
					b[8]++
					b[12], b[13], b[14], b[15] = le32(checksum(b[:12]))
				}, slotSize)
			}
			require.NoError(t, d.Close(t.Context()))
			var f faults
			if fault != nil {
				f.set("open", fault)
			}
			d = scanned(t, openWith(t, Options{Dir: d.files.dir}, f.check))
			f.set("", nil)
			if fault != nil {
				mustHave(t, d, key(1), []byte("old"))
			}
			assert.True(t, d.Delete(key(1)))
			objects, _ := filesIn(t, d.files.dir)
			assert.Empty(t, objects)
		})
	}
}

// Between the choice of a file to be evicted and its end the index doesn't know it any
// more, and somebody deletes it.
func TestDeletedWhileItIsEvicted(t *testing.T) {
	d := scanned(t, openTier(t, Options{}))
	require.Equal(t, store.Kept, d.Put(object(key(1), []byte("x"))))
	k, _, ok := d.index.shed()
	require.True(t, ok)
	assert.True(t, d.Delete(key(1)))
	objects, _ := filesIn(t, d.files.dir)
	assert.Empty(t, objects)
	d.evict(&k)
	assert.Zero(t, d.index.leaving)
}

// What can't be looked at just now is deleted all the same: the disk is left in peace, or
// the process has too many open files.
func TestDeleteObjectWithoutALook(t *testing.T) {
	for name, fault := range map[string]error{"gate": nil, "descriptors": syscall.EMFILE} {
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprint(name, known), func(t *testing.T) {
				var f faults
				d := scanned(t, openWith(t, Options{}, f.check))
				o := object(key(1), []byte("x"))
				require.Equal(t, store.Kept, d.Put(o))
				k := key(1)
				if !known {
					d.scanned.Store(false)
					d.listed.Store(false)
					d.index.remove(&k)
				}
				if fault == nil {
					d.reads.shut(syscall.EIO)
				} else {
					f.set("open", fault)
				}
				assert.True(t, d.DeleteObject(o))
				f.set("", nil)
				d.reads.passed()
				mustMiss(t, d, k)
				objects, _ := filesIn(t, d.files.dir)
				assert.Empty(t, objects)
			})
		}
	}
}
