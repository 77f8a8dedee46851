package disk

import (
	"os"
	"slices"

	"github.com/weirhttp/weir/store"
)

// room reserves n bytes for a file to be written, and evicts others for it if
// need be. No file's lock is held.
func (t *Tier) room(n int64) bool {
	for {
		ok, victim, found := t.index.reserve(n)
		if ok || !found {
			return ok
		}
		t.evict(&victim)
	}
}

// trim evicts what is too much.
func (t *Tier) trim() {
	for {
		victim, found := t.index.excess()
		if !found {
			return
		}
		t.evict(&victim)
	}
}

// publish gives a whole file its key's name. From then on the room that was
// reserved for it is its own; after an error it's still the caller's.
func (t *Tier) publish(temp string, h *head, size, reserved int64) error {
	mu := t.files.of(&h.key)
	mu.Lock()
	defer mu.Unlock()
	if t.closed.Load() { // the directory may be another process's by now
		t.files.discard(temp)
		return os.ErrClosed
	}
	named, err := t.files.name(temp, &h.key, t.o.Sync == SyncName)
	if !named && t.blamesFile(&h.key, err) { // something that isn't ours is in its place
		t.removeLocked(&h.key)
		named, err = t.files.name(temp, &h.key, t.o.Sync == SyncName)
		if !named && t.blamesFile(&h.key, err) {
			err = &store.RejectedError{Reason: store.SwitchedOff, Err: err}
		}
	}
	if named {
		t.index.set(&h.key, h.version(size), reserved)
		t.handles.drop(&h.key)
		t.undeleted.clear(&h.key)
		if err != nil { // it's there, but may not survive a power failure
			t.writeFailed(err)
		} else {
			t.retryDeletions()
		}
		return nil
	}
	t.files.discard(temp)
	return err
}

// freshen gives the body that o shares new fields: only these are written,
// into the file itself, and then the head that leads to them.
func (t *Tier) freshen(o *store.Object, c *content) store.Rejection {
	if r := t.refuse(o, c.size); r != store.Kept {
		return r
	}
	if !t.writable() {
		return store.SwitchedOff
	}
	// Room before the lock, since evicting takes others.
	reserved := onDisk(int64(2*len(o.Header) + 2*len(o.Trailer) + len(o.Selecting) + len(o.Facts) + 64<<10))
	if !t.room(reserved) {
		return store.NoRoom
	}
	r, err := t.freshenLocked(o, c, reserved)
	if r != store.Kept || err != nil {
		t.index.release(reserved)
	}
	if err != nil {
		r = t.writeFailed(err)
		t.shed(err)
	}
	return r
}

func (t *Tier) freshenLocked(o *store.Object, c *content, reserved int64) (store.Rejection, error) {
	mu := t.files.of(&o.Key)
	mu.Lock()
	defer mu.Unlock()
	h, err := t.loadKey(&o.Key)
	if err != nil {
		return store.Gone, nil // whoever gets it next deals with it
	}
	defer func() { _ = h.file.Close() }()
	switch {
	case h.nonce != c.nonce || t.hidden(&o.Key):
		return store.Gone, nil
	case h.primary != o.Primary || h.object == nil || !slices.Equal(h.object.VaryNames, o.VaryNames):
		return store.BadKey, nil
	}
	f, err := t.files.openToChange(t.files.path(&o.Key))
	if err != nil && t.blamesFile(&o.Key, err) { // it can be read, but never be kept up to date
		t.removeLocked(&o.Key)
		return store.Gone, nil
	}
	if err != nil {
		return 0, err
	}
	next, err := t.writeFields(f, &h.heads, encodeFields(o, h.lineage))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return 0, err
	}
	t.index.set(&o.Key, next.version(max(h.stamp.size, next.end())), reserved)
	t.handles.drop(&o.Key)
	t.puts.Add(1)
	return store.Kept, nil
}

// writeFields writes the fields where no head that counts leads to, and then
// that head.
func (t *Tier) writeFields(f *os.File, hs *heads, fields []byte) (*head, error) {
	next := hs.head
	next.seq++
	next.fieldsLen, next.fieldsSum = uint32(len(fields)), checksum(fields)
	if hs.other.seq != 0 && int(hs.other.fieldsCap) >= len(fields) {
		next.fieldsAt, next.fieldsCap = hs.other.fieldsAt, hs.other.fieldsCap
	} else {
		next.fieldsAt = hs.fieldsAt + int64(hs.fieldsCap)
		if hs.other.seq != 0 {
			next.fieldsAt = max(next.fieldsAt, hs.other.fieldsAt+int64(hs.other.fieldsCap))
		}
		next.fieldsCap = uint32(len(fields) + len(fields)/4) // the next are longer at times
	}
	if err := t.files.writeAt(f, fields, next.fieldsAt); err != nil {
		return nil, err
	}
	if t.o.Sync != SyncNever {
		if err := t.files.sync(f); err != nil {
			return nil, err
		}
	}
	if err := t.files.writeAt(f, next.encode(), int64(1-hs.slot)*slotSize); err != nil {
		return nil, err
	}
	if t.o.Sync != SyncNever {
		return &next, t.files.sync(f)
	}
	return &next, nil
}
