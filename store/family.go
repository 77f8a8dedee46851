package store

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// patience is how long somebody waits for the disk to delete something, or to begin to
// write it. Then he goes on: what is to be deleted isn't found any more anyway, and what
// was to be written isn't.
const patience = time.Second

// family is the primary keys that have the same end. Under its lock it's decided what
// they lead to, and in which order the disk is changed. The changes themselves are made
// without it, one after the other, by a goroutine that is there while there are some: a
// disk that is slow, or doesn't come back at all, holds up nobody who doesn't wait for it.
type family struct {
	mu      sync.Mutex
	queue   []*change
	idle    chan struct{} // closed when the queue is empty; nil if it is
	stalled bool          // one is taking longer than anybody waits
	pending map[Key]*pending
}

// change is one change of the disk. All but make is called with the family's lock.
type change struct {
	p       *pending
	wanted  func() bool // nil: it is
	make    func()
	end     func()
	started bool
	was     bool          // a deletion found something
	done    chan struct{} // closed after end
}

// pending is what is about to change on the disk for one primary key.
type pending struct {
	changes int
	// firm are the keys to be deleted, with the number of deletions; faint those of
	// which one object only. What is there isn't found any more.
	firm, faint map[Key]int
	sealed      map[Key]bool // to be deleted, and nothing is to be written after that
	last        *change      // that deletes
	told        bool         // of what is to be deleted, and nothing is to be written after that
	coming      []*Object    // to be written, and not in memory
	all, plain  int          // to be written: objects, and those of them that don't vary
}

func (s *Store) family(primary *Key) *family { return &s.families[primary[len(primary)-1]] }

// change queues c, which is about the primary key.
func (s *Store) change(f *family, primary Key, c *change) {
	p := f.about(primary)
	p.changes++
	end := c.end
	c.p, c.done = p, make(chan struct{})
	c.end = func() {
		end()
		if p.changes--; p.changes == 0 {
			delete(f.pending, primary)
		}
		close(c.done)
	}
	f.queue = append(f.queue, c)
	if f.idle == nil {
		f.idle = make(chan struct{})
		go f.work()
	}
}

// about returns what is pending for the primary key.
func (f *family) about(primary Key) *pending {
	p := f.pending[primary]
	if p == nil {
		p = &pending{firm: make(map[Key]int), faint: make(map[Key]int), sealed: make(map[Key]bool)}
		if f.pending == nil {
			f.pending = make(map[Key]*pending)
		}
		f.pending[primary] = p
	}
	return p
}

// work makes the changes.
func (f *family) work() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.queue) > 0 {
		c := f.queue[0]
		f.queue[0] = nil
		f.queue = f.queue[1:]
		c.started = true
		if c.wanted == nil || c.wanted() {
			f.mu.Unlock()
			c.make()
			f.mu.Lock()
		}
		f.stalled = false
		c.end()
	}
	f.queue = nil
	close(f.idle)
	f.idle = nil
}

// await waits until c has been made, for a while, and reports whether it was. c may be
// nil. The lock isn't held.
func (s *Store) await(f *family, c *change) bool {
	if c == nil {
		return true
	}
	f.mu.Lock()
	stalled := f.stalled
	f.mu.Unlock()
	if !stalled {
		t := time.NewTimer(patience)
		defer t.Stop()
		select {
		case <-c.done:
			return true
		case <-t.C:
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-c.done:
		return true
	default:
		if !f.stalled {
			f.stalled = true
			s.stalls.Add(1)
		}
		return false
	}
}

// withdraw takes c out of the queue and reports whether it was still there.
func (f *family) withdraw(c *change) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.started {
		return false
	}
	f.queue = slices.DeleteFunc(f.queue, func(other *change) bool { return other == c })
	c.end()
	return true
}

// deleteFromDisk queues the deletion of what the disk has under the keys, which belong to
// the primary key. It returns nil if that's nothing.
func (s *Store) deleteFromDisk(f *family, primary Key, keys ...Key) *change {
	p := f.pending[primary]
	var all []Key
	waits := false
	for _, k := range keys {
		switch {
		case p != nil && p.firm[k] > 0 && p.sealed[k]:
			waits = true
			continue
		case (p == nil || p.all == 0) && !s.disk.Has(k):
			continue
		}
		all = append(all, k)
	}
	if len(all) == 0 && waits {
		return p.last
	}
	if len(all) == 0 {
		return nil
	}
	p = f.about(primary)
	for _, k := range all {
		p.firm[k]++
		p.sealed[k] = true
		p.coming = slices.DeleteFunc(p.coming, func(o *Object) bool { return o.Key == k || k == primary })
	}
	s.hiding.Add(1)
	c := &change{end: func() {
		s.hiding.Add(-1)
		for _, k := range all {
			lower(p.firm, k)
		}
	}}
	c.make = func() {
		for _, k := range all {
			c.was = s.disk.Delete(k) || c.was
		}
	}
	p.last = c
	s.change(f, primary, c)
	return c
}

// deleteObjectFromDisk queues the deletion of o if the disk has that.
func (s *Store) deleteObjectFromDisk(f *family, o *Object) *change {
	if p := f.pending[o.Primary]; (p == nil || p.all == 0) && !s.disk.Has(o.Key) {
		return nil
	}
	p := f.about(o.Primary)
	p.faint[o.Key]++
	s.hiding.Add(1)
	c := &change{
		make: func() { s.disk.DeleteObject(o) },
		end: func() {
			s.hiding.Add(-1)
			lower(p.faint, o.Key)
		},
	}
	s.change(f, o.Primary, c)
	return c
}

func lower(m map[Key]int, k Key) {
	if m[k]--; m[k] == 0 {
		delete(m, k)
	}
}

// writeToDisk queues a write of o by put. wanted may be nil. end is called with what put
// said, or Withdrawn, and whether o is still what its key is to lead to.
func (s *Store) writeToDisk(f *family, o *Object, wanted func() bool, put func() Rejection, end func(r Rejection, current bool)) *change {
	p := f.about(o.Primary)
	p.all++
	p.told = false
	clear(p.sealed)
	if o.Key == o.Primary {
		p.plain++
	}
	r := Withdrawn
	c := &change{
		wanted: wanted,
		make:   func() { r = put() },
		end: func() {
			p.all--
			if o.Key == o.Primary {
				p.plain--
			}
			// All deletions that were queued before it have been made.
			end(r, !p.deletes(o.Key, o.Primary))
			p.coming = slices.DeleteFunc(p.coming, func(other *Object) bool { return other == o })
		},
	}
	s.change(f, o.Primary, c)
	return c
}

// deletes reports whether what the disk has under the key, which belongs to the primary
// key, is to be deleted.
func (p *pending) deletes(k, primary Key) bool { return p.firm[k] > 0 || p.firm[primary] > 0 }

// comes returns what is to be under the key once it's written, or nil.
func (p *pending) comes(k Key) (o *Object) {
	for _, other := range p.coming {
		if other.Key == k {
			o = other
		}
	}
	return o
}

// hides reports whether what the disk has there isn't found any more, since it's to be
// deleted, or may be.
func (f *family) hides(k, primary Key) bool {
	p := f.pending[primary]
	return p != nil && (p.deletes(k, primary) || p.faint[k] > 0 || p.faint[primary] > 0)
}

// tell makes the caller hear of what is to be deleted from the disk for the primary key
// and may be found again by another process.
func (s *Store) tell(f *family, primary Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.pending[primary]
	if p == nil || p.told || len(p.firm)+len(p.faint) == 0 {
		return
	}
	p.told = true
	s.untold.mu.Lock()
	defer s.untold.mu.Unlock()
	if s.untold.all = s.untold.all || len(s.untold.primaries) == maxUntold; s.untold.all {
		s.untold.primaries = nil
	} else {
		s.untold.primaries = append(s.untold.primaries, primary)
	}
	s.untold.some.Store(true)
}

// maxUntold bounds the primary keys that the caller is yet to hear of.
const maxUntold = 64 << 10

// untold are the primary keys of what the disk hasn't deleted in time.
type untold struct {
	some      atomic.Bool
	mu        sync.Mutex
	primaries []Key
	all       bool
}

func (u *untold) take() (primaries []Key, all bool) {
	if !u.some.Load() {
		return nil, false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	primaries, all = u.primaries, u.all
	u.primaries, u.all = nil, false
	u.some.Store(false)
	return primaries, all
}

// settle waits until c has been made, or sees to it that the caller hears of it.
func (s *Store) settle(f *family, primary Key, c *change) bool {
	if s.await(f, c) {
		return true
	}
	s.tell(f, primary)
	return false
}

// drain waits until all families have changed what they have to, or until ctx ends,
// and in any case as long as somebody waits for one change.
func (s *Store) drain(ctx context.Context) error {
	least := time.NewTimer(patience)
	defer least.Stop()
	for i := range s.families {
		f := &s.families[i]
		f.mu.Lock()
		idle := f.idle
		f.mu.Unlock()
		if idle == nil {
			continue
		}
		select {
		case <-idle:
			continue
		case <-ctx.Done():
		}
		select {
		case <-idle:
		case <-least.C:
			return context.Cause(ctx)
		}
	}
	return nil
}
