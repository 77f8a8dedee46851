//go:build !linux

package disk

import (
	"os"
)

// stamp tells whether a file has been changed or unlinked, as far as that can
// be seen without knowing the system.
type stamp struct {
	size, mtime int64
	linked      bool
}

func stampOf(f *os.File, path string) (s stamp, err error) {
	mine, err := f.Stat()
	if err != nil {
		return s, err
	}
	there, err := os.Stat(path)
	linked := err == nil && os.SameFile(mine, there)
	return stamp{mine.Size(), mine.ModTime().UnixNano(), linked}, nil
}

// reopen opens the same file with an offset of its own.
func reopen(f *os.File) (*os.File, error) {
	g, err := os.Open(f.Name())
	if err != nil {
		return nil, err
	}
	a, aerr := f.Stat()
	b, berr := g.Stat()
	if aerr != nil || berr != nil || !os.SameFile(a, b) {
		_ = g.Close()
		return nil, os.ErrNotExist
	}
	return g, nil
}
