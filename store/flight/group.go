package flight

import (
	"sync"
	"time"
)

const (
	shardCount = 64
	// maxMemos bounds the keys remembered in a shard (65,536 in a group), the
	// oldest out: forgetting one costs a wait, not a wrong answer.
	maxMemos = 1024
)

// Key names what is fetched.
type Key struct {
	Primary [32]byte
	Variant [32]byte // zero if it isn't known by what the response varies
}

// Lane separates requests whose responses are judged differently (those with
// credentials, say): a released flight is remembered for its lane only.
type Lane uint8

// Role is what a claim made of the request.
type Role uint8

const (
	Leader Role = iota // start the fetch; the flight is new
	Waiter             // wait for the flight's decision
	Alone              // fetch for yourself: the key is known as unshareable
)

// Group is the set of flights under way. The zero value is ready. Safe for
// concurrent use.
type Group[T any] struct {
	shards [shardCount]shard[T]
}

type shard[T any] struct {
	mu      sync.Mutex
	flights map[[32]byte][]*Flight[T] // by primary key; nearly always one
	memos   map[memoKey]time.Time     // until when
	queue   []memoKey                 // in the order of making
	_       [24]byte
}

type memoKey struct {
	key  Key
	lane Lane
}

func (g *Group[T]) shard(primary *[32]byte) *shard[T] {
	return &g.shards[primary[0]%shardCount]
}

// Claim joins the flight for the key, or starts one, or says that the request
// should go alone. A Leader or Waiter is counted as attached and must Leave;
// for Alone the flight is nil.
func (g *Group[T]) Claim(k Key, lane Lane, now time.Time) (*Flight[T], Role) {
	s := g.shard(&k.Primary)
	s.mu.Lock()
	defer s.mu.Unlock()
	if until, ok := s.memos[memoKey{k, lane}]; ok && now.Before(until) {
		return nil, Alone
	}
	for _, f := range s.flights[k.Primary] {
		if f.key == k && f.join() {
			return f, Waiter
		}
	}
	f := g.newFlight(k, lane)
	if s.flights == nil {
		s.flights = make(map[[32]byte][]*Flight[T])
	}
	s.flights[k.Primary] = append(s.flights[k.Primary], f)
	f.listed = true
	return f, Leader
}

// Solo returns a flight of its own for a request that goes alone: nobody joins
// it, but a purge finds it. The caller is its leader and must Leave.
func (g *Group[T]) Solo(k Key, lane Lane) *Flight[T] {
	f := g.newFlight(k, lane)
	f.closed = true
	s := g.shard(&k.Primary)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flights == nil {
		s.flights = make(map[[32]byte][]*Flight[T])
	}
	s.flights[k.Primary] = append(s.flights[k.Primary], f)
	f.listed = true
	return f
}

// Remember makes claims of the key in the lane go alone until the given
// instant.
func (g *Group[T]) Remember(k Key, lane Lane, until time.Time) {
	s := g.shard(&k.Primary)
	m := memoKey{k, lane}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memos == nil {
		s.memos = make(map[memoKey]time.Time)
	}
	if _, ok := s.memos[m]; !ok {
		if len(s.queue) >= maxMemos {
			delete(s.memos, s.queue[0])
			s.queue = s.queue[1:]
		}
		s.queue = append(s.queue, m)
	}
	s.memos[m] = until
}

// Remembered reports whether claims of the key in the lane go alone now.
func (g *Group[T]) Remembered(k Key, lane Lane, now time.Time) bool {
	s := g.shard(&k.Primary)
	s.mu.Lock()
	defer s.mu.Unlock()
	until, ok := s.memos[memoKey{k, lane}]
	return ok && now.Before(until)
}

// Unremember takes back what Remember said: the key turned out shareable.
func (g *Group[T]) Unremember(k Key, lane Lane) {
	s := g.shard(&k.Primary)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.memos[memoKey{k, lane}]; ok {
		s.memos[memoKey{k, lane}] = time.Time{} // its place in the queue stays
	}
}

// Forget dooms the flights of the primary key, whatever their variant: they
// serve those attached to them, nobody joins any more, and what they fetch
// must not be stored. It's to be called before the stored objects are
// removed. It returns the number of flights.
func (g *Group[T]) Forget(primary [32]byte) int {
	s := g.shard(&primary)
	s.mu.Lock()
	flights := s.flights[primary]
	delete(s.flights, primary)
	for _, f := range flights {
		f.listed = false
		f.doomed.Store(true)
	}
	s.mu.Unlock()
	return len(flights)
}

// unlist takes f out, so that nobody joins it any more.
func (g *Group[T]) unlist(f *Flight[T]) {
	s := g.shard(&f.key.Primary)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !f.listed {
		return
	}
	f.listed = false
	list := s.flights[f.key.Primary]
	for i := range list {
		if list[i] == f {
			list[i] = list[len(list)-1]
			list[len(list)-1] = nil
			list = list[:len(list)-1]
			break
		}
	}
	if len(list) == 0 {
		delete(s.flights, f.key.Primary)
	} else {
		s.flights[f.key.Primary] = list
	}
}

// Flights returns the number of flights under way, for tests and metrics.
func (g *Group[T]) Flights() int {
	n := 0
	for i := range g.shards {
		s := &g.shards[i]
		s.mu.Lock()
		for _, list := range s.flights {
			n += len(list)
		}
		s.mu.Unlock()
	}
	return n
}
