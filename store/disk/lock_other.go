//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package disk

import "errors"

var (
	errNotDir  = errors.New("not a directory")
	errIO      = errors.New("input/output error")
	errFull    = errors.New("disk full")
	errQuota   = errors.New("quota")
	errHandles = errors.New("too many open files")
	errSystem  = errors.New("too many open files in the system")
)

var ofFile []error

type dirLock struct{}

func lockDir(string) (*dirLock, error) {
	return nil, errors.New("disk: the disk tier needs a system with flock")
}

func (l *dirLock) holds(string) bool { return true }
func (l *dirLock) unlock() error     { return nil }
