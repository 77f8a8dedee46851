package disk

import (
	"errors"
	"os"
	"time"

	"github.com/weirhttp/weir/store"
)

// find returns the key's file for use; put gives it back. The error is store.ErrGone
// if there certainly is none, or store.ErrUnavailable.
func (t *Tier) find(k *store.Key) (*handle, error) {
	if t.hidden(k) {
		return nil, store.ErrGone
	}
	if !t.reads.open() || t.closed.Load() {
		return nil, store.ErrUnavailable
	}
	if h := t.handles.get(k); h != nil {
		if t.current(h) {
			return h, nil
		}
		t.handles.dropThis(h)
		t.handles.put(h)
	}
	scanned := t.scanned.Load() // before the look: the scan may note the key, and end, in between
	if _, known := t.index.look(k); !known {
		if scanned {
			return nil, store.ErrGone
		}
		return t.examine(k)
	}
	h, err := t.loadKey(k)
	if err != nil {
		// Damaged, or just being changed: look again with nobody else about.
		return t.examine(k)
	}
	t.handles.add(h)
	// Whoever replaced or deleted the file since it was loaded did so in the
	// index before dropping the handle: either the handle was added before and
	// is gone, or the index says so now.
	if v, ok := t.index.look(k); !ok || v.nonce != h.nonce || v.seq != h.seq {
		t.handles.dropThis(h)
		t.handles.put(h)
		return t.examine(k)
	}
	return h, nil
}

// benign reports whether an error of loadKey is about the file and not about
// the disk.
func benign(err error) bool {
	return absent(err) || errors.Is(err, errCorrupt) || errors.Is(err, errVersion)
}

// maxAhead is how far into the future the clock may have been when a response
// was received. More, and the clock has been set back since: the response would
// stay fresh until it has caught up.
const maxAhead = time.Minute

func (t *Tier) loadKey(k *store.Key) (*handle, error) {
	h, err := t.load(t.files.path(k))
	if err != nil {
		return nil, err
	}
	if h.key != *k || h.record == nil && time.Until(h.object.Life.ReceivedAt) > maxAhead {
		_ = h.file.Close()
		return nil, errCorrupt
	}
	return h, nil
}

// current reports whether the key still leads to the file and nobody has
// changed it.
func (t *Tier) current(h *handle) bool {
	s, err := stampOf(h.file, h.file.Name())
	return err == nil && s == h.stamp && s.linked
}

// examine looks at the key's file under its lock, brings the index in line
// with it, and deletes it if it's damaged. It returns what find does.
func (t *Tier) examine(k *store.Key) (*handle, error) {
	mu := t.files.of(k)
	mu.Lock()
	defer mu.Unlock()
	if t.hidden(k) {
		return nil, store.ErrGone
	}
	// It's a surprise: somebody may have deleted the directory and made it anew.
	if err := t.files.ours(); err != nil {
		t.readFailed(err)
		return nil, store.ErrUnavailable
	}
	h, err := t.loadKey(k)
	v, known := t.index.look(k)
	switch {
	case err == nil && known && h.nonce != v.nonce: // not what was stored by this process
		_ = h.file.Close()
		t.removeLocked(k)
	case err == nil:
		t.index.set(k, h.version(h.stamp.size), 0)
		t.handles.add(h)
		return h, nil
	case errors.Is(err, errCorrupt):
		t.corrupt.Add(1)
		t.removeLocked(k)
	case benign(err):
		if errors.Is(err, errVersion) {
			t.listed.Store(false)
		}
		t.index.remove(k)
		t.handles.drop(k)
	default:
		if !t.fileFailed(k, err) && !errors.Is(err, errIO) { // then it hasn't been deleted
			return nil, store.ErrUnavailable
		}
	}
	return nil, store.ErrGone
}

// condemn deletes the file of which a block is bad, if the key still leads to
// it.
func (t *Tier) condemn(h *handle) {
	mu := t.files.of(&h.key)
	mu.Lock()
	defer mu.Unlock()
	t.handles.dropThis(h)
	mine, err := h.file.Stat()
	if err != nil {
		return
	}
	there, err := os.Stat(t.files.path(&h.key))
	if err != nil || !os.SameFile(mine, there) {
		return
	}
	t.removeLocked(&h.key)
}

// remove deletes the key's file and reports whether there was one. It leaves the disk
// alone if there certainly is none. Whoever puts under the key at the same time, and
// isn't kept off by the family's lock, comes afterwards.
func (t *Tier) remove(k *store.Key) bool {
	return t.removeUnless(k, func(version, bool) bool { return false })
}

// removeUnless is remove unless something is so of what the index has for the key.
func (t *Tier) removeUnless(k *store.Key, so func(v version, known bool) bool) bool {
	if t.lacks(k) {
		return false
	}
	mu := t.files.of(k)
	mu.Lock()
	defer mu.Unlock()
	if so(t.index.look(k)) {
		return false
	}
	return t.removeLocked(k)
}

// lacks reports whether there certainly is no file of the key.
func (t *Tier) lacks(k *store.Key) bool {
	listed := t.listed.Load() // before the look, see find
	return listed && t.index.lacks(k) && !t.hidden(k)
}

func (t *Tier) removeAll(keys []store.Key) {
	for i := range keys {
		t.remove(&keys[i])
	}
}

func (t *Tier) removeLocked(k *store.Key) bool { return t.unlink(k, t.index.remove(k)) }

// unlink deletes the file of a key that the index has just forgotten, or didn't know.
func (t *Tier) unlink(k *store.Key, known bool) bool {
	t.handles.drop(k)
	was, err := t.files.remove(k)
	if err != nil {
		was = t.undeleted.add(k, t.primaryOf(k), known)
		if !t.blamesFile(k, err) {
			t.writeFailed(err)
		}
		return was
	}
	t.undeleted.clear(k)
	return was
}

// primaryOf returns the primary key of what the key's file holds. If the file can't be
// read, that's the key itself as far as anybody knows.
func (t *Tier) primaryOf(k *store.Key) store.Key {
	hs, _, err := t.readHeads(t.files.path(k))
	if err != nil {
		return *k
	}
	return hs.primary
}

// evict deletes the file of a key that the index has forgotten, unless it has
// been stored again meanwhile.
func (t *Tier) evict(k *store.Key) {
	mu := t.files.of(k)
	mu.Lock()
	defer mu.Unlock()
	defer t.index.left()
	if _, again := t.index.look(k); !again {
		t.unlink(k, true)
	}
}

// shedFiles is how many files are evicted at most when the disk is full.
const shedFiles = 64

// shed makes some room on a full disk, a sixteenth of what there is at most.
// No lock is held.
func (t *Tier) shed(err error) {
	if !errors.Is(err, errFull) && !errors.Is(err, errQuota) {
		return
	}
	_, bytes, _ := t.index.counts()
	for n, freed := 0, int64(0); n < shedFiles && freed <= bytes/16; n++ {
		k, size, ok := t.index.shed()
		if !ok {
			return
		}
		freed += size
		t.evict(&k)
	}
}
