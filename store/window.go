package store

import (
	"context"
	"time"
)

const (
	freeWindow    = 64 << 10 // memory that every fill has, outside the budget
	windowSegment = 32 << 10 // piece of a body that isn't kept
	// laggardPatience is how long a window may stay full because of its
	// slowest readers while others wait for more.
	laggardPatience = 10 * time.Second
)

// window is the most that is kept for slow readers.
func (f *Fill) window() int64 { return max(f.budget.max/4, freeWindow) }

// slowest returns the offset up to which every reader has had the body. The
// readers are looked through only when the slowest has moved: with a thousand
// of them that is a thousand times less.
func (f *Fill) slowest() int64 {
	if f.atLeast > 0 {
		return f.least
	}
	if len(f.readers) == 0 {
		return f.size
	}
	f.least = f.readers[0].off
	for _, r := range f.readers {
		switch {
		case r.off < f.least:
			f.least, f.atLeast = r.off, 1
		case r.off == f.least:
			f.atLeast++
		}
	}
	return f.least
}

// left says that a reader is no longer at the offset.
func (f *Fill) left(offset int64) {
	if f.atLeast > 0 && offset == f.least {
		f.atLeast--
	}
}

// trim drops the segments that every reader has passed, unless the body is
// to be kept. It reports whether there were any.
func (f *Fill) trim() bool {
	if f.keep {
		return false
	}
	least := f.slowest()
	if least >= f.base {
		f.leaveSpool()
	}
	n := 0
	for _, seg := range f.segs {
		if f.base+int64(len(seg)) > least || len(seg) < cap(seg) {
			break
		}
		f.base += int64(len(seg))
		f.retained -= footprint(cap(seg))
		n++
	}
	if n == 0 {
		return false
	}
	clear(f.segs[:n]) // let go of them although the array stays
	f.segs = f.segs[n:]
	f.dropped += n
	f.settle()
	if f.retained <= f.fullAt/2 {
		f.full = time.Time{}
	}
	return true
}

// awaitRoom waits until a reader has moved on or left, or until the budget has
// room for c, which is nil if that isn't what is missing.
func (f *Fill) awaitRoom(ctx context.Context, c *claimant) error {
	var ready <-chan struct{}
	if c != nil {
		ready = c.ready
		defer f.budget.leave(c)
	}
	if f.full.IsZero() {
		f.full, f.fullAt = time.Now(), f.retained
	}
	wait := laggardPatience - time.Since(f.full)
	if wait <= 0 {
		f.cutLaggards()
		return nil // look again
	}
	room := make(chan struct{})
	f.room = room
	f.unlock()
	t := time.NewTimer(wait)
	var err error
	select {
	case <-room:
	case <-ready:
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

// cutLaggards cuts off the readers that keep half of the window from being let
// go, if there are others that wait for more.
func (f *Fill) cutLaggards() {
	f.full = time.Now()
	starving := false
	for _, r := range f.readers {
		starving = starving || r.off >= f.size
	}
	if !starving {
		return
	}
	behind, left := f.base, f.retained
	for _, seg := range f.segs {
		if left <= f.retained/2 {
			break
		}
		behind += int64(len(seg))
		left -= footprint(cap(seg))
	}
	rest := f.readers[:0]
	for _, r := range f.readers {
		if r.off < behind {
			r.cut = true
		} else {
			r.place = len(rest)
			rest = append(rest, r)
		}
	}
	clear(f.readers[len(rest):])
	f.readers, f.atLeast = rest, 0
	f.trim()
	f.tell()
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
	if f.ended && (!f.keep || f.spilled()) && len(f.readers) == 0 {
		f.leaveSpool()
		f.keep = false
		f.dropped += len(f.segs)
		f.segs, f.base, f.retained = nil, f.size, 0
		f.settle()
	}
}
