package disk

import (
	"os"
	"sync"
)

// tailSize is what is collected of a file before it's written. The system keeps
// a file in memory in pieces as large as its writes, if they are aligned: with
// smaller ones a hit costs up to a third more of the processor.
const tailSize = 64 << 10

// tail is the end of a file that isn't written yet. One goroutine writes, any
// number read. It begins where a multiple of tailSize is.
type tail struct {
	mu  sync.RWMutex // guards n and at; what is in buf before n doesn't change with them
	buf *[tailSize]byte
	at  int64 // offset in the file of buf[0]
	n   int
}

var tails = sync.Pool{New: func() any { return new([tailSize]byte) }}

// newTail returns the tail of an empty file whose first n bytes will be written
// in the end.
func newTail(n int) *tail {
	t := &tail{buf: tails.Get().(*[tailSize]byte), n: n}
	clear(t.buf[:n])
	return t
}

// write appends p to the file.
func (t *tail) write(files *files, f *os.File, p []byte) error {
	for len(p) > 0 {
		if t.n == 0 && len(p) >= tailSize {
			n := len(p) &^ (tailSize - 1)
			if err := files.writeAt(f, p[:n], t.at); err != nil {
				return err
			}
			t.move(int64(n))
			p = p[n:]
			continue
		}
		n := copy(t.buf[t.n:], p) // no reader looks beyond n
		t.mu.Lock()
		t.n += n
		t.mu.Unlock()
		p = p[n:]
		if t.n == tailSize {
			if err := files.writeAt(f, t.buf[:], t.at); err != nil {
				return err
			}
			t.move(tailSize)
		}
	}
	return nil
}

// move says that n bytes from the tail's beginning are in the file now.
func (t *tail) move(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at, t.n = t.at+n, 0
}

// readAt reads what is in the tail from off on, and returns how many bytes. If off
// comes before it, it returns how many bytes of p the file has instead.
func (t *tail) readAt(p []byte, off int64) (n, inFile int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if off < t.at {
		return 0, int(min(int64(len(p)), t.at-off))
	}
	return copy(p, t.buf[min(off-t.at, int64(t.n)):t.n]), 0
}

// free gives the buffer back.
func (t *tail) free() {
	if t.buf != nil {
		tails.Put(t.buf)
		t.buf = nil
	}
}
