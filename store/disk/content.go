package disk

import (
	"errors"
	"io"
	"os"

	"github.com/weirhttp/weir/store"
)

// content is the body of an object on disk: this one and no later one under
// the same key.
type content struct {
	t     *Tier
	key   store.Key
	nonce uint64
	size  int64
}

func (c *content) Size() int64 { return c.size }

// Open costs no system call if the file is open already.
func (c *content) Open() (store.File, error) {
	h := c.t.handles.get(&c.key)
	if h == nil {
		var err error
		if h, err = c.t.find(&c.key); err != nil {
			return nil, err
		}
	}
	if h.nonce != c.nonce {
		c.t.handles.put(h)
		return nil, store.ErrGone
	}
	return &file{t: c.t, h: h}, nil
}

// file is one reader of a handle.
type file struct {
	t     *Tier
	h     *handle
	own   *os.File // a descriptor with an offset of its own; nil until needed
	lr    io.LimitedReader
	alone bool // there's no such descriptor: read at offsets
}

// verifyAhead is how much is checked at most for one Section.
const verifyAhead = 1 << 20

// Section implements [store.File].
func (f *file) Section(off, n int64) (*io.LimitedReader, error) {
	h := f.h
	if h == nil {
		return nil, os.ErrClosed
	}
	if off < 0 || n <= 0 || off >= h.bodyLen {
		return nil, io.EOF
	}
	n = min(n, h.bodyLen-off)
	next, err := f.t.verify(h, off>>h.blockLog, (off+n-1)>>h.blockLog, verifyAhead)
	if err != nil {
		return nil, f.t.failed(h, err)
	}
	n = min(n, next<<h.blockLog-off)
	if f.own == nil && !f.alone {
		f.own = f.t.handles.lend(h)
		f.alone = f.own == nil
	}
	if !f.alone {
		if _, err := f.own.Seek(bodyAt+off, io.SeekStart); err != nil {
			return nil, f.t.failed(h, err)
		}
		f.lr = io.LimitedReader{R: f.own, N: n}
	} else {
		f.lr = io.LimitedReader{R: io.NewSectionReader(h.file, bodyAt+off, n), N: n}
	}
	return &f.lr, nil
}

func (f *file) Close() error {
	if f.h == nil {
		return nil
	}
	if f.own != nil {
		f.t.handles.giveBack(f.h, f.own)
	}
	f.t.handles.put(f.h)
	f.h, f.own, f.lr.R = nil, nil, nil
	return nil
}

// failed deals with an error on the way of a body and returns what to tell
// the reader.
func (t *Tier) failed(h *handle, err error) error {
	t.condemn(h) // if the disk can't read it, nobody shall wait for that again
	if errors.Is(err, errCorrupt) {
		t.corrupt.Add(1)
		return store.ErrCorrupt
	}
	t.readFailed(err)
	return errors.Join(store.ErrGone, err)
}
