package purge

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// drainEvery is how often queued purges are looked at.
const drainEvery = 10 * time.Millisecond

// maxBuckets bounds the zones whose budgets are remembered one by one. Full ones
// are dropped first; zones beyond share one.
const maxBuckets = 4096

// BusyError is an [ErrBusy] with its zone.
type BusyError struct {
	Zone       string
	RetryAfter time.Duration // when half of the queue will have drained
}

// Error returns the sentence of ErrBusy with the zone.
func (e *BusyError) Error() string { return fmt.Sprintf("%v for zone %s", ErrBusy, clip(e.Zone)) }

// Unwrap returns ErrBusy.
func (e *BusyError) Unwrap() error { return ErrBusy }

// queues are the budgets of zones and what waits for them.
type queues struct {
	rate, burst float64 // rate is negative for no bound
	most        int

	mu       sync.Mutex
	zones    map[zoneKey]*bucket
	waiting  map[zoneKey]*bucket // those with a queue
	swept    time.Time
	draining bool
	stopped  bool
	quit     chan struct{}
	idle     chan struct{} // closed when the drainer has ended
}

// zoneKey is a zone, or everything.
type zoneKey struct {
	zone string
	all  bool
}

// bucket is the budget of a zone. Its queue holds no selector twice.
type bucket struct {
	tokens float64
	at     time.Time
	queue  []Selector       // oldest first
	index  map[Selector]int // by selector without Soft: its place, counted from the first that ever queued
	taken  int              // how many have left the queue
}

func (q *queues) init(o Options) {
	q.rate, q.burst, q.most = float64(o.Rate), float64(o.Burst), o.MaxQueued
	q.zones, q.waiting = map[zoneKey]*bucket{}, map[zoneKey]*bucket{}
	q.quit = make(chan struct{})
}

// Submit is [List.Add] within the budgets of the selectors' zones ([Options].Rate).
// Purges beyond a budget queue, identical ones once, and take effect at that rate:
// later than they would otherwise, for all that was fetched until then, and not at
// all if the process ends first. Other zones aren't affected. A call may overdraw
// its budget, so that it isn't torn apart. When a queue is full the call is
// refused with a *[BusyError] and nothing was purged.
func (l *List) Submit(ctx context.Context, selectors ...Selector) (Result, error) {
	clean, err := canonicalAll(selectors)
	if err != nil || len(clean) == 0 {
		return Result{}, err
	}
	now, err := l.queues.admit(clean, time.Now(), l.drain)
	if err != nil {
		return Result{}, err
	}
	var res Result
	if len(now) > 0 {
		res, err = l.add(ctx, now)
	}
	res.Queued = len(clean) - len(now)
	return res, err
}

// admit returns the selectors that are within budget and queues the others, or
// neither.
func (q *queues) admit(clean []Selector, now time.Time, drain func()) ([]Selector, error) {
	if q.rate < 0 {
		return clean, nil
	}
	byZone := map[zoneKey][]Selector{}
	for _, s := range clean {
		k := zoneKey{s.Zone, s.Kind == Everything}
		byZone[k] = append(byZone[k], s)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped {
		return nil, ErrClosed
	}
	for k, list := range byZone {
		b := q.bucket(k, now)
		if !b.open() && b.fresh(list) > q.most-len(b.queue) {
			return nil, &BusyError{k.zone, time.Duration(float64(q.most) / 2 / q.rate * float64(time.Second))}
		}
	}
	apply := make([]Selector, 0, len(clean))
	for k, list := range byZone {
		b := q.bucket(k, now)
		if b.open() {
			b.tokens -= float64(len(list))
			apply = append(apply, list...)
			continue
		}
		b.enqueue(list)
		q.waiting[k] = b
	}
	if len(q.waiting) > 0 && !q.draining {
		q.draining = true
		q.idle = make(chan struct{})
		go drain()
	}
	return apply, nil
}

// bucket returns a zone's budget as of now. The lock is held.
func (q *queues) bucket(k zoneKey, now time.Time) *bucket {
	b := q.zones[k]
	if b == nil {
		if len(q.zones) >= maxBuckets {
			q.sweep(now)
		}
		if len(q.zones) >= maxBuckets && !k.all {
			k = zoneKey{}
			b = q.zones[k]
		}
	}
	if b == nil {
		b = &bucket{tokens: q.burst, at: now}
		q.zones[k] = b
	}
	b.refill(q, now)
	return b
}

func (b *bucket) refill(q *queues, now time.Time) {
	if since := now.Sub(b.at); since > 0 {
		b.tokens = min(q.burst, b.tokens+q.rate*since.Seconds())
		b.at = now
	}
}

// sweep drops the budgets that are as good as new, once a second at most.
func (q *queues) sweep(now time.Time) {
	if since := now.Sub(q.swept); since >= 0 && since < time.Second {
		return
	}
	q.swept = now
	for k, b := range q.zones {
		if b.refill(q, now); len(b.queue) == 0 && b.tokens >= q.burst {
			delete(q.zones, k)
		}
	}
}

// open reports whether a call needn't queue.
func (b *bucket) open() bool { return len(b.queue) == 0 && b.tokens >= 1 }

// fresh counts the selectors that aren't in the queue yet.
func (b *bucket) fresh(list []Selector) int {
	n := 0
	for _, s := range list {
		s.Soft = false
		if _, queued := b.index[s]; !queued {
			n++
		}
	}
	return n
}

func (b *bucket) enqueue(list []Selector) {
	if b.index == nil {
		b.index = map[Selector]int{}
	}
	for _, s := range list {
		hard := s
		hard.Soft = false
		if i, queued := b.index[hard]; queued {
			b.queue[i-b.taken].Soft = b.queue[i-b.taken].Soft && s.Soft
			continue
		}
		b.index[hard] = b.taken + len(b.queue)
		b.queue = append(b.queue, s)
	}
}

// take removes up to n selectors from the queue, those that have waited longest.
func (b *bucket) take(n int) []Selector {
	n = min(n, len(b.queue))
	out := slices.Clone(b.queue[:n])
	clear(b.queue[:n]) // the array outlives them
	b.queue = b.queue[n:]
	b.taken += n
	for _, s := range out {
		s.Soft = false
		delete(b.index, s)
	}
	if len(b.queue) == 0 {
		b.queue, b.index, b.taken = nil, nil, 0
	}
	return out
}

// due removes what the budgets allow by now, or all, from the queues.
func (q *queues) due(now time.Time, all bool) (out []Selector) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for k, b := range q.waiting {
		b.refill(q, now)
		n := len(b.queue)
		if !all {
			n = max(0, min(n, int(b.tokens)))
		}
		b.tokens -= float64(n)
		out = append(out, b.take(n)...)
		if len(b.queue) == 0 {
			delete(q.waiting, k)
		}
	}
	return out
}

// drain applies queued purges until there are none.
func (l *List) drain() {
	q := &l.queues
	defer close(q.idle)
	tick := time.NewTicker(drainEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-q.quit:
			return
		}
		l.applyAll(q.due(time.Now(), false))
		q.mu.Lock()
		q.draining = len(q.waiting) > 0
		more := q.draining
		q.mu.Unlock()
		if !more {
			return
		}
	}
}

// applyAll doesn't wait for the journal, whose failures it reports itself.
func (l *List) applyAll(list []Selector) {
	for len(list) > 0 {
		n := min(len(list), MaxSelectors)
		_, _, _ = l.apply(list[:n], nil)
		list = list[n:]
	}
}

// flushQueues applies all that is queued and stops queueing.
func (l *List) flushQueues() {
	q := &l.queues
	q.mu.Lock()
	first := !q.stopped
	q.stopped = true
	q.mu.Unlock()
	if first {
		close(q.quit)
	}
	l.applyAll(q.due(time.Now(), true))
}

// stop waits for the drainer.
func (q *queues) stop(ctx context.Context) error {
	q.mu.Lock()
	idle := q.idle
	q.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// backlog returns how much queues in each zone, and in all together.
func (q *queues) backlog() (zones map[string]int, sum int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	zones = map[string]int{}
	for k, b := range q.waiting {
		zones[k.zone] += len(b.queue)
		sum += len(b.queue)
	}
	return zones, sum
}
