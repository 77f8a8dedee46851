package store

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
)

// fakeDisk is a disk whose spools fail after a number of bytes.
type fakeDisk struct {
	max       int64
	failAfter int // negative: never
	noCreate  bool
	atWrite   func() // called at each write, if set

	open, aborted atomic.Int64
	kept          []byte // what was committed last
}

var _ SpoolTier = (*fakeDisk)(nil)

func (d *fakeDisk) Get(Key) (*Object, bool)     { return nil, false }
func (d *fakeDisk) Put(*Object) Rejection       { return NoRoom }
func (d *fakeDisk) Delete(Key) bool             { return false }
func (d *fakeDisk) DeleteObject(*Object) bool   { return false }
func (d *fakeDisk) Undeleted() ([]Key, bool)    { return nil, false }
func (d *fakeDisk) Stats() TierStats            { return TierStats{} }
func (d *fakeDisk) Close(context.Context) error { return nil }
func (d *fakeDisk) Peek(Key) (*Object, bool)    { return nil, false }
func (d *fakeDisk) Has(Key) bool                { return false }
func (d *fakeDisk) Claim() bool                 { return true }
func (d *fakeDisk) MaxObject() int64            { return d.max }

func (d *fakeDisk) Create() (Spool, error) {
	if d.noCreate {
		return nil, &RejectedError{Reason: SwitchedOff}
	}
	d.open.Add(1)
	return &fakeSpool{d: d}, nil
}

type fakeSpool struct {
	d      *fakeDisk
	mu     sync.Mutex
	b      []byte
	failed bool
	ended  bool
	closed bool
}

func (s *fakeSpool) Write(p []byte) (int, error) {
	if s.d.atWrite != nil {
		s.d.atWrite()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.use()
	n := len(s.b) + len(p)
	switch {
	case s.failed || s.d.failAfter >= 0 && n > s.d.failAfter:
		s.failed = true
		return 0, &RejectedError{Reason: NoRoom}
	case int64(n) > s.d.max:
		s.failed = true
		return 0, &RejectedError{Reason: TooLarge}
	}
	s.b = append(s.b, p...)
	return len(p), nil
}

func (s *fakeSpool) ReadAt(p []byte, off int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.use()
	if off >= int64(len(s.b)) {
		return 0, io.EOF
	}
	n := copy(p, s.b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (s *fakeSpool) Size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.b))
}

func (s *fakeSpool) Prepare(*Object) error { return nil }

func (s *fakeSpool) Commit(*Object) Rejection {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.use()
	if s.failed {
		return NoRoom
	}
	s.ended, s.d.kept = true, s.b
	return Kept
}

func (s *fakeSpool) Abort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.use()
	s.abort()
}

func (s *fakeSpool) abort() {
	if !s.ended {
		s.ended = true
		s.d.aborted.Add(1)
	}
}

func (s *fakeSpool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.use()
	s.abort()
	s.closed = true
	s.d.open.Add(-1)
	return nil
}

func (s *fakeSpool) use() {
	if s.closed {
		panic("the spool has been closed")
	}
}
