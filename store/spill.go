package store

import (
	"errors"
	"slices"
	"sync"
)

// A body that may be stored but outgrows what memory may keep is spilled: the
// writer goes on in a [Spool] of the disk, and memory has only the newest piece
// or two, within the free window. Readers that are near read those; the others
// read from the spool into a buffer of their own. Nobody waits for a reader.
//
// Lock order: the primary key's family (tiers.go) and the disk's own come while
// the fill's is given up.
//
// The spool has the bytes before spill.size, memory those from base on, and base
// is never beyond spill.size while anybody needs what is before it. When the
// spool fails, the body goes on as one that isn't kept; the readers that need
// what is in the spool still read it there.

// spill is the part of a Fill that is about its spool.
type spill struct {
	disk   SpoolTier // nil: there is none, or it failed
	early  bool      // the declared length is more than memory keeps
	spool  Spool     // nil before, and after the last one has left it
	size   int64     // bytes in the spool
	failed Rejection // why the body couldn't go on in the spool
	users  int       // who use the spool without the lock
	// toClose is closed as soon as the lock is given up: it may take a while.
	toClose Spool
}

// spillTo lets the body go to the disk. It's called before anything else.
func (f *Fill) spillTo(disk SpoolTier) {
	most := disk.MaxObject()
	if f.maxWhole >= most || f.length > most {
		return
	}
	f.spill.disk = disk
	if f.length > f.maxWhole {
		f.keep, f.tooLarge, f.spill.early = true, false, true
	}
}

// spilled reports whether the body has gone to a spool.
func (f *Fill) spilled() bool { return f.spill.spool != nil }

func (f *Fill) maySpill() bool { return f.spill.disk != nil }

// mustSpill reports whether memory may not keep any more of the body and the
// disk may.
func (f *Fill) mustSpill() bool {
	return f.maySpill() && (f.spill.early || f.size >= f.maxWhole)
}

// onSpool reports whether what is no longer in memory is in the spool.
func (f *Fill) onSpool() bool { return f.spilled() && f.base <= f.spill.size }

// growSpilled writes what is in memory only to the spool, lets go of what
// memory needn't have, and adds a segment. The lock is given up meanwhile.
func (f *Fill) growSpilled() error {
	err := f.writeSpool()
	if f.ended {
		return ErrEnded
	}
	if !f.keep { // Forgo came between
		return nil
	}
	if err != nil {
		f.spoolFailed(err)
		return nil
	}
	f.dropSpilled()
	n := int64(windowSegment)
	if f.length >= 0 {
		n = min(n, f.length-f.size)
	}
	f.addSegment(n, false) // it's within the free window
	return nil
}

// writeSpool brings all of the body so far into the spool, which it makes if
// need be. Only the writer calls it.
func (f *Fill) writeSpool() error {
	s := f.spill.spool
	pending := f.pending()
	f.spill.users++
	f.unlock()
	var err error
	if s == nil {
		s, err = f.spill.disk.Create()
	}
	for _, p := range pending {
		if err == nil {
			_, err = s.Write(p)
		}
	}
	f.mu.Lock()
	f.spill.users--
	switch {
	case err == nil:
		f.spill.spool, f.spill.size = s, f.size
	case f.spill.spool == nil && s != nil:
		f.spill.toClose = s // memory still has it all
	}
	if f.ended {
		f.trim()
		f.releaseIfUnread()
	}
	return err
}

// pending returns the pieces of the body that aren't in the spool.
func (f *Fill) pending() [][]byte {
	segs := slices.Clone(f.segs) // whoever ends the body clears the fill's own
	skip := f.spill.size - f.base
	for len(segs) > 0 && skip >= int64(len(segs[0])) {
		skip -= int64(len(segs[0]))
		segs = segs[1:]
	}
	if len(segs) > 0 && skip > 0 {
		segs[0] = segs[0][skip:]
	}
	return segs
}

// dropSpilled lets go of the oldest segments until there's room for another
// within the free window. They are all in the spool.
func (f *Fill) dropSpilled() {
	n := 0
	for f.retained+windowSegment > freeWindow {
		f.base += int64(len(f.segs[n]))
		f.retained -= footprint(cap(f.segs[n]))
		n++
	}
	if n > 0 {
		clear(f.segs[:n])
		f.segs = f.segs[n:]
		f.dropped += n
		f.settle()
	}
}

// spoolFailed goes on without the disk.
func (f *Fill) spoolFailed(err error) {
	f.spill.failed = SwitchedOff
	var r *RejectedError
	if errors.As(err, &r) {
		f.spill.failed = r.Reason
	}
	f.forgo(f.spill.failed == TooLarge)
	f.spill.disk = nil
	f.trim()
}

// leaveSpool closes the spool if nobody uses it, as soon as the lock is given
// up. It's called when nobody needs what is in it.
func (f *Fill) leaveSpool() {
	if f.spilled() && f.spill.users == 0 {
		f.spill.toClose, f.spill.spool = f.spill.spool, nil
	}
}

// unlock gives up the lock, and then closes the spool if that's due.
func (f *Fill) unlock() {
	s := f.spill.toClose
	f.spill.toClose = nil
	f.mu.Unlock()
	if s != nil {
		_ = s.Close() // the disk has told of it if it failed
	}
}

// commit makes the whole spilled body an object of the disk: put is called
// with what commits it, and returns a channel if that goes on until it's closed. Only the
// writer calls it, before End.
func (f *Fill) commit(o *Object, put func(func(*Object) Rejection) (Rejection, <-chan struct{})) Rejection {
	r := f.prepare(o)
	if r != Kept {
		return r
	}
	f.mu.Lock()
	defer f.unlock()
	if f.ended || !f.keep {
		return Incomplete
	}
	var late <-chan struct{}
	f.withSpool(func(s Spool) { r, late = put(s.Commit) })
	if late != nil {
		f.spill.users++
		go f.leaveWhen(late)
	}
	f.taken = r == Kept
	if r != Kept {
		f.forgo(r == TooLarge)
	}
	if f.ended {
		f.keep = false
		f.trim()
		f.releaseIfUnread()
	}
	return r
}

// prepare brings all of the body into the spool, and does there what takes long of
// committing it. What fails there is told by the commit.
func (f *Fill) prepare(o *Object) Rejection {
	f.mu.Lock()
	defer f.unlock()
	if !f.keep || f.ended || f.taken || f.length >= 0 && f.size < f.length {
		return Incomplete
	}
	if err := f.writeSpool(); err != nil {
		f.spoolFailed(err)
		return f.spill.failed
	}
	if f.ended || !f.keep {
		return Incomplete
	}
	f.withSpool(func(s Spool) { _ = s.Prepare(o) })
	if f.ended {
		f.trim()
		f.releaseIfUnread()
	}
	return Kept
}

// leaveWhen stops using the spool when late is closed: the disk has come back.
func (f *Fill) leaveWhen(late <-chan struct{}) {
	<-late
	f.mu.Lock()
	defer f.unlock()
	f.leftSpool()
}

// leftSpool says that one who used the spool doesn't any more.
func (f *Fill) leftSpool() {
	f.spill.users--
	if f.spill.users == 0 { // it may have been kept for this one alone
		if f.trim() {
			f.wakeWriter()
		}
		f.releaseIfUnread()
	}
}

// withSpool calls use with the spool, which stays open meanwhile. The lock is given up.
func (f *Fill) withSpool(use func(Spool)) {
	s := f.spill.spool
	f.spill.users++
	f.unlock()
	use(s)
	f.mu.Lock()
	f.spill.users--
}

// spoolBuffer is what a reader that is behind reads into.
type spoolBuffer [64 << 10]byte

var spoolBuffers = sync.Pool{New: func() any { return new(spoolBuffer) }}

// fromSpool is Next for what memory no longer has. It's called with the lock
// and gives it up.
func (r *Reader) fromSpool() ([]byte, error) {
	f := r.f
	s, n := f.spill.spool, min(int64(len(spoolBuffer{})), f.spill.size-r.off)
	f.spill.users++
	f.unlock()
	if r.buf == nil {
		r.buf = spoolBuffers.Get().(*spoolBuffer)
	}
	got, err := s.ReadAt(r.buf[:n], r.off)
	f.mu.Lock()
	defer f.unlock()
	f.leftSpool()
	if r.cut {
		return nil, ErrLagging
	}
	if got == 0 {
		return nil, errors.Join(ErrGone, err)
	}
	r.given = got
	return r.buf[:got], nil
}

func (r *Reader) dropBuffer() {
	if r.buf != nil {
		spoolBuffers.Put(r.buf)
		r.buf = nil
	}
}
