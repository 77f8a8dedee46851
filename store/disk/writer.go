package disk

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"sync/atomic"

	"github.com/weirhttp/weir/store"
)

// Limits of what is stored with a body.
const (
	maxFacts     = 64 << 10
	maxPutFields = 1 << 20
)

// reserveStep is how much room a body takes at once while it grows.
const reserveStep = 256 << 10

// Writer is a body being written to a temporary file. It implements
// [store.Spool].
type Writer struct {
	t     *Tier
	f     *os.File
	nonce uint64
	size  atomic.Int64
	tail  *tail // what of it isn't in the file yet

	reserved int64
	table    []byte
	sum      uint32 // of the block begun
	inBlock  int
	failed   *store.RejectedError
	prepared prepared
	ended    bool // committed or aborted
	kept     bool // committed, and still read here
}

// prepared is what Prepare has got ready of an object.
type prepared struct {
	o    *store.Object // nil: nothing
	head *head         // nil if what is to be written depends on the record
	size int64
}

var _ store.Spool = (*Writer)(nil)

// Create implements [store.SpoolTier]. What is written counts against MaxBytes
// from the beginning, and all bodies being written may take three quarters of it.
func (t *Tier) Create() (store.Spool, error) {
	w, r := t.create()
	if r != store.Kept {
		return nil, &store.RejectedError{Reason: t.count(r)}
	}
	return w, nil
}

func (t *Tier) create() (*Writer, store.Rejection) {
	if !t.writable() {
		return nil, store.SwitchedOff
	}
	f, err := t.files.temp()
	if err != nil {
		defer t.shed(err)
		return nil, t.writeFailed(err)
	}
	return &Writer{t: t, f: f, nonce: rand.Uint64(), tail: newTail(bodyAt)}, store.Kept
}

// writable reports whether the tier takes anything. What can't be read is not
// worth writing.
func (t *Tier) writable() bool {
	return t.writes.open() && t.reads.open() && !t.closed.Load()
}

// Write implements [store.Spool].
func (w *Writer) Write(p []byte) (int, error) {
	size := w.size.Load()
	switch {
	case w.ended, w.prepared.o != nil:
		return 0, os.ErrClosed
	case w.failed != nil:
		return 0, w.failed
	case size+int64(len(p)) > w.t.o.MaxObjectBytes:
		return 0, w.fail(store.TooLarge, nil)
	}
	if need := onDisk(bodyAt + size + int64(len(p))); need > w.reserved {
		if w.reserved > 0 {
			need = max(need, min(w.reserved+reserveStep, onDisk(w.t.o.MaxObjectBytes)))
		}
		if !w.t.room(need - w.reserved) {
			return 0, w.fail(store.NoRoom, nil)
		}
		w.reserved = need
	}
	if err := w.tail.write(w.t.files, w.f, p); err != nil {
		r := w.t.writeFailed(err)
		w.t.shed(err)
		return 0, w.fail(r, err)
	}
	w.addSums(p)
	w.size.Store(size + int64(len(p)))
	return len(p), nil
}

func (w *Writer) fail(r store.Rejection, err error) error {
	w.failed = &store.RejectedError{Reason: r, Err: err}
	return w.failed
}

func (w *Writer) addSums(p []byte) {
	for len(p) > 0 {
		if w.inBlock == 0 {
			w.sum = blockSeed(w.nonce, int64(len(w.table)/4))
		}
		n := min(len(p), 1<<blockLog-w.inBlock)
		w.sum = crc32.Update(w.sum, castagnoli, p[:n])
		w.inBlock += n
		p = p[n:]
		if w.inBlock == 1<<blockLog {
			w.endBlock()
		}
	}
}

func (w *Writer) endBlock() {
	if w.inBlock > 0 {
		w.table = binary.LittleEndian.AppendUint32(w.table, w.sum)
		w.inBlock = 0
	}
}

// ReadAt implements [store.Spool]. What it reads was written a moment ago by
// this process, and isn't compared with a checksum.
func (w *Writer) ReadAt(p []byte, off int64) (int, error) {
	have := w.size.Load() - off
	if off < 0 || have <= 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > have {
		n, err := w.readWritten(p[:have], off)
		if err == nil {
			err = io.EOF
		}
		return n, err
	}
	return w.readWritten(p, off)
}

// readWritten is ReadAt for what has been written.
func (w *Writer) readWritten(p []byte, off int64) (done int, err error) {
	for done < len(p) && err == nil {
		n, inFile := w.tail.readAt(p[done:], bodyAt+off+int64(done))
		if inFile > 0 {
			n, err = w.t.files.readAt(w.f, p[done:done+inFile], bodyAt+off+int64(done))
		}
		done += n
	}
	return done, err
}

// Size implements [store.Spool].
func (w *Writer) Size() int64 { return w.size.Load() }

// Commit implements [store.Spool].
func (w *Writer) Commit(o *store.Object) store.Rejection {
	r := w.judge(w.commit(o))
	if r != store.Kept {
		w.Abort()
	}
	return w.t.count(r)
}

// judge returns what an error means.
func (w *Writer) judge(r store.Rejection, err error) store.Rejection {
	if rejected := new(store.RejectedError); errors.As(err, &rejected) {
		return rejected.Reason
	}
	if err != nil {
		r = w.t.writeFailed(err)
		w.t.shed(err)
	}
	return r
}

// Prepare implements [store.Spool]: it forces out the body, and writes all the rest of
// an object that doesn't vary, so that it only lacks its name.
func (w *Writer) Prepare(o *store.Object) error {
	r, err := w.prepare(o)
	if r = w.judge(r, err); r == store.Kept {
		return nil
	}
	if w.failed == nil {
		_ = w.fail(r, err)
	}
	return w.failed
}

func (w *Writer) prepare(o *store.Object) (store.Rejection, error) {
	t := w.t
	switch r := t.refuse(o, w.Size()); {
	case w.failed != nil:
		return w.failed.Reason, nil
	case w.ended:
		return store.Gone, nil
	case r != store.Kept:
		return r, nil
	case !t.writable():
		return store.SwitchedOff, nil
	case w.prepared.o == o:
		return store.Kept, nil
	}
	ready := prepared{o: o}
	var err error
	if len(o.VaryNames) == 0 {
		ready.head, ready.size, err = w.finish(o, 0)
	} else if t.o.Sync != SyncNever {
		err = t.files.sync(w.f)
	}
	if err == nil {
		w.prepared = ready
	}
	return store.Kept, err
}

func (w *Writer) commit(o *store.Object) (store.Rejection, error) {
	if r, err := w.prepare(o); r != store.Kept || err != nil {
		return r, err
	}
	t := w.t
	mu := t.family(&o.Primary)
	mu.Lock()
	defer mu.Unlock()
	h, size := w.prepared.head, w.prepared.size
	var gone []store.Key
	if h == nil {
		lineage, dropped, err := t.join(o)
		if err == nil {
			h, size, err = w.finish(o, lineage)
		}
		if err != nil {
			return 0, err
		}
		gone = dropped
	} else if r, _ := t.recordOf(&o.Primary); r != nil {
		gone = r.Variants
	}
	t.index.read.begin(w.nonce, onDisk(size)) // before others can replace it
	if err := t.publish(w.f.Name(), h, size, w.reserved); err != nil {
		t.index.read.end(w.nonce)
		return 0, err
	}
	w.ended, w.kept, w.reserved = true, true, 0
	t.puts.Add(1)
	t.removeAll(gone)
	t.trim()
	return store.Kept, nil
}

// finish writes all that isn't body.
func (w *Writer) finish(o *store.Object, lineage uint64) (*head, int64, error) {
	t := w.t
	w.endBlock()
	fields := encodeFields(o, lineage)
	h := &head{
		kind: kindObject, blockLog: blockLog, seq: 1, bodyLen: w.Size(), nonce: w.nonce,
		key: o.Key, primary: o.Primary,
		fieldsLen: uint32(len(fields)), fieldsCap: uint32(len(fields)),
		fieldsSum: checksum(fields), tableSum: checksum(w.table),
	}
	h.fieldsAt = h.tableAt() + int64(len(w.table))
	if need := onDisk(h.end()); need > w.reserved {
		if !t.room(need - w.reserved) {
			return nil, 0, &store.RejectedError{Reason: store.NoRoom}
		}
		w.reserved = need
	}
	if err := w.writeRest(append(w.table, fields...), h.encode()); err != nil {
		return nil, 0, err
	}
	if t.o.Sync != SyncNever {
		return h, h.end(), t.files.sync(w.f)
	}
	return h, h.end(), nil
}

// writeRest writes what follows the body, and the head. What readers see of the
// tail stays.
func (w *Writer) writeRest(rest, front []byte) error {
	t := w.tail
	rest = append(t.buf[:t.n:t.n], rest...)
	if t.at > 0 {
		if err := w.t.files.writeAt(w.f, rest, t.at); err != nil {
			return err
		}
		rest = make([]byte, bodyAt)
	}
	copy(rest[:bodyAt], front)
	return w.t.files.writeAt(w.f, rest, 0)
}

// Abort implements [store.Spool].
func (w *Writer) Abort() {
	if !w.ended {
		w.ended = true
		w.t.files.discard(w.f.Name())
	}
}

// Close implements [store.Spool]. The room of a body that wasn't committed is
// free from here on.
func (w *Writer) Close() error {
	w.Abort()
	err := w.f.Close()
	w.tail.free()
	w.t.index.release(w.reserved)
	w.reserved = 0
	if w.kept {
		w.kept = false
		w.t.index.read.end(w.nonce)
	}
	return err
}

// refuse says why o can't be kept with a body of the size.
func (t *Tier) refuse(o *store.Object, size int64) store.Rejection {
	fields := len(o.Header) + len(o.Trailer) + len(o.Selecting)
	for _, n := range o.VaryNames {
		fields += len(n)
	}
	switch {
	case size > t.o.MaxObjectBytes, len(o.Facts) > maxFacts, fields > maxPutFields:
		return store.TooLarge
	case o.IsIndex(), (o.Key == o.Primary) != (len(o.VaryNames) == 0),
		!canonicalNames(o.VaryNames), o.Status < 100 || o.Status > 999:
		return store.BadKey
	}
	return store.Kept
}
