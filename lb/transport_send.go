package lb

import (
	"context"
	"errors"
	"io"
	"maps"
	"sync"
)

// interruptible is a body whose Read can be ended while it waits for the visitor.
// It can't be read any further then.
type interruptible interface{ interrupt() }

// sendBody is the request's body on its way to the origin. It remembers what went
// wrong on the visitor's side, and holds back the Close until it is certain that
// the request isn't put on another connection.
type sendBody struct {
	x    *exchange
	body io.ReadCloser

	mu     sync.Mutex
	free   bool // Close goes through
	closed bool // Close was called
	read   bool
	size   int64 // of what was read
	err    error

	reading bool  // body is being read
	gone    bool  // another exchange has the body
	unasked bool  // nobody wants the rest: the origin, or the request, is gone
	cut     bool  // a Read was interrupted for that, which may cancel the request
	before  error // the context's, until then
}

var (
	errBodyLength = errors.New("the request's body isn't as long as its Content-Length")
	errUnasked    = errors.New("nobody wants the rest of the request's body")
)

func (s *sendBody) set(x *exchange, body io.ReadCloser) { s.x, s.body = x, body }

func (s *sendBody) Read(p []byte) (int, error) {
	if !s.begin() {
		return 0, errUnasked
	}
	s.x.flags.Or(clientRead | progress)
	n, err := s.body.Read(p)
	if err == io.EOF {
		if s.x.req.Trailer != nil {
			maps.Copy(s.x.req.Trailer, trimmed(s.x.orig.Trailer))
		}
		s.x.flags.Or(sent)
	}
	s.x.flags.Or(progress)
	s.x.flags.And(^clientRead)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = false
	s.size += int64(n)
	if s.x.req.ContentLength > 0 && s.size == s.x.req.ContentLength {
		s.x.flags.Or(sent) // its end may not be looked for any more
	}
	switch length := s.x.req.ContentLength; {
	case s.unasked:
		if err != nil && err != io.EOF {
			err = errUnasked // that is why it failed
		}
	case err != nil && err != io.EOF:
		s.err = err
	case length > 0 && (s.size > length || err == io.EOF && s.size < length):
		s.err = errBodyLength
	}
	return n, err
}

func (s *sendBody) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone || s.unasked && !s.read { // another exchange can have it
		return false
	}
	s.read, s.reading = true, true
	if s.unasked { // the end may be there, and then the visitor has sent it all
		s.interruptLocked()
	}
	return true
}

// interrupt ends a Read that waits for the visitor, if it can: until then, net/http
// doesn't tell that there will be no response.
func (s *sendBody) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interruptLocked()
}

// The lock keeps the request from being over, and its body from being somebody
// else's, meanwhile.
func (s *sendBody) interruptLocked() {
	if s.body == nil || s.free || s.gone {
		return
	}
	s.unasked = true
	if b, ok := s.body.(interruptible); ok && s.reading {
		if !s.cut {
			s.cut, s.before = true, s.x.orig.Context().Err()
		}
		b.interrupt()
	}
}

// Close is net/http's: it wants no more of the body. Over HTTP/2 it comes while, or
// just before, the body is read when there will be no response.
func (s *sendBody) Close() error {
	s.mu.Lock()
	s.closed = true
	free := s.free
	s.interruptLocked()
	s.mu.Unlock()
	if free {
		return s.body.Close()
	}
	return nil
}

// withdraw leaves the body to another exchange, unless it has begun to be read. Who
// has s gets nothing from then on, and doesn't close it.
func (s *sendBody) withdraw() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read {
		return false
	}
	s.gone = true
	return true
}

// let lets Close through from now on.
func (s *sendBody) let() {
	if s.body == nil {
		return
	}
	s.mu.Lock()
	s.free = true
	closed := s.closed
	s.mu.Unlock()
	if closed {
		s.body.Close()
	}
}

// finish closes the body.
func (s *sendBody) finish() {
	if s.body == nil {
		return
	}
	s.mu.Lock()
	s.free = true
	s.mu.Unlock()
	s.body.Close()
}

// ended returns what had ended the request, besides an interruption.
func (s *sendBody) ended(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut {
		return s.before
	}
	return ctx.Err()
}

// begun reports whether any of the body was asked for.
func (s *sendBody) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read
}

// failed returns the visitor's side's error.
func (s *sendBody) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
