//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

var (
	errNotDir  error = syscall.ENOTDIR
	errIO      error = syscall.EIO
	errFull    error = syscall.ENOSPC
	errQuota   error = syscall.EDQUOT
	errHandles error = syscall.EMFILE
	errSystem  error = syscall.ENFILE
)

// ofFile are the errors that say something about one file. If they say it about all,
// the disk is at fault.
var ofFile = []error{
	syscall.EISDIR, syscall.EACCES, syscall.EPERM, syscall.ELOOP, syscall.ENXIO, syscall.ENODEV,
	syscall.EINVAL, syscall.EBADMSG, syscall.EBUSY, syscall.ETXTBSY, syscall.EEXIST, syscall.ENOTEMPTY,
}

// dirLock is the lock on a directory. The system gives it up when the process
// ends, however it ends.
type dirLock struct{ file *os.File }

func lockDir(path string) (*dirLock, error) {
	// Not for writing: that would keep the file system from being made read-only.
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer func() { _ = f.Close() }()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &os.PathError{Op: "flock", Path: path, Err: err}
		}
		var text [20]byte
		n, _ := f.ReadAt(text[:], 0)
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text[:n])))
		return nil, &LockedError{Dir: filepath.Dir(path), PID: pid}
	}
	// For the other's error message only: it may fail, for instance when full.
	_ = os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600)
	return &dirLock{f}, nil
}

// holds reports whether the lock is on the file that the path leads to now.
func (l *dirLock) holds(path string) bool {
	mine, err := l.file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}

func (l *dirLock) unlock() error { return l.file.Close() }
