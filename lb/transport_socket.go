package lb

import (
	"errors"
	"net"
	"sync"
	"syscall"
)

var errUnsolicited = errors.New("the origin sent something that wasn't asked for")

// socket is the lowest layer of a connection, below TLS. For HTTP/1 it keeps apart
// what the origin sends before a request and what it sends after: nothing else does,
// since responses carry no mark of the request that they answer, and net/http takes
// what it has read too much for the next response.
//
// A connection may be given another request when the socket is known to be empty
// while net/http's reader waits for the next response: then no layer has anything
// left. Whatever comes from there on, until the first byte of a request is written,
// wasn't asked for, and ends the connection.
type socket struct {
	net.Conn
	raw     syscall.RawConn // nil if it can't be told whether a read blocks
	records *recordReader   // nil without TLS

	reading sync.Mutex // held by Read
	try     func(fd uintptr) bool
	p       []byte // the arguments and results of try
	n       int
	err     error

	mu       sync.Mutex
	changed  sync.Cond // waiting, written and spoiled
	waiting  bool      // the socket is empty, and so is TLS; a Read waits
	partial  bool      // a Read waits for the rest of a TLS record
	written  bool      // some of a request; set while nobody cares
	spoiled  bool      // it is over, or unsolicited bytes came
	settling bool      // somebody wants to know when waiting is true

	// settled is called when waiting becomes true after a rest that returned
	// notYet. The caller holds up the socket's Close: it must not close any.
	settled func()
}

// newSocket wraps a connection. encrypted says that there will be TLS above it.
func newSocket(c net.Conn, encrypted bool) *socket {
	s := &socket{Conn: c, written: true}
	s.changed.L = &s.mu
	s.raw = rawConn(c)
	s.try = s.tryRead
	if encrypted {
		s.records = new(recordReader)
	}
	return s
}

// guard begins to look after what comes. Nothing may be being read.
func (s *socket) guard(settled func()) {
	s.settled = settled
	s.written = false
}

// Read reads what comes from the network.
func (s *socket) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	if s.raw == nil {
		return s.readBlind(p)
	}
	s.p, s.n, s.err = p, 0, nil
	err := s.raw.Read(s.try)
	s.p = nil
	if err == nil {
		err = s.err
	}
	return s.n, err
}

// tryRead reads without waiting, and returns false if there is nothing. The lock
// sees to it that a request isn't begun at the same time.
func (s *socket) tryRead(fd uintptr) bool {
	s.mu.Lock()
	s.waiting, s.partial = false, false
	n, again, err := readNow(fd, s.p)
	if !again {
		s.tookLocked(s.p[:n])
		s.n, s.err = n, err
		s.mu.Unlock()
		return true
	}
	tell := s.emptyLocked()
	spoiled := s.spoiled
	s.mu.Unlock()
	if spoiled {
		s.err = errUnsolicited
		return true
	}
	if tell {
		s.settled()
	}
	return false
}

// readBlind reads from a connection that doesn't say whether it has something. That
// a Read begins is the best sign there is that it has nothing.
func (s *socket) readBlind(p []byte) (int, error) {
	s.mu.Lock()
	tell := s.emptyLocked()
	spoiled := s.spoiled
	s.mu.Unlock()
	if spoiled {
		return 0, errUnsolicited
	}
	if tell {
		go s.settled() // so that most likely the Read comes first
	}
	n, err := s.Conn.Read(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting, s.partial = false, false
	s.tookLocked(p[:n])
	return n, err
}

func (s *socket) tookLocked(p []byte) {
	if s.records != nil {
		s.records.add(p)
	}
}

// emptyLocked notes that the socket is empty, and returns whether somebody waits
// for that.
func (s *socket) emptyLocked() (tell bool) {
	if s.records != nil && s.records.partial() {
		s.partial = true
		if s.settling { // it may take long to come, and is unsolicited most likely
			s.spoilLocked()
		}
		return false
	}
	s.waiting = true
	tell, s.settling = s.settling, false
	s.changed.Broadcast()
	return tell
}

func (s *socket) spoilLocked() {
	s.spoiled, s.settling = true, false
	s.changed.Broadcast()
}

// rested is what a connection is like after a request.
type rested uint8

const (
	notYet rested = iota // settled will be called, or the connection ends
	ready
	unfit
)

// rest is called when a request's response has been read as a whole. Another
// request may follow when the connection is ready.
func (s *socket) rest() rested {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = false
	switch {
	case s.spoiled, s.partial:
		return unfit
	case s.waiting:
		return ready
	}
	s.settling = true
	return notYet
}

// startWrite is called before anything of a request is written. It waits until TLS
// is done with what it has got, such as session tickets.
func (s *socket) startWrite() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.written {
		return nil
	}
	for !s.waiting && !s.spoiled {
		s.changed.Wait()
	}
	if s.spoiled {
		return errUnsolicited
	}
	s.written = true
	return nil
}

// came notes what a Read above TLS returned, and reports whether that was to be
// expected.
func (s *socket) came(n int, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	unsolicited := n > 0 && !s.written
	if unsolicited || err != nil {
		s.spoilLocked()
	}
	return !unsolicited
}

// end is called before the connection is closed.
func (s *socket) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spoilLocked()
}

// recordReader follows TLS records (RFC 8446 §5.1).
type recordReader struct {
	head int // bytes of the record's head that came
	left int // bytes of its content that didn't
}

const recordHead = 5

// partial reports whether a record has begun and not ended.
func (r *recordReader) partial() bool { return r.head > 0 }

func (r *recordReader) add(p []byte) {
	for len(p) > 0 {
		if r.head < recordHead {
			switch r.head {
			case 3:
				r.left = int(p[0]) << 8
			case 4:
				r.left |= int(p[0])
			}
			r.head++
			p = p[1:]
		} else {
			n := min(r.left, len(p))
			r.left -= n
			p = p[n:]
		}
		if r.head == recordHead && r.left == 0 {
			r.head = 0
		}
	}
}
