package disk

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/weirhttp/weir/store"
)

func (t *Tier) family(primary *store.Key) *sync.Mutex { return &t.families[primary[len(primary)-1]] }

// belongs reports whether h may be found: a variant only if its primary key
// has a record of the same lineage. Others were stored before their primary key was
// purged.
func (t *Tier) belongs(h *handle) bool {
	if h.key == h.primary {
		return true
	}
	r, err := t.find(&h.primary)
	if err != nil {
		return false
	}
	same := r.record != nil && r.lineage == h.lineage
	t.handles.put(r)
	return same
}

// recordOf returns the primary key's record, or nil if it has none. If it can't look,
// the error is store.ErrUnavailable.
func (t *Tier) recordOf(primary *store.Key) (*store.Record, error) {
	if v, ok := t.index.look(primary); ok && v.kind != kindRecord {
		return nil, nil
	}
	h, err := t.find(primary)
	switch {
	case errors.Is(err, store.ErrUnavailable):
		return nil, err
	case err != nil:
		return nil, nil
	}
	defer t.handles.put(h)
	return h.record, nil
}

// join makes the primary key lead to the variant o too, before it's there. It
// returns the lineage to keep o with, and the variants that fell out. The
// family's lock is held.
func (t *Tier) join(o *store.Object) (lineage uint64, dropped []store.Key, err error) {
	r, err := t.recordOf(&o.Primary)
	if err != nil { // a record made anew would be without the others
		return 0, nil, &store.RejectedError{Reason: store.SwitchedOff, Err: err}
	}
	if r == nil {
		r = &store.Record{Lineage: rand.Uint64()}
	} else if n := len(r.Variants); n > 0 && r.Variants[n-1] == o.Key && slices.Equal(r.Sets[0], o.VaryNames) {
		return r.Lineage, nil, nil // it says so already
	}
	next, dropped := r.With(o.Key, o.VaryNames, t.o.MaxVariants)
	return r.Lineage, dropped, t.writeRecord(o.Primary, next)
}

func (t *Tier) writeRecord(primary store.Key, r *store.Record) error {
	fields := encodeRecord(r)
	h := head{
		kind: kindRecord, blockLog: blockLog, seq: 1, nonce: rand.Uint64(),
		key: primary, primary: primary, fieldsAt: bodyAt,
		fieldsLen: uint32(len(fields)), fieldsCap: uint32(len(fields)),
		fieldsSum: checksum(fields), tableSum: checksum(nil),
	}
	size := int64(bodyAt + len(fields))
	reserved := onDisk(size)
	if !t.room(reserved) {
		return &store.RejectedError{Reason: store.NoRoom}
	}
	b := make([]byte, bodyAt, size)
	copy(b, h.encode())
	temp, err := t.files.temp()
	if err == nil {
		err = t.files.writeAt(temp, append(b, fields...), 0)
		if err == nil && t.o.Sync != SyncNever {
			err = t.files.sync(temp)
		}
		if cerr := temp.Close(); err == nil {
			err = cerr
		}
		if err == nil {
			err = t.publish(temp.Name(), &h, size, reserved)
		} else {
			t.files.discard(temp.Name())
		}
	}
	if err != nil {
		t.index.release(reserved)
	}
	return err
}
