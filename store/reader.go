package store

import (
	"context"
	"io"
	"slices"
)

// Reader follows a [Fill]. It belongs to one goroutine.
type Reader struct {
	f      *Fill
	off    int64 // everything before has been consumed
	given  int   // length of the piece returned last
	seg    int   // number of the segment that off is in, counted from the first ever
	segOff int
	cut    bool
}

// Reader returns a reader that starts at the offset, or false if the bytes
// from there on are not all kept any more. An offset that the body doesn't
// reach is no error: the reader waits, and gets io.EOF in the end.
func (f *Fill) Reader(offset int64) (*Reader, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if offset < f.base || f.ended && !f.keep && len(f.segs) == 0 && f.size > 0 {
		return nil, false
	}
	r := &Reader{f: f, off: offset, seg: -1}
	f.readers = append(f.readers, r)
	return r, true
}

// Next returns the next bytes of the body, waiting for them if need be. They
// are valid until the next call and must not be changed. After the last byte
// it returns io.EOF, or the error with which the body failed. When ctx ends
// it returns the cause.
func (r *Reader) Next(ctx context.Context) ([]byte, error) {
	f := r.f
	f.mu.Lock()
	r.consume()
	for {
		if r.cut {
			f.mu.Unlock()
			return nil, ErrLagging
		}
		if r.off < f.size {
			p := r.piece()
			f.mu.Unlock()
			return p, nil
		}
		if f.ended {
			err := f.err
			f.mu.Unlock()
			if err == nil {
				err = io.EOF
			}
			return nil, err
		}
		if err := f.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// wait waits for news. It's called with the lock and returns with it, except
// on an error.
func (f *Fill) wait(ctx context.Context) error {
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	changed := f.changed
	f.mu.Unlock()
	select {
	case <-changed:
		f.mu.Lock()
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// consume moves past the piece returned last.
func (r *Reader) consume() {
	if r.given == 0 {
		return
	}
	r.off += int64(r.given)
	r.segOff += r.given
	r.given = 0
	if f := r.f; !f.keep && !r.cut {
		before := f.retained
		f.trim()
		if f.retained < before {
			f.wakeWriter()
		}
	}
}

// piece returns what is there from off on, in one segment.
func (r *Reader) piece() []byte {
	f := r.f
	if r.seg < 0 { // the first time: find the segment
		r.seg, r.segOff = f.dropped, int(r.off-f.base)
	}
	seg := f.segs[r.seg-f.dropped]
	for r.segOff >= len(seg) && r.seg-f.dropped+1 < len(f.segs) {
		r.segOff -= len(seg)
		r.seg++
		seg = f.segs[r.seg-f.dropped]
	}
	p := seg[r.segOff:len(seg):len(seg)]
	r.given = len(p)
	return p
}

// More reports whether Next would return at once.
func (r *Reader) More() bool {
	f := r.f
	f.mu.Lock()
	defer f.mu.Unlock()
	return r.cut || f.ended || r.off+int64(r.given) < f.size
}

// Close ends the reading. Bytes that only this reader still needed are let
// go. Closing twice does nothing.
func (r *Reader) Close() {
	f := r.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.Index(f.readers, r); i >= 0 {
		f.readers = slices.Delete(f.readers, i, i+1)
		f.trim()
		f.wakeWriter()
		f.releaseIfUnread()
	}
}

// WaitSize waits until the body has at least n bytes or has ended, and returns
// its size then and whether it has ended well.
func (f *Fill) WaitSize(ctx context.Context, n int64) (size int64, whole bool, err error) {
	f.mu.Lock()
	for f.size < n && !f.ended {
		if err := f.wait(ctx); err != nil {
			return 0, false, err
		}
	}
	defer f.mu.Unlock()
	return f.size, f.ended && f.err == nil, nil
}
