package store

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

const (
	freeWindow    = 64 << 10  // memory that every fill has, outside the budget
	minSegment    = 512       // smallest piece of a body of unknown length
	maxSegment    = 256 << 10 // largest
	windowSegment = 32 << 10  // piece of a body that isn't kept
	// laggardPatience is how long a window may stay full because of its
	// slowest readers while others wait for more.
	laggardPatience = 10 * time.Second
)

var (
	// ErrShort is a body that ended before its declared length.
	ErrShort = errors.New("store: the body ended before its declared length")
	// ErrLong is a body that goes on after its declared length.
	ErrLong = errors.New("store: the body is longer than its declared length")
	// ErrLagging is given to a reader that fell a whole window behind readers
	// that had to wait for it.
	ErrLagging = errors.New("store: reader cut off: it holds the others up")
	// ErrEnded is given to a writer that goes on after End or Fail.
	ErrEnded = errors.New("store: write to a body that has ended")
)

// Fill is a body that is being fetched: one writer appends, any number of
// readers follow from the first byte, each at its own pace.
//
// As long as the body may be stored the fill keeps all of it, within the
// store's largest object and the budget. When it may not (Forgo, too large, no
// budget) it keeps only what the slowest reader hasn't had yet, at most a
// quarter of the budget and at least 64 KiB; then Append waits for that
// reader. A reader that keeps the window full for ten seconds while others
// wait for more is cut off.
type Fill struct {
	budget   *Budget
	maxWhole int64
	length   int64 // declared, or -1

	mu       sync.Mutex
	keep     bool // all of the body is here and may be stored
	tooLarge bool // why keep is false: larger than any tier takes
	segs     [][]byte
	dropped  int   // segments no longer here
	base     int64 // offset of the first byte still here
	size     int64 // bytes appended so far
	retained int64 // capacity of segs
	charged  int64 // of that, taken from the budget
	readers  []*Reader
	changed  chan struct{} // closed when there's news for readers; nil if nobody waits
	room     chan struct{} // closed when there may be room for the writer; nil if it doesn't wait
	full     time.Time     // since when the window has been full
	ended    bool
	err      error
}

func newFill(b *Budget, length, maxWhole int64) *Fill {
	f := &Fill{budget: b, length: length, maxWhole: maxWhole, keep: true}
	if length > maxWhole {
		f.keep, f.tooLarge = false, true
	}
	return f
}

// Append adds p to the body. It blocks while the window is full, until ctx
// ends. The bytes are copied. Only one goroutine may append.
func (f *Fill) Append(ctx context.Context, p []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.length >= 0 && f.size+int64(len(p)) > f.length {
		return ErrLong
	}
	for len(p) > 0 {
		if f.ended {
			return ErrEnded
		}
		last := len(f.segs) - 1
		if last < 0 || len(f.segs[last]) == cap(f.segs[last]) {
			if err := f.grow(ctx, len(p)); err != nil {
				return err
			}
			continue
		}
		seg := f.segs[last]
		n := min(len(p), cap(seg)-len(seg))
		f.segs[last] = append(seg, p[:n]...)
		f.size += int64(n)
		p = p[n:]
		f.tell()
	}
	return nil
}

// grow adds a segment, waiting for room if need be. The lock is given up
// while it waits, so it returns without a segment when things have changed.
func (f *Fill) grow(ctx context.Context, hint int) error {
	if f.keep {
		if f.size >= f.maxWhole && f.size+int64(hint) > f.maxWhole {
			f.forgo(true)
		} else if n := f.nextSegment(hint); f.charge(n, false) {
			f.segs = append(f.segs, make([]byte, 0, n))
			return nil
		} else {
			f.forgo(false)
		}
	}
	f.trim()
	if f.retained+windowSegment <= f.window() && f.charge(windowSegment, true) {
		f.segs = append(f.segs, make([]byte, 0, windowSegment))
		return nil
	}
	return f.awaitRoom(ctx)
}

func (f *Fill) nextSegment(hint int) int64 {
	if f.length >= 0 {
		return f.length - f.size // all of it at once: stored without a copy
	}
	n := max(int64(hint), minSegment)
	if f.size > 0 {
		n = max(n, min(f.size, maxSegment))
	}
	return min(n, maxSegment, f.maxWhole-f.size+1)
}

// window is the most that is kept for slow readers.
func (f *Fill) window() int64 { return max(f.budget.max/4, freeWindow) }

// charge takes n further bytes from the budget, less the free window.
func (f *Fill) charge(n int64, window bool) bool {
	over := max(0, f.retained+n-freeWindow) - f.charged
	if over > 0 {
		if !f.budget.take(over, window) {
			return false
		}
		f.charged += over
	}
	f.retained += n
	return true
}

// settle gives back what is no longer needed.
func (f *Fill) settle() {
	if free := f.charged - max(0, f.retained-freeWindow); free > 0 {
		f.budget.giveBack(free)
		f.charged -= free
	}
}

// trim drops the segments that every reader has passed, unless the body is
// to be kept.
func (f *Fill) trim() {
	if f.keep {
		return
	}
	least := f.size
	for _, r := range f.readers {
		least = min(least, r.off)
	}
	n := 0
	for _, seg := range f.segs {
		if f.base+int64(len(seg)) > least || len(seg) < cap(seg) {
			break
		}
		f.base += int64(len(seg))
		f.retained -= int64(cap(seg))
		n++
	}
	if n > 0 {
		clear(f.segs[:n]) // let go of them although the array stays
		f.segs = f.segs[n:]
		f.dropped += n
		f.settle()
	}
	if f.retained <= f.window()/2 {
		f.full = time.Time{}
	}
}

// awaitRoom waits until a reader has moved on or left.
func (f *Fill) awaitRoom(ctx context.Context) error {
	if f.full.IsZero() {
		f.full = time.Now()
	}
	wait := laggardPatience - time.Since(f.full)
	if wait <= 0 {
		f.cutLaggards()
		return nil // look again
	}
	room := make(chan struct{})
	f.room = room
	f.mu.Unlock()
	t := time.NewTimer(wait)
	var err error
	select {
	case <-room:
	case <-t.C:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	t.Stop()
	f.mu.Lock()
	if f.room == room {
		f.room = nil
	}
	if err == nil && f.ended {
		err = ErrEnded
	}
	return err
}

// cutLaggards cuts off the readers that keep the window full, if there are
// others that wait for more.
func (f *Fill) cutLaggards() {
	f.full = time.Now()
	starving := false
	for _, r := range f.readers {
		starving = starving || r.off == f.size
	}
	if !starving {
		return
	}
	behind := f.size - f.retained/2
	rest := f.readers[:0]
	for _, r := range f.readers {
		if r.off < behind {
			r.cut = true
		} else {
			rest = append(rest, r)
		}
	}
	clear(f.readers[len(rest):])
	f.readers = rest
	f.trim()
	f.tell()
}

// tell wakes the readers that wait for news.
func (f *Fill) tell() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// End says that the body is whole. It fails with ErrShort, and the body with
// it, if the declared length wasn't reached.
func (f *Fill) End() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return f.err
	}
	if f.length >= 0 && f.size < f.length {
		f.finish(ErrShort)
		return ErrShort
	}
	f.finish(nil)
	return nil
}

// Fail says that the body is broken: every reader gets err once it has had
// the bytes there are. It has no effect after End. A writer that waits for
// room is released.
func (f *Fill) Fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	f.finish(err)
}

func (f *Fill) finish(err error) {
	f.ended, f.err = true, err
	if err != nil {
		f.keep = false
	}
	f.trim()
	f.tell()
	f.wakeWriter()
	f.releaseIfUnread()
}

func (f *Fill) wakeWriter() {
	if f.room != nil {
		close(f.room)
		f.room = nil
	}
}

// releaseIfUnread lets go of everything once the body has ended, isn't to be
// stored, and nobody reads.
func (f *Fill) releaseIfUnread() {
	if f.ended && !f.keep && len(f.readers) == 0 {
		f.dropped += len(f.segs)
		f.segs, f.base, f.retained = nil, f.size, 0
		f.settle()
	}
}

// Forgo says that the body won't be stored, so only what readers still need
// is kept.
func (f *Fill) Forgo() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgo(false)
	f.trim()
	f.releaseIfUnread()
}

func (f *Fill) forgo(tooLarge bool) {
	if f.keep {
		f.keep, f.tooLarge = false, tooLarge
	}
}

// Kept reports whether all of the body so far is here and may be stored, and
// if not whether that is because it's larger than any tier takes.
func (f *Fill) Kept() (kept, tooLarge bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.keep, f.tooLarge
}

// Progress returns the number of bytes so far and whether the body has ended
// well.
func (f *Fill) Progress() (size int64, whole bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.size, f.ended && f.err == nil
}

// Take returns the whole body to be stored, and gives its memory back to the
// budget: it's the store's from now on. The writer calls it when it has
// appended everything, before End, so that the response is stored by the time
// readers see its end. A body in one piece isn't copied; one of unknown length
// that came in several is put together once, so that every later hit is a
// single write. False if the body isn't all here.
func (f *Fill) Take() ([]byte, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.keep || f.err != nil || f.length >= 0 && f.size < f.length {
		return nil, false
	}
	var body []byte
	if len(f.segs) == 1 && cap(f.segs[0])-len(f.segs[0]) <= len(f.segs[0])/8 {
		body = f.segs[0][:f.size:f.size]
	} else if f.size > 0 {
		body = make([]byte, 0, f.size)
		for _, seg := range f.segs {
			body = append(body, seg...)
		}
	}
	f.budget.giveBack(f.charged)
	f.charged = 0
	return body, true
}

// Full reports whether the writer is waiting for readers to make room.
func (f *Fill) Full() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.room != nil
}
