package lb

import (
	"sync"
	"time"
)

const budgetSeconds = 10

// budget bounds how many attempts are repetitions: in ten seconds as many as a
// share of the requests, and a few in any case. A pool that fails as a whole gets
// that little more load, not three times as much.
type budget struct {
	mu      sync.Mutex
	seconds [budgetSeconds]budgetSecond
	last    int64 // the second that was written last
}

type budgetSecond struct {
	requests int
	taken    [2]int // repetitions: those that are load, and free ones
}

// Repetitions of what reached no process of an origin, or only found that a
// connection was closed, have a budget of their own: one for each request, and a few.
const (
	freePercent = 100
	freeFloor   = 3
)

// turn forgets the seconds that are too old. A clock that goes back is taken as
// standing still.
func (b *budget) turn(now time.Time) int {
	s := max(now.Unix(), b.last)
	for n := min(s-b.last, budgetSeconds); n > 0; n-- {
		b.seconds[(s-n+1)%budgetSeconds] = budgetSecond{}
	}
	b.last = s
	return int(s % budgetSeconds)
}

// request counts a request.
func (b *budget) request(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seconds[b.turn(now)].requests++
}

// take counts a repetition if there is room for it.
func (b *budget) take(now time.Time, percent, floor int) bool {
	return b.takeOf(0, now, percent, floor)
}

// takeFree is take for a repetition that isn't load, or hardly any.
func (b *budget) takeFree(now time.Time) bool {
	return b.takeOf(1, now, freePercent, freeFloor)
}

func (b *budget) takeOf(kind int, now time.Time, percent, floor int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.turn(now)
	requests, taken := 0, 0
	for _, s := range b.seconds {
		requests += s.requests
		taken += s.taken[kind]
	}
	if taken >= floor+requests*percent/100 {
		return false
	}
	b.seconds[i].taken[kind]++
	return true
}
