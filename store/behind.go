package store

import (
	"context"
	"sync"
)

const (
	// maxBehind is how many objects may wait to be written to disk.
	maxBehind = 1024
	// minBehind is the least of their memory that may wait, in bytes.
	minBehind = 1 << 20
)

// behind writes objects that are in memory to disk too, one after the other
// and behind the requests. What comes when too much waits already is dropped,
// and is then only in memory. Its goroutine runs from startBehind to end.
type behind struct {
	s        *Store
	maxBytes int64

	mu      sync.Mutex
	queue   []*Object
	bytes   int64 // weight of the queue
	busy    bool  // one is being written
	dropped int64
	ended   bool
	wake    chan struct{} // has room for one
	done    chan struct{} // closed when the goroutine has ended
	hurry   chan struct{} // closed when it isn't to wait for the disk any more
}

func startBehind(s *Store, maxBytes int64) *behind {
	b := &behind{s: s, maxBytes: maxBytes, wake: make(chan struct{}, 1), done: make(chan struct{}), hurry: make(chan struct{})}
	go b.run()
	return b
}

// add queues o. It never waits.
func (b *behind) add(o *Object) {
	b.mu.Lock()
	w := o.Weight()
	full := len(b.queue) >= maxBehind || b.bytes+w > b.maxBytes && len(b.queue) > 0
	if full || b.ended {
		b.dropped++
		b.mu.Unlock()
		return
	}
	b.queue = append(b.queue, o)
	b.bytes += w
	b.mu.Unlock()
	b.call()
}

func (b *behind) call() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *behind) run() {
	defer close(b.done)
	for range b.wake {
		for {
			o, ended := b.next()
			if o == nil {
				if ended {
					return
				}
				break
			}
			b.write(o)
		}
	}
}

// next takes the next object out of the queue, or nil if there is none.
func (b *behind) next() (o *Object, ended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy = len(b.queue) > 0
	if !b.busy {
		b.queue = nil
		return nil, b.ended
	}
	o = b.queue[0]
	b.queue[0] = nil
	b.queue = b.queue[1:]
	b.bytes -= o.Weight()
	return o, b.ended
}

// write writes o if memory still has this very object. If it was deleted or
// replaced meanwhile it must not come back, and if it was evicted nobody can
// tell any more. If that happens while it's being written, its deletion comes next.
func (b *behind) write(o *Object) {
	f := b.s.family(&o.Primary)
	f.mu.Lock()
	c := b.s.writeToDisk(f, o,
		func() bool { return b.s.memory.peek(o.Key) == o },
		func() Rejection { return b.s.disk.Put(o) },
		func(Rejection, bool) {}) // a rejection is in the tier's counters
	f.mu.Unlock()
	select {
	case <-c.done:
	case <-b.hurry:
	}
}

func (b *behind) counts() (queued, dropped int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	queued = int64(len(b.queue))
	if b.busy {
		queued++
	}
	return queued, b.dropped
}

// end writes what is queued and ends the goroutine. What isn't written by the
// end of ctx is dropped.
func (b *behind) end(ctx context.Context) {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	b.call()
	select {
	case <-b.done:
		return
	case <-ctx.Done():
	}
	b.mu.Lock()
	b.dropped += int64(len(b.queue))
	b.queue, b.bytes = nil, 0
	b.mu.Unlock()
	close(b.hurry)
	b.call()
	<-b.done
}
