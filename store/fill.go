package store

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

const (
	minSegment = 512       // smallest piece of a body of unknown length
	maxSegment = 256 << 10 // largest
)

var (
	// ErrShort is a body that ended before its declared length.
	ErrShort = errors.New("store: the body ended before its declared length")
	// ErrLong is a body that goes on after its declared length.
	ErrLong = errors.New("store: the body is longer than its declared length")
	// ErrLagging is given to a reader that kept the window full although others
	// waited for more.
	ErrLagging = errors.New("store: reader cut off: it holds the others up")
	// ErrEnded is given to a writer that goes on after Take, End or Fail.
	ErrEnded = errors.New("store: write to a body that has ended")
	// ErrClosed is given to a reader that goes on after Close.
	ErrClosed = errors.New("store: read from a closed reader")
)

// Fill is a body that is being fetched: one writer appends, any number of
// readers follow from the first byte, each at its own pace.
//
// As long as the body may be stored the fill keeps all of it, within the
// store's largest object and the budget. When it may not (Forgo, too large, no
// budget) it keeps only what the slowest reader hasn't had yet, at most a
// quarter of the budget and at least 64 KiB, and what was there already when
// it turned out; then Append waits for that reader. Readers that still keep
// half of a full window from being let go after ten seconds, while another has
// had all there is and waits for more, are cut off.
//
// With a disk, a body that outgrows memory is spilled instead, as long as it
// may be stored: see spill.go. Then no reader holds anyone up.
//
// The writer ends the body with End or Fail: until then its memory counts.
type Fill struct {
	budget   *Budget
	maxWhole int64
	length   int64 // declared, or -1

	mu       sync.Mutex
	keep     bool // all of the body is here and may be stored
	tooLarge bool // why keep is false: larger than any tier takes
	spill    spill
	taken    bool // it's stored, or about to be
	segs     [][]byte
	dropped  int   // segments no longer here
	base     int64 // offset of the first byte still here
	size     int64 // bytes appended so far
	retained int64 // memory of segs
	charged  int64 // of that, taken from the budget
	readers  []*Reader
	least    int64         // offset of the slowest reader, if atLeast isn't 0
	atLeast  int           // readers at least; 0 if unknown
	changed  chan struct{} // closed when there's news for readers; nil if nobody waits
	room     chan struct{} // closed when there may be room for the writer; nil if it doesn't wait
	full     time.Time     // since when the window has been full
	fullAt   int64         // what was retained then
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
// ends. The bytes are copied. After an error some of them may be part of the
// body, and the writer ends it. Only one goroutine may append.
func (f *Fill) Append(ctx context.Context, p []byte) error {
	f.mu.Lock()
	defer f.unlock()
	if f.ended || f.taken {
		return ErrEnded
	}
	if f.length >= 0 && f.size+int64(len(p)) > f.length {
		return ErrLong
	}
	for len(p) > 0 {
		if f.ended {
			return ErrEnded // while the lock was given up
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
	if f.keep && (f.spilled() || f.mustSpill()) {
		return f.growSpilled()
	}
	if f.keep {
		if f.size >= f.maxWhole {
			f.forgo(true)
		} else if f.addSegment(f.nextSegment(hint), false) {
			return nil
		} else if f.maySpill() {
			return f.growSpilled()
		} else {
			f.forgo(false)
		}
	}
	f.trim()
	if f.retained+windowSegment > f.window() {
		return f.awaitRoom(ctx, nil)
	}
	if f.addSegment(windowSegment, true) {
		return nil
	}
	return f.awaitRoom(ctx, f.budget.await(f.toCharge(windowSegment)))
}

func (f *Fill) addSegment(n int64, window bool) bool {
	if !f.charge(footprint(int(n)), window) {
		return false
	}
	f.segs = append(f.segs, make([]byte, 0, n))
	if f.retained > f.fullAt {
		f.full = time.Time{} // more room than when the window was full last
	}
	return true
}

func (f *Fill) nextSegment(hint int) int64 {
	if f.length >= 0 {
		return f.length - f.size // all of it at once: stored without a copy
	}
	n := max(int64(hint), minSegment)
	if f.size > 0 {
		n = max(n, min(f.size, maxSegment))
	}
	return min(n, maxSegment, f.maxWhole-f.size)
}

// toCharge is what n further bytes take from the budget: all that is beyond
// the free window and not taken yet.
func (f *Fill) toCharge(n int64) int64 {
	return max(0, max(0, f.retained+n-freeWindow)-f.charged)
}

// charge counts n further bytes, if the budget has them.
func (f *Fill) charge(n int64, window bool) bool {
	over := f.toCharge(n)
	if !f.budget.take(over, window) {
		return false
	}
	f.charged += over
	f.retained += n
	return true
}

// settle gives back what is no longer needed.
func (f *Fill) settle() {
	if free := f.charged - max(0, f.retained-freeWindow); free > 0 {
		f.charged -= free
		f.budget.giveBack(free)
	}
}

// tell wakes the readers that wait for news.
func (f *Fill) tell() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// End says that the body is whole. It fails with ErrShort, and the body with
// it, if the declared length wasn't reached. A body that wasn't taken before
// is now its readers' only.
func (f *Fill) End() error {
	f.mu.Lock()
	defer f.unlock()
	switch {
	case f.ended:
		return f.err
	case f.length >= 0 && f.size < f.length:
		f.finish(ErrShort)
	default:
		f.finish(nil)
	}
	return f.err
}

// Fail says that the body is broken: every reader gets err once it has had
// the bytes there are. It has no effect after End. A writer that waits for
// room is released.
func (f *Fill) Fail(err error) {
	f.mu.Lock()
	defer f.unlock()
	if f.ended {
		return
	}
	if err == nil || err == io.EOF { // to a reader that would be a good end
		err = io.ErrUnexpectedEOF
	}
	f.finish(err)
}

func (f *Fill) finish(err error) {
	f.ended, f.err = true, err
	if err != nil || !f.taken {
		f.keep = false
	}
	f.trim()
	f.tell()
	f.wakeWriter()
	f.releaseIfUnread()
}

// Forgo says that the body won't be stored, so only what readers still need
// is kept.
func (f *Fill) Forgo() {
	f.mu.Lock()
	defer f.unlock()
	f.forgo(false)
	f.trim()
	f.releaseIfUnread()
}

func (f *Fill) forgo(tooLarge bool) {
	if f.keep {
		f.keep, f.tooLarge = false, tooLarge
		f.tell() // WaitSize
	}
}

// Kept reports whether all of the body so far is here and may be stored, and
// if not whether that is because it's larger than any tier takes.
func (f *Fill) Kept() (kept, tooLarge bool) {
	f.mu.Lock()
	defer f.unlock()
	return f.keep, f.tooLarge
}

// Progress returns the number of bytes so far and whether the body has ended
// well.
func (f *Fill) Progress() (size int64, whole bool) {
	f.mu.Lock()
	defer f.unlock()
	return f.size, f.ended && f.err == nil
}

// Take returns the whole body to be stored, and gives its memory back to the
// budget: it's the store's from now on. The writer calls it when it has
// appended everything, before End, so that the response is stored by the time
// readers see its end. A body in one piece isn't copied; one of unknown length
// that came in several is put together once, so that every later hit is a
// single write, and readers go on in the copy. False if the body isn't all
// here, or isn't in memory (see [Store.Keep]).
func (f *Fill) Take() ([]byte, bool) {
	f.mu.Lock()
	defer f.unlock()
	if !f.keep || f.spilled() || f.ended && !f.taken || f.length >= 0 && f.size < f.length {
		return nil, false
	}
	if f.taken {
		return f.body(), true
	}
	f.taken = true
	if n := len(f.segs); n > 1 || n == 1 && f.length < 0 && cap(f.segs[0])-len(f.segs[0]) > len(f.segs[0])/8 {
		body := make([]byte, 0, f.size)
		for _, seg := range f.segs {
			body = append(body, seg...)
		}
		clear(f.segs)
		f.segs = [][]byte{body}
		f.retained = footprint(cap(body))
		for _, r := range f.readers {
			r.seg = -1 // to be found anew
		}
	}
	f.budget.giveBack(f.charged)
	f.charged = 0
	return f.body(), true
}

// body is the body that has been taken.
func (f *Fill) body() []byte {
	if len(f.segs) == 0 {
		return nil
	}
	return f.segs[0]
}

// Full reports whether the writer is waiting for readers to make room.
func (f *Fill) Full() bool {
	f.mu.Lock()
	defer f.unlock()
	return f.room != nil
}

// Ended reports whether the body has ended, well or not.
func (f *Fill) Ended() bool {
	f.mu.Lock()
	defer f.unlock()
	return f.ended
}
