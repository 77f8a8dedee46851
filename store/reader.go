package store

import (
	"context"
	"io"
)

// Reader follows a [Fill]. It belongs to one goroutine.
type Reader struct {
	f      *Fill
	off    int64 // everything before has been consumed
	given  int   // length of the piece returned last
	seg    int   // number of the segment that off is in, counted from the first ever
	segOff int
	place  int  // in the fill's list of readers
	cut    bool // no longer there, because it held others up
	closed bool
	buf    *spoolBuffer // for what is read from a spool; nil until needed
}

// Reader returns a reader that starts at the offset, or false if the bytes
// from there on are not all kept any more. An offset that the body doesn't
// reach is no error: the reader waits, and gets io.EOF in the end. Whoever got
// a reader closes it.
func (f *Fill) Reader(offset int64) (*Reader, bool) {
	f.mu.Lock()
	defer f.unlock()
	if offset < f.base && !f.onSpool() {
		return nil, false
	}
	r := &Reader{f: f, off: offset, seg: -1, place: len(f.readers)}
	f.readers = append(f.readers, r)
	switch {
	case f.atLeast == 0:
	case offset < f.least:
		f.least, f.atLeast = offset, 1
	case offset == f.least:
		f.atLeast++
	}
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
		if err := r.over(); err != nil {
			f.unlock()
			return nil, err
		}
		if r.off < f.base {
			return r.fromSpool() // gives up the lock
		}
		if r.off < f.size {
			p := r.piece()
			f.unlock()
			return p, nil
		}
		if err := f.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// over returns the error that the reading ends with, if it does now.
func (r *Reader) over() error {
	f := r.f
	switch {
	case r.closed:
		return ErrClosed
	case r.cut:
		return ErrLagging
	case r.off < f.size || !f.ended:
		return nil
	case f.err != nil:
		return f.err
	}
	return io.EOF
}

// wait waits for news. It's called with the lock and returns with it, except
// on an error.
func (f *Fill) wait(ctx context.Context) error {
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	changed := f.changed
	f.unlock()
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
	if r.given == 0 || r.cut || r.closed {
		return
	}
	f := r.f
	f.left(r.off)
	r.off += int64(r.given)
	r.segOff += r.given
	r.given = 0
	if f.atLeast == 0 && f.trim() {
		f.wakeWriter()
	}
}

// piece returns what is there from off on, in one segment.
func (r *Reader) piece() []byte {
	f := r.f
	if r.seg < f.dropped { // the first time, or passed and gone: find the segment
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
	defer f.unlock()
	return r.closed || r.cut || f.ended || r.off+int64(r.given) < f.size
}

// Close ends the reading. Bytes that only this reader still needed are let
// go. Closing twice does nothing.
func (r *Reader) Close() {
	f := r.f
	f.mu.Lock()
	defer f.unlock()
	r.dropBuffer()
	if r.closed || r.cut {
		r.closed = true
		return
	}
	r.closed = true
	last := len(f.readers) - 1
	f.readers[r.place] = f.readers[last]
	f.readers[r.place].place = r.place
	f.readers[last] = nil
	f.readers = f.readers[:last]
	f.left(r.off)
	f.trim()
	f.wakeWriter()
	f.releaseIfUnread()
}

// WaitSize waits until the body has at least n bytes or has ended, and returns
// its size then and whether it has ended well. If the body isn't kept, it
// doesn't wait for more than every window holds: those who should read would
// wait for the writer, and the writer for them.
func (f *Fill) WaitSize(ctx context.Context, n int64) (size int64, whole bool, err error) {
	f.mu.Lock()
	for f.size < n && !f.ended && (f.keep || n <= freeWindow-windowSegment) {
		if err := f.wait(ctx); err != nil {
			return 0, false, err
		}
	}
	defer f.unlock()
	return f.size, f.ended && f.err == nil, nil
}
