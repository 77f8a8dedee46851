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
	seconds [budgetSeconds]struct{ requests, retries int }
	last    int64 // the second that was written last
}

// turn forgets the seconds that are too old. A clock that goes back is taken as
// standing still.
func (b *budget) turn(now time.Time) int {
	s := max(now.Unix(), b.last)
	for n := min(s-b.last, budgetSeconds); n > 0; n-- {
		b.seconds[(s-n+1)%budgetSeconds] = struct{ requests, retries int }{}
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
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.turn(now)
	requests, retries := 0, 0
	for _, s := range b.seconds {
		requests += s.requests
		retries += s.retries
	}
	if retries >= floor+requests*percent/100 {
		return false
	}
	b.seconds[i].retries++
	return true
}
