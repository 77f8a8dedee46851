package disk

import (
	"fmt"
	"os"
	"syscall"
)

// stamp tells whether a file has been changed or unlinked: the system sets the
// change time on every write, rename, link and unlink, and it can't be set.
type stamp struct {
	size, sec, nsec int64
	linked          bool
}

// stampOf costs one system call.
func stampOf(f *os.File, _ string) (s stamp, err error) {
	var st syscall.Stat_t
	c, err := f.SyscallConn()
	if err != nil {
		return s, err
	}
	var serr error
	err = c.Control(func(fd uintptr) { serr = syscall.Fstat(int(fd), &st) })
	if err == nil {
		err = serr
	}
	return stamp{st.Size, int64(st.Ctim.Sec), int64(st.Ctim.Nsec), st.Nlink > 0}, err
}

// reopen opens the same file, even if it has no name any more, with an offset
// of its own.
func reopen(f *os.File) (*os.File, error) {
	c, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var g *os.File
	var oerr error
	err = c.Control(func(fd uintptr) { g, oerr = os.Open(fmt.Sprintf("/proc/self/fd/%d", fd)) })
	if err == nil {
		err = oerr
	}
	return g, err
}
