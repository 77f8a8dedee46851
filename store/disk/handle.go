package disk

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/weirhttp/weir/store"
)

// handle is an open file whose head and fields have passed their checks, and
// what is known of its blocks. All but the last group never changes.
type handle struct {
	heads
	file  *os.File // for reading at an offset; also one of the spare ones
	stamp stamp    // before anything was read
	sums  []uint32 // of the blocks

	object  *store.Object // for an object
	record  *store.Record // for a record, and then object is what stands for it
	lineage uint64

	// passed has a bit for each block that has passed its check.
	passed []atomic.Uint64

	// Guarded by the cache's lock:
	refs       int
	cached     bool
	prev, next *handle    // among those with no refs
	spare      []*os.File // descriptors nobody uses the offset of
}

// firstRead is how much is read at once when a file is opened: all of most.
const firstRead = 16 << 10

var readBuffers = sync.Pool{New: func() any { return new([firstRead]byte) }}

// load opens and checks a file. The error is errCorrupt, errVersion, or the
// system's.
func (t *Tier) load(path string) (h *handle, err error) {
	f, err := t.files.open(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	st, err := stampOf(f, path)
	if err != nil {
		return nil, err
	}
	buf := readBuffers.Get().(*[firstRead]byte)
	defer readBuffers.Put(buf)
	front := buf[:min(firstRead, st.size)]
	if err := t.readFull(f, front, 0); err != nil {
		return nil, err
	}
	hs, err := decodeHeads(front)
	if err != nil {
		return nil, err
	}
	if st.size < hs.end() || st.size < hs.other.end() {
		return nil, errCorrupt
	}
	h = &handle{heads: hs, file: f, stamp: st}
	if err := t.loadRest(h, front); err != nil {
		return nil, err
	}
	return h, nil
}

// loadRest reads the table and the fields, and checks the first block.
func (t *Tier) loadRest(h *handle, front []byte) error {
	table, err := t.part(h, front, h.tableAt(), h.tableLen())
	if err != nil {
		return err
	}
	if checksum(table) != h.tableSum {
		return errCorrupt
	}
	h.sums = make([]uint32, h.blocks())
	for i := range h.sums {
		h.sums[i] = binary.LittleEndian.Uint32(table[4*i:])
	}
	h.passed = make([]atomic.Uint64, (len(h.sums)+63)/64)
	fields, err := t.part(h, front, h.fieldsAt, int(h.fieldsLen))
	if err != nil {
		return err
	}
	if checksum(fields) != h.fieldsSum {
		return errCorrupt
	}
	if err := h.decode(t, fields); err != nil {
		return err
	}
	if h.bodyLen == 0 {
		return nil
	}
	if int64(len(front)) >= bodyAt+h.bodyLen && len(h.sums) == 1 {
		return h.settle(0, front[bodyAt:bodyAt+h.bodyLen])
	}
	_, err = t.verify(h, 0, 0, 0)
	return err
}

func (h *handle) decode(t *Tier, fields []byte) (err error) {
	if h.kind == kindRecord {
		h.record, err = decodeRecord(fields)
		if err == nil {
			h.lineage = h.record.Lineage
			h.object = h.record.Object(h.primary)
		}
		return err
	}
	h.object, h.lineage, err = decodeFields(&h.head, fields)
	if err == nil {
		h.object.Content = &content{t, h.key, h.nonce, h.bodyLen}
	}
	return err
}

// part returns n bytes at off, from the front if they are there.
func (t *Tier) part(h *handle, front []byte, off int64, n int) ([]byte, error) {
	if off+int64(n) <= int64(len(front)) {
		return front[off : off+int64(n)], nil
	}
	b := make([]byte, n)
	return b, t.readFull(h.file, b, off)
}

// readFull reads all of p. A file that is too short is damaged.
func (t *Tier) readFull(f *os.File, p []byte, off int64) error {
	n, err := t.files.readAt(f, p, off)
	if n == len(p) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return errCorrupt
	}
	return err
}

// settle compares a block with its checksum.
func (h *handle) settle(block int64, p []byte) error {
	if blockChecksum(h.nonce, block, p) != h.sums[block] {
		return errCorrupt
	}
	h.passed[block/64].Or(1 << (block % 64))
	return nil
}

func (h *handle) hasPassed(block int64) bool {
	return h.passed[block/64].Load()>>(block%64)&1 == 1
}

var blockBuffers = sync.Pool{New: func() any { return new([1 << blockLog]byte) }}

// verify checks the blocks from first to last that haven't passed yet, until
// most bytes have been read; at least the first one. It returns the first
// block that it didn't come to.
func (t *Tier) verify(h *handle, first, last int64, most int64) (next int64, err error) {
	var buf []byte
	for b := first; b <= last; b++ {
		if h.hasPassed(b) {
			continue
		}
		if most <= 0 && b > first {
			return b, nil
		}
		if buf == nil {
			if h.blockLog == blockLog {
				pooled := blockBuffers.Get().(*[1 << blockLog]byte)
				defer blockBuffers.Put(pooled)
				buf = pooled[:]
			} else {
				buf = make([]byte, 1<<h.blockLog)
			}
		}
		off := b << h.blockLog
		p := buf[:min(int64(len(buf)), h.bodyLen-off)]
		if err := t.readFull(h.file, p, bodyAt+off); err != nil {
			return b, err
		}
		if err := h.settle(b, p); err != nil {
			return b, err
		}
		most -= int64(len(p))
	}
	return last + 1, nil
}
