package lb

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"sync"
)

var errAbandoned = errors.New("lb: this attempt was given up")

// replay lets several attempts read one request's body, one after the other. What
// was read is kept up to a limit and given to the next attempt again; beyond it
// there can be no next attempt. An attempt that was given up may still be reading:
// what it gets is kept too, and it gets no more.
type replay struct {
	src   io.ReadCloser
	limit int             // bytes kept at most
	ctx   context.Context // the request's

	reading sync.Mutex // held while src is read

	mu    sync.Mutex
	kept  []byte
	lost  bool // more than limit was read: nothing is kept any more
	risky bool // src is being read, and if anything comes it is lost
	cut   bool // reading src was interrupted
	err   error
	cur   *replayBody
	last  bool // no attempt may follow cur
	final bool // no attempt will follow: src is closed with cur

	// Whoever owns the request fills its Trailer map at the end of src. The
	// attempts have maps of their own: a given up one may be reading.
	filled   http.Header
	declared http.Header // filled as it was before
	trailer  http.Header // filled as it was at src's end
	shut     bool        // src was closed
}

// replayBody is the body of one attempt.
type replayBody struct {
	r       *replay
	trailer http.Header // nil if there are none
	pos     int         // in kept
	closed  bool
}

// newReplay takes a body over. length is its length, negative if unknown: one that
// is too long for the limit isn't kept in part.
func newReplay(ctx context.Context, src io.ReadCloser, length int64, limit int) *replay {
	if length > int64(limit) {
		limit = 0
	}
	return &replay{src: src, limit: limit, ctx: ctx}
}

// possible reports whether the whole body can be read again.
func (r *replay) possible() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.lost && !r.risky && (r.err == nil || r.err == io.EOF)
}

// attempt returns the body for the next attempt. The one before gets no more. last
// says that there won't be another one after it.
func (r *replay) attempt(last bool) *replayBody {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = last
	r.cur = &replayBody{r: r, trailer: maps.Clone(r.declared)}
	return r.cur
}

// finish says that no attempt follows. If the last one goes on, it closes the
// source when it is done; else the source is closed at once.
func (r *replay) finish(goesOn bool) {
	r.mu.Lock()
	r.final = true
	closeIt := !r.shut && (!goesOn || r.cur.closed)
	r.shut = r.shut || closeIt
	if !goesOn {
		r.cur = nil
	}
	r.mu.Unlock()
	if closeIt {
		r.src.Close()
	}
}

// Read reads what was kept, and then the source.
func (b *replayBody) Read(p []byte) (int, error) {
	r := b.r
	r.reading.Lock()
	defer r.reading.Unlock()
	n, keep, err := b.prepare(p)
	if n > 0 || err != nil {
		return n, err
	}
	if keep > 0 && len(p) > keep {
		p = p[:keep]
	}
	n, err = r.src.Read(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.risky = false
	switch {
	case keep > 0:
		r.kept = append(r.kept, p[:n]...)
		b.pos += n
	case n > 0:
		r.lost, r.kept = true, nil
	}
	if r.err = err; err == io.EOF {
		r.trailer = maps.Clone(r.filled)
		maps.Copy(b.trailer, r.trailer)
	}
	return n, err
}

// prepare gives what is kept; or says how much of what comes can be kept.
func (b *replayBody) prepare(p []byte) (n, keep int, err error) {
	r := b.r
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.cur != b || b.closed:
		return 0, 0, errAbandoned
	case b.pos < len(r.kept):
		n = copy(p, r.kept[b.pos:])
		b.pos += n
		return n, 0, nil
	case r.err != nil:
		if r.err == io.EOF {
			maps.Copy(b.trailer, r.trailer)
		}
		return 0, 0, r.err
	}
	if !r.lost {
		keep = r.limit - len(r.kept)
		r.risky = keep == 0
	}
	return 0, keep, nil
}

// interrupt ends a Read of the source, unless another attempt can go on with what
// the visitor sends.
func (b *replayBody) interrupt() {
	r := b.r
	r.mu.Lock()
	src, ok := r.src.(interruptible)
	r.cut = ok && r.cur == b && (r.last || r.lost || r.risky || r.ctx.Err() != nil)
	cut := r.cut
	r.mu.Unlock()
	if cut {
		src.interrupt()
	}
}

// interrupted reports whether reading ended for that, which cancels the request.
func (b *bodies) interrupted() bool {
	if b.keep == nil {
		return false
	}
	b.keep.mu.Lock()
	defer b.keep.mu.Unlock()
	return b.keep.cut
}

// Close ends the attempt's reading. The source stays open as long as another
// attempt may follow.
func (b *replayBody) Close() error {
	r := b.r
	r.mu.Lock()
	b.closed = true
	closeIt := r.final && r.cur == b && !r.shut
	r.shut = r.shut || closeIt
	r.mu.Unlock()
	if closeIt {
		return r.src.Close()
	}
	return nil
}

// bodies gives each attempt of a request its body.
type bodies struct {
	req   *http.Request
	keep  *replay // nil if there is no body, or it can be had again
	begun bool
}

func newBodies(req *http.Request, limit int) bodies {
	b := bodies{req: req}
	if req.Body != nil && req.Body != http.NoBody && req.GetBody == nil {
		b.keep = newReplay(req.Context(), req.Body, req.ContentLength, limit)
		b.keep.filled, b.keep.declared = req.Trailer, maps.Clone(req.Trailer)
	}
	return b
}

// again reports whether another attempt can have the whole body.
func (b *bodies) again() bool { return b.keep == nil || b.keep.possible() }

// next returns the next attempt's body and the map of its trailers. last says that
// no other attempt may follow it.
func (b *bodies) next(last bool) (io.ReadCloser, http.Header, error) {
	first := !b.begun
	b.begun = true
	switch {
	case b.keep != nil:
		body := b.keep.attempt(last)
		return body, body.trailer, nil
	case first || b.req.GetBody == nil:
		return b.req.Body, b.req.Trailer, nil
	}
	body, err := b.req.GetBody()
	return body, b.req.Trailer, err
}

// finish closes what is left: all of it, unless the last attempt goes on.
func (b *bodies) finish(goesOn bool) {
	switch {
	case b.keep != nil:
		b.keep.finish(goesOn)
	case !b.begun && b.req.Body != nil:
		b.req.Body.Close()
	}
}
