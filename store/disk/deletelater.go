package disk

import (
	"context"
	"encoding/hex"
	"errors"
	"path/filepath"

	"github.com/weirhttp/weir/store"
)

// deleteLater deletes what could not be deleted before, once the disk can be written to
// again, until ctx ends.
func (t *Tier) deleteLater(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.undeleted.again:
		}
		t.sweep(ctx)
		t.undeleted.after.Store(int64(t.writes.now() + retryAfter))
	}
}

// sweep tries once. If there are more than are remembered, whatever the index doesn't
// have is one of them.
func (t *Tier) sweep(ctx context.Context) {
	keys, over := t.undeleted.list()
	for i := range keys {
		if ctx.Err() != nil || !t.writes.open() {
			return
		}
		t.removeUnknown(&keys[i])
	}
	if over == 0 {
		return
	}
	for i := range 256 {
		folder := filepath.Join(t.files.dir, hex.EncodeToString([]byte{byte(i)}))
		err := eachName(folder, func(names []string) error {
			for _, name := range names {
				k, ok := keyOf(name)
				if ok && k[0] == byte(i) && !t.removeUnknown(&k) {
					return errUndeleted
				}
			}
			return ctx.Err()
		})
		if err != nil && !absent(err) {
			return
		}
	}
	t.undeleted.allThere(over)
}

var errUndeleted = errors.New("disk: a file could not be deleted")

// removeUnknown deletes the key's file if the index doesn't have it, and reports
// whether it's not there any more or may stay.
func (t *Tier) removeUnknown(k *store.Key) bool {
	mu := t.files.of(k)
	mu.Lock()
	defer mu.Unlock()
	if _, known := t.index.look(k); known {
		return true
	}
	if _, _, err := t.readHeads(t.files.path(k)); errors.Is(err, errVersion) {
		return true
	}
	t.removeLocked(k)
	return t.files.lacks(t.files.path(k))
}
