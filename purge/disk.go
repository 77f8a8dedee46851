package purge

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// disk is what the journal asks of the file system; tests have one that fails.
type disk interface {
	read(path string) ([]byte, error)
	create(path string) (file, error)
	rename(from, to string) error
	remove(path string) error
	syncDir(path string) error // of the directory that holds path
}

// file is a journal that is open for writing.
type file interface {
	io.WriterAt
	io.Closer
	Sync() error
}

type osDisk struct{}

func (osDisk) read(path string) ([]byte, error) { return os.ReadFile(path) }

func (osDisk) create(path string) (file, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
}

func (osDisk) rename(from, to string) error { return os.Rename(from, to) }
func (osDisk) remove(path string) error     { return os.Remove(path) }

func (osDisk) syncDir(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
