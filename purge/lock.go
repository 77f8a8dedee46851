package purge

import (
	"fmt"
	"io"
	"os"
)

// lockFile is the file beside the journal that keeps other processes out while it
// is open. It is never replaced, so it also keeps the generation for the case that
// the journal is lost.
type lockFile struct{ f *os.File }

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

// generation returns what was kept, or 0.
func (l lockFile) generation() (g uint64) {
	b := make([]byte, 64)
	n, err := l.f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return 0
	}
	var end byte
	if k, _ := fmt.Sscanf(string(b[:n]), "generation %d%c", &g, &end); k != 2 || end != '\n' || g >= maxGeneration-1 {
		return 0
	}
	return g
}

// keep writes the generation. It is always at least as long as the one before.
func (l lockFile) keep(generation uint64) error {
	if _, err := l.f.WriteAt(fmt.Appendf(nil, "generation %020d\n", generation), 0); err != nil {
		return err
	}
	return l.f.Sync()
}

// close lets other processes in, even if one that was started meanwhile holds a
// copy of the descriptor.
func (l lockFile) close() error {
	unlock(l.f)
	return l.f.Close()
}
