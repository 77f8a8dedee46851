package admission

import "time"

// waiter is a request in a queue. Its goroutine sleeps on wake; whoever settles
// it fills in the outcome under the lock and then sends.
type waiter struct {
	flow         *flow
	older, newer *waiter
	cost         int64
	weight       uint64
	came         int64 // when it began to wait
	since        int64 // when it came into this queue
	deadline     int64

	claim   *Claim // that can raise it; nil if none can
	settled bool
	permit  Permit   // if it was admitted
	outcome Decision // if settled

	wake  chan struct{} // holds one token
	timer *time.Timer
}

func newWaiter() any {
	w := &waiter{wake: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	w.timer.Stop()
	return w
}

// flow holds one tenant's waiters in one queue, the oldest first.
type flow struct {
	holding[flow]
	tenant         *tenant
	queue          *queue
	oldest, newest *waiter
	sibling        *flow  // the tenant's next, in another route's queue
	start          uint64 // in virtual time, among the flows of the queue
	seq            uint64
	pos            int // in the queue's heap
}

func (f *flow) push(w *waiter) {
	w.flow, w.older, w.newer = f, f.newest, nil
	if f.newest == nil {
		f.oldest = w
	} else {
		f.newest.newer = w
	}
	f.newest = w
}

func (f *flow) unlink(w *waiter) {
	if w.older == nil {
		f.oldest = w.newer
	} else {
		w.older.newer = w.newer
	}
	if w.newer == nil {
		f.newest = w.older
	} else {
		w.newer.older = w.older
	}
	w.older, w.newer, w.flow = nil, nil, nil
}

// queue holds the waiters of one class and route: a heap of flows, the one whose
// turn it is first.
type queue struct {
	rank, route int
	heap        []*flow
	crowds      crowds[flow]
	waiters     int
	since       int64 // when it last stopped being empty
	active      int   // in the line's list of queues that aren't empty
}

// standing reports whether the queue was never empty for after.
func (q *queue) standing(now int64, after time.Duration) bool {
	return after >= 0 && q.waiters > 0 && now-q.since >= int64(after)
}

// before compares instants of virtual time, which may wrap around.
func before(a, b uint64) bool { return int64(a-b) < 0 }

// sooner reports whether it is f's turn before g's, of the same queue.
func (f *flow) sooner(g *flow) bool {
	if f.start != g.start {
		return before(f.start, g.start)
	}
	return before(f.seq, g.seq)
}

// precedes reports whether it is f's turn before g's, each the first of its queue.
func (f *flow) precedes(g *flow) bool {
	if f.tenant.start != g.tenant.start {
		return before(f.tenant.start, g.tenant.start)
	}
	return before(f.seq, g.seq)
}

func (q *queue) add(f *flow) {
	f.pos = len(q.heap)
	q.heap = append(q.heap, f)
	q.up(f.pos)
}

func (q *queue) remove(f *flow) {
	last := len(q.heap) - 1
	moved := q.heap[last]
	q.heap[last] = nil
	q.heap = q.heap[:last]
	if moved != f {
		q.heap[f.pos], moved.pos = moved, f.pos
		q.fix(moved)
	}
}

// fix puts f in its place after its turn, or its place, changed.
func (q *queue) fix(f *flow) {
	q.up(f.pos)
	q.down(f.pos)
}

func (q *queue) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !q.heap[i].sooner(q.heap[parent]) {
			return
		}
		q.swap(i, parent)
		i = parent
	}
}

func (q *queue) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(q.heap); child++ {
			if q.heap[child].sooner(q.heap[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		q.swap(i, least)
		i = least
	}
}

func (q *queue) swap(i, j int) {
	q.heap[i], q.heap[j] = q.heap[j], q.heap[i]
	q.heap[i].pos, q.heap[j].pos = i, j
}
