package disk

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"math/rand/v2"

	"github.com/weirhttp/weir/store"
)

// The names in a tier's directory, beside the 256 folders for objects.
const (
	lockName = "LOCK"
	tempName = "tmp"
	suffix   = ".weir"
)

// files are a tier's directory. Every change of what a name leads to is made
// with the lock of the name's key.
type files struct {
	dir   string
	run   string // begins the names of this process's temporary files
	count atomic.Uint64
	locks [256]sync.Mutex

	relock sync.Mutex
	lock   *dirLock

	// fault makes operations fail in tests; nil otherwise.
	fault func(op, path string) error
}

func newFiles(dir string) (*files, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	f := &files{dir: dir, run: strconv.FormatUint(rand.Uint64(), 36) + "-"}
	if err := f.makeDirs(); err != nil {
		return nil, err
	}
	f.lock, err = lockDir(filepath.Join(dir, lockName))
	return f, err
}

func (f *files) makeDirs() error { return os.MkdirAll(filepath.Join(f.dir, tempName), 0o700) }

// restore makes the directory anew if it has disappeared, and locks it.
func (f *files) restore() error {
	f.relock.Lock()
	defer f.relock.Unlock()
	if err := f.makeDirs(); err != nil {
		return err
	}
	name := filepath.Join(f.dir, lockName)
	if f.lock.holds(name) {
		return nil
	}
	l, err := lockDir(name)
	if err != nil {
		return err
	}
	old := f.lock
	f.lock = l
	return old.unlock()
}

// ours returns nil if the directory's lock is this process's, or becomes it now because
// there was none any more. If another process has it, nothing there is ours. It costs
// two system calls.
func (f *files) ours() error {
	f.relock.Lock()
	holds := f.lock.holds(filepath.Join(f.dir, lockName))
	f.relock.Unlock()
	if holds {
		return nil
	}
	return f.restore()
}

func (f *files) close() error {
	f.relock.Lock()
	defer f.relock.Unlock()
	return f.lock.unlock()
}

func (f *files) of(k *store.Key) *sync.Mutex { return &f.locks[k[len(k)-1]] }

func (f *files) folder(k *store.Key) string {
	return filepath.Join(f.dir, hex.EncodeToString(k[:1]))
}

func (f *files) path(k *store.Key) string {
	var name [2*len(store.Key{}) + len(suffix)]byte
	hex.Encode(name[:], k[:])
	copy(name[2*len(k):], suffix)
	return f.dir + string(os.PathSeparator) + string(name[:2]) + string(os.PathSeparator) + string(name[:])
}

// keyOf is the inverse of path for the last part.
func keyOf(name string) (k store.Key, ok bool) {
	if len(name) != 2*len(k)+len(suffix) || name[2*len(k):] != suffix {
		return k, false
	}
	_, err := hex.Decode(k[:], []byte(name[:2*len(k)]))
	return k, err == nil && hex.EncodeToString(k[:]) == name[:2*len(k)]
}

func (f *files) check(op, path string) error {
	if f.fault != nil {
		return f.fault(op, path)
	}
	return nil
}

func (f *files) open(path string) (*os.File, error) {
	if err := f.check("open", path); err != nil {
		return nil, err
	}
	return os.Open(path)
}

// openToChange opens the file for new fields.
func (f *files) openToChange(path string) (*os.File, error) {
	if err := f.check("open", path); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

// temp makes a temporary file, and the directory if it has disappeared.
func (f *files) temp() (*os.File, error) {
	path := filepath.Join(f.dir, tempName, f.run+strconv.FormatUint(f.count.Add(1), 36))
	if err := f.check("create", path); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	if err := f.restore(); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// name gives a temporary file its key's name. The key's lock is held. The
// name may have been given although there's an error.
func (f *files) name(temp string, k *store.Key, sync bool) (named bool, err error) {
	path := f.path(k)
	if err := f.check("rename", path); err != nil {
		return false, err
	}
	if err := f.ours(); err != nil {
		return false, err
	}
	err = os.Rename(temp, path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = f.restore(); err == nil {
			err = os.MkdirAll(f.folder(k), 0o700)
		}
		if err == nil {
			err = os.Rename(temp, path)
		}
	}
	if err != nil || !sync {
		return err == nil, err
	}
	return true, f.syncFolder(f.folder(k))
}

func (f *files) syncFolder(path string) error {
	if err := f.check("sync", path); err != nil {
		return err
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (f *files) writeAt(file *os.File, p []byte, off int64) error {
	if err := f.check("write", file.Name()); err != nil {
		return err
	}
	_, err := file.WriteAt(p, off)
	return err
}

func (f *files) readAt(file *os.File, p []byte, off int64) (int, error) {
	if err := f.check("read", file.Name()); err != nil {
		return 0, err
	}
	return file.ReadAt(p, off)
}

func (f *files) sync(file *os.File) error {
	if err := f.check("sync", file.Name()); err != nil {
		return err
	}
	return file.Sync()
}

// discard deletes a temporary file. If that fails, the next start does it.
func (f *files) discard(temp string) { _ = os.Remove(temp) }

// remove deletes the key's file and reports whether it was there. The key's
// lock is held.
func (f *files) remove(k *store.Key) (was bool, err error) {
	path := f.path(k)
	if err = f.check("remove", path); err == nil {
		err = f.ours()
	}
	if locked := new(LockedError); errors.As(err, &locked) {
		return false, nil
	}
	if err == nil {
		err = os.Remove(path)
	}
	// A file system that is read-only says so of names that lead nowhere, too.
	if err != nil && (absent(err) || f.lacks(path)) {
		return false, nil
	}
	return err == nil, err
}

// lacks reports whether the path certainly leads to nothing.
func (f *files) lacks(path string) bool {
	_, err := os.Lstat(path)
	return err != nil && absent(err)
}

// absent reports whether err says that there's no such file.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotDir)
}

// LockedError says that another process, or another tier of this one, has the
// directory.
type LockedError struct {
	Dir string
	PID int // 0 if unknown
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("disk: the cache directory %s is in use by another process; give each its own", e.Dir)
	}
	return fmt.Sprintf("disk: the cache directory %s is in use by process %d; give each its own", e.Dir, e.PID)
}
