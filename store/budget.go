package store

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Budget bounds the memory of all fills of a store together. Each fill has
// freeWindow bytes outside it, so that a fill always gets on and small
// responses can always be stored. A fill that isn't to be stored may only take
// more while less than half of the budget is used: the windows of slow
// downloads must not keep others from being stored.
type Budget struct {
	max  int64
	used atomic.Int64

	mu    sync.Mutex
	queue []*claimant // fills that wait for room for their window, in order
}

// claimant is a fill that waits for the budget.
type claimant struct {
	need  int64
	ready chan struct{} // closed when it should try again
}

// limit is the use up to which a fill may take more.
func (b *Budget) limit(window bool) int64 {
	if window {
		return b.max / 2
	}
	return b.max
}

// take takes n bytes, if they are there.
func (b *Budget) take(n int64, window bool) bool {
	limit := b.limit(window)
	for n > 0 {
		used := b.used.Load()
		if used+n > limit {
			return false
		}
		if b.used.CompareAndSwap(used, used+n) {
			break
		}
	}
	return true
}

// giveBack returns n bytes, and tells as many of those who wait as now have a
// chance.
func (b *Budget) giveBack(n int64) {
	if n == 0 {
		return
	}
	b.used.Add(-n)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wake()
}

func (b *Budget) wake() {
	left := b.limit(true) - b.used.Load()
	n := 0
	for ; n < len(b.queue) && b.queue[n].need <= left; n++ {
		left -= b.queue[n].need
		close(b.queue[n].ready)
	}
	b.queue = slices.Delete(b.queue, 0, n)
}

// await queues for n bytes for a window. If the room is there already, ready
// is closed at once: nothing given back meanwhile is missed.
func (b *Budget) await(n int64) *claimant {
	c := &claimant{need: n, ready: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = append(b.queue, c)
	b.wake()
	return c
}

// leave takes c out of the queue. A call that c got and doesn't use goes to
// the next.
func (b *Budget) leave(c *claimant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.queue, c); i >= 0 {
		b.queue = slices.Delete(b.queue, i, i+1)
	}
	b.wake()
}
