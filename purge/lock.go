package purge

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// lockFile is the file beside the journal that keeps other processes out while it
// is open. It is never replaced. It also says how far the journal had come, so that
// an older copy of the journal, or one whose end is missing, isn't trusted.
type lockFile struct{ f *os.File }

// progress is what the lock file says.
type progress struct {
	generation uint64 // the highest that may have been used
	reached    uint64 // all purges up to this number were written to the journal
}

func lock(path string) (lockFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return lockFile{}, err
	}
	if err := lockExclusive(f); err != nil {
		_ = f.Close()
		return lockFile{}, err
	}
	return lockFile{f}, nil
}

// text is always of the same length.
func (p progress) text() string {
	s := fmt.Sprintf("generation %020d reached %020d", p.generation, p.reached)
	return fmt.Sprintf("%s sum %08x\n", s, crc32.Checksum([]byte(s), castagnoli))
}

// progress returns what was kept, or false.
func (l lockFile) progress() (p progress, ok bool) {
	b := make([]byte, 128)
	n, err := l.f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return p, false
	}
	_, err = fmt.Sscanf(string(b[:n]), "generation %d reached %d", &p.generation, &p.reached)
	if err != nil || string(b[:n]) != p.text() || p.generation >= maxGeneration-1 {
		return progress{}, false
	}
	return p, true
}

// keep writes p: to the disk if sync is set, else the system may do that later. Then
// a power failure brings back an earlier one, which is no harm.
func (l lockFile) keep(p progress, sync bool) error {
	if _, err := l.f.WriteAt([]byte(p.text()), 0); err != nil || !sync {
		return err
	}
	return l.f.Sync()
}

// The reasons not to trust a journal that is intact.
var (
	errNoProgress = errors.New("the file beside it that says how far it had come is missing or damaged")
	errOlder      = errors.New("it is an older copy, or its end is missing")
)

// doubt compares a journal with what the lock file says. The journal is written
// first, so it may be ahead.
func (l lockFile) doubt(journal loaded) error {
	switch p, ok := l.progress(); {
	case !ok:
		return errNoProgress
	case journal.reached < p.reached:
		return errOlder
	}
	return nil
}

// close lets other processes in, even if one that was started meanwhile holds a
// copy of the descriptor.
func (l lockFile) close() error {
	unlock(l.f)
	return l.f.Close()
}
