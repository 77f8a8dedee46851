package disk

import (
	"errors"
	"os"
	"sync"
	"time"

	"github.com/weirhttp/weir/store"
)

// maxOdd is how many files may be odd within oddSpan before the disk is blamed.
const (
	maxOdd  = 8
	oddSpan = time.Minute
)

// odd are the keys whose files had an error of their own of late.
type odd struct {
	mu    sync.Mutex
	keys  map[store.Key]struct{}
	since time.Duration // when the first of them had it, since the tier was opened
}

// another notes the key and reports whether there are too many.
func (o *odd) another(k *store.Key, now time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.keys == nil || now-o.since > oddSpan {
		o.keys, o.since = make(map[store.Key]struct{}), now
	}
	if len(o.keys) <= maxOdd {
		o.keys[*k] = struct{}{}
	}
	return len(o.keys) > maxOdd
}

// blamesFile reports whether an error of an operation with the key's file is the file's
// own and no fault of the disk: the others go on. It's the disk's after all if the
// folder is like that, or many files are.
func (t *Tier) blamesFile(k *store.Key, err error) bool {
	its := false
	for _, e := range ofFile {
		its = its || errors.Is(err, e)
	}
	if !its {
		return false
	}
	if _, lerr := os.Lstat(t.files.path(k)); lerr != nil {
		return false
	}
	return !t.odd.another(k, t.writes.now())
}

// outOfFiles counts the error if it says that too many files are open. That is the
// process's own trouble, or the system's, and says nothing about the disk: it's only a
// miss, or a response that isn't stored.
func (t *Tier) outOfFiles(err error) bool {
	if !errors.Is(err, errHandles) && !errors.Is(err, errSystem) {
		return false
	}
	t.withoutFiles.Add(1)
	return true
}

// readFailed says that the disk couldn't read.
func (t *Tier) readFailed(err error) {
	if !t.outOfFiles(err) && !errors.Is(err, os.ErrClosed) {
		t.reads.shut(err)
	}
}

// fileFailed is readFailed for an error with the key's file, whose lock is held. What
// can't be read is deleted, so that nobody waits for it again, unless it's the whole
// disk that can't be read. It reports whether that was the file's fault.
func (t *Tier) fileFailed(k *store.Key, err error) bool {
	its := t.blamesFile(k, err)
	if !its {
		t.readFailed(err)
	}
	if its || errors.Is(err, errIO) {
		t.removeLocked(k)
	}
	return its
}

// writeFailed says that the disk couldn't write.
func (t *Tier) writeFailed(err error) store.Rejection {
	if t.outOfFiles(err) {
		return store.OutOfFiles
	}
	if !absent(err) && !errors.Is(err, os.ErrClosed) {
		t.writes.shut(err)
	}
	return store.SwitchedOff
}
