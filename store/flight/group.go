package flight

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	shardCount = 64
	// maxMemos bounds the keys remembered in a shard (65,536 in a group), those
	// remembered longest ago out: forgetting one costs a wait, not a wrong
	// answer.
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
	shards  [shardCount]shard[T]
	orphans atomic.Int64
}

// MaxOrphans is how many flights of a group may go on for clients who have all
// left, because their responses are or may become storable. Beyond it a flight is
// cancelled with its last client: clients that only come and go must not make the
// origin work without bound.
const MaxOrphans = 64

type shard[T any] struct {
	mu    sync.Mutex
	open  map[Key]*Flight[T]        // the one to join, for each key
	all   map[[32]byte][]*Flight[T] // those under way, by primary key
	memos memos
	_     [16]byte // to a cache line
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
	if s.memos.has(memoKey{k, lane}, now) {
		return nil, Alone
	}
	// One that can't be joined never can again, so a new one takes its place.
	if f := s.open[k]; f != nil && f.join() {
		return f, Waiter
	}
	f := g.newFlight(k, lane)
	if s.open == nil {
		s.open = make(map[Key]*Flight[T])
	}
	s.open[k] = f
	s.list(f)
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
	s.list(f)
	return f
}

func (s *shard[T]) list(f *Flight[T]) {
	if s.all == nil {
		s.all = make(map[[32]byte][]*Flight[T])
	}
	list := s.all[f.key.Primary]
	f.place = len(list)
	s.all[f.key.Primary] = append(list, f)
}

// Remember makes claims of the key in the lane go alone until the given
// instant, whatever was remembered before.
func (g *Group[T]) Remember(k Key, lane Lane, until time.Time) {
	s := g.shard(&k.Primary)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memos.put(memoKey{k, lane}, until)
}

// Remembered reports whether claims of the key in the lane go alone now.
func (g *Group[T]) Remembered(k Key, lane Lane, now time.Time) bool {
	s := g.shard(&k.Primary)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memos.has(memoKey{k, lane}, now)
}

// Unremember takes back what Remember said: the key turned out shareable.
func (g *Group[T]) Unremember(k Key, lane Lane) {
	s := g.shard(&k.Primary)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memos.remove(memoKey{k, lane})
}

// Forget dooms the flights of the primary key, whatever their variant: they
// serve those attached to them, nobody joins any more, and what they fetch
// must not be stored. It's to be called before the stored objects are
// removed. It returns the number of flights.
func (g *Group[T]) Forget(primary [32]byte) int { return g.ForgetOthers(primary, nil) }

// ForgetOthers is Forget for all flights but own: that of a request whose own
// success is what makes the others' responses invalid. nil means all.
func (g *Group[T]) ForgetOthers(primary [32]byte, own *Flight[T]) int {
	s := g.shard(&primary)
	s.mu.Lock()
	defer s.mu.Unlock()
	flights := s.all[primary]
	delete(s.all, primary)
	doomed := 0
	for _, f := range flights {
		if f == own {
			s.list(f)
			continue
		}
		doomed++
		f.place = -1
		f.doomed.Store(true)
		s.shut(f)
	}
	return doomed
}

// shut keeps newcomers from finding f.
func (s *shard[T]) shut(f *Flight[T]) {
	if s.open[f.key] == f {
		delete(s.open, f.key)
	}
}

// unlist takes f out: it's over.
func (g *Group[T]) unlist(f *Flight[T]) {
	s := g.shard(&f.key.Primary)
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.place < 0 {
		return
	}
	s.shut(f)
	list := s.all[f.key.Primary]
	last := len(list) - 1
	list[f.place] = list[last]
	list[f.place].place = f.place
	list[last] = nil
	f.place = -1
	if last == 0 {
		delete(s.all, f.key.Primary)
	} else {
		s.all[f.key.Primary] = list[:last]
	}
}

// Flights returns the number of flights under way, released ones included, for
// tests and metrics.
func (g *Group[T]) Flights() int {
	n := 0
	for i := range g.shards {
		s := &g.shards[i]
		s.mu.Lock()
		for _, list := range s.all {
			n += len(list)
		}
		s.mu.Unlock()
	}
	return n
}
