package middleware

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/weirhttp/weir/internal/rfc9110"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/trace"
)

// deliver answers with what came of a fetch: the leader's answer, and that of
// everyone who waited for it. It returns false if that was a stored response
// whose body is gone: then x looks again.
func (x *exchange) deliver(a *attendance, hd *head) bool {
	leader := a.fetch != nil
	if hd.kind == staleError || hd.kind == confirmed {
		x.now = time.Now()
		if !x.open(hd.object) {
			return false
		}
	}
	x.rec.ForwardStatus = hd.status
	switch hd.kind {
	case panicked:
		x.rec.Outcome = trace.Aborted
		panic(hd.panicked)
	case turnedAway:
		x.turnAway(hd.refusal)
		return true
	case failed:
		if a.stale {
			x.rec.Cache.Status = trace.Expired
		}
		x.refuseFor(hd.errStatus, hd.reason, hd.retry)
		return true
	case staleError:
		x.respond(hd.object, trace.StaleError, hd.reason, x.h.lifeOf(hd.object, x.now).TTL(x.now))
		return true
	case confirmed:
		status := trace.Collapsed
		if leader {
			status = trace.Revalidated
			x.rec.Cache.Stored, x.rec.Cache.NotStored = hd.notStored == "", string(hd.notStored)
			if len(hd.cookies) > 0 {
				h := x.w.Header()
				h["Set-Cookie"] = append(slices.Clone(h["Set-Cookie"]), hd.cookies...) // an outer handler may have set some
			}
		}
		x.respond(hd.object, status, hd.reason, hd.object.Life.TTL(x.now))
		return true
	}
	s := stream{x: x, head: hd, reader: a.reader}
	if leader {
		x.rec.Cache.Status = hd.leaderStatus(a.stale)
		if hd.notStored != "" {
			x.rec.Cache.Reason, x.rec.Cache.NotStored = string(hd.notStored), string(hd.notStored)
		}
		x.rec.Cache.Stored = hd.notStored == ""
		s.block = hd.full
	} else {
		x.rec.Cache.Status, x.rec.Cache.Reason = trace.Collapsed, string(whyCollapsed)
		s.block = hd.common
		s.shared = true
	}
	x.rec.Cache.TTL = hd.decision.Life.TTL(hd.receivedAt)
	s.run()
	if leader && s.ended && hd.discarded != "" {
		x.rec.Cache.Stored, x.rec.Cache.NotStored = false, string(hd.discarded)
	}
	return true
}

// stream sends a response whose body may still be arriving.
type stream struct {
	x      *exchange
	head   *head
	reader *store.Reader
	block  store.Block
	shared bool
	// The part to send: from skip on, left bytes, or all if left is negative.
	left  int64
	ended bool // the body's end was reached: what is set before it may be read
}

func (s *stream) run() {
	x, hd := s.x, s.head
	h := x.w.Header()
	room := copyHeader(h, s.block)
	if s.shared {
		room[2] = strconv.FormatInt(int64(hd.decision.Life.Age(time.Now())/time.Second), 10)
		h["Age"] = room[2:3:3]
	}
	x.setStatus(h, room)
	if x.notModified(hd.status, s.block, hd.receivedAt) {
		strip304(h)
		x.head(http.StatusNotModified)
		return
	}
	s.left = -1
	if hd.length < 0 && !x.r.ProtoAtLeast(1, 1) {
		s.awaitEnd()
	}
	if asked, ok := x.ranges(hd.status, s.block); ok && s.part(asked, h) {
		return
	}
	if s.left < 0 {
		s.whole(h, room)
	}
	s.body()
	if s.left < 0 && len(hd.trailer) > 0 {
		sendTrailer(h, hd)
	}
}

// whole sends the head of the whole response.
func (s *stream) whole(h http.Header, room []string) {
	hd := s.head
	length := hd.length
	if length < 0 && len(hd.announced) == 0 {
		// A body that has come whole meanwhile has a length after all.
		if size, whole := hd.fill.Progress(); whole && len(hd.trailer) == 0 {
			length = size
		}
	}
	if len(hd.announced) > 0 {
		h["Trailer"] = append(h["Trailer"], hd.announced...)
	}
	if length >= 0 && rfc9110.BodyAllowed(hd.status) {
		room[3] = strconv.FormatInt(length, 10)
		h["Content-Length"] = room[3:4:4]
	}
	s.x.head(hd.status)
}

// part sends the head of a part of the response, if one range is asked for and
// its place is known. It returns true if that was all there is to send, and
// leaves left negative if the whole is the answer.
func (s *stream) part(asked rfc9110.Ranges, h http.Header) (done bool) {
	if len(asked) != 1 {
		return false // the whole answers as well (RFC 9110 §14.2)
	}
	x, size := s.x, s.head.length
	if size < 0 {
		want := asked[0]
		if want.Suffix() || want.Open() {
			return false // it can't be said before the end which bytes that is
		}
		have, whole, err := s.head.fill.WaitSize(x.r.Context(), want.Last+1)
		if err != nil {
			x.abort(trace.ClientGone)
		}
		switch {
		case whole:
			size = have
		case have <= want.Last:
			return false // it isn't kept and the range ends far away, or it broke off
		}
	}
	var p rfc9110.Range
	complete := "*"
	if size >= 0 {
		parts, outcome := asked.Resolve(size)
		switch outcome {
		case rfc9110.RangeIgnored:
			return false
		case rfc9110.RangeUnsatisfiable:
			x.unsatisfiable(h, size)
			return true
		}
		p, complete = parts[0], strconv.FormatInt(size, 10)
	} else {
		p = rfc9110.Range{Start: asked[0].First, Length: asked[0].Last - asked[0].First + 1}
	}
	r, ok := s.head.fill.Reader(p.Start)
	if !ok {
		return false
	}
	s.reader.Close()
	s.reader, s.left = r, p.Length
	defer func() {
		if done {
			r.Close()
		}
	}()
	stripDigests(h)
	h["Content-Range"] = []string{"bytes " + strconv.FormatInt(p.Start, 10) + "-" +
		strconv.FormatInt(p.Start+p.Length-1, 10) + "/" + complete}
	h["Content-Length"] = []string{strconv.FormatInt(p.Length, 10)}
	x.head(http.StatusPartialContent)
	return false
}

// body sends the bytes as they come.
func (s *stream) body() {
	x := s.x
	defer s.reader.Close()
	limit := newStallLimit(x)
	defer limit.end()
	s.flushHead()
	for s.left != 0 {
		p, err := s.reader.Next(x.r.Context())
		if err == io.EOF {
			s.ended = true
			if s.left > 0 {
				x.abort(trace.Aborted)
			}
			return
		}
		if err != nil {
			x.abort(outcomeOf(x, err))
		}
		if s.left > 0 && int64(len(p)) > s.left {
			p = p[:s.left]
		}
		if s.left > 0 {
			s.left -= int64(len(p))
		}
		limit.write(p)
		if s.left != 0 && !s.reader.More() {
			_ = limit.rc.Flush() // a writer that can't is one that doesn't buffer
			limit.end()          // the origin's pauses aren't the client's
		}
	}
}

// awaitEnd waits for the whole body before anything of it goes to a client of
// HTTP/1.0. Without a length that protocol ends a body with the connection, so a
// broken one would look whole. A body too long to be kept can't be waited for.
func (s *stream) awaitEnd() {
	_, whole, err := s.head.fill.WaitSize(s.x.r.Context(), math.MaxInt64)
	if err != nil {
		s.x.abort(trace.ClientGone)
	}
	if !whole && s.head.fill.Ended() {
		s.x.abort(trace.Aborted)
	}
}

// headPatience is how long a head waits for the first byte to go out with it.
const headPatience = time.Millisecond

// flushHead sends the head by itself if the body isn't there at once: the
// handler flushed it, so the client is meant to have it.
func (s *stream) flushHead() {
	size, _ := s.head.fill.Progress() // first: what comes after More counts
	if s.left == 0 || s.reader.More() {
		return
	}
	ctx, cancel := context.WithTimeout(s.x.r.Context(), headPatience)
	defer cancel()
	if _, _, err := s.head.fill.WaitSize(ctx, size+1); err != nil {
		s.x.flush()
	}
}

func outcomeOf(x *exchange, err error) trace.Outcome {
	if errors.Is(err, store.ErrLagging) || x.r.Context().Err() != nil {
		return trace.ClientGone
	}
	return trace.Aborted
}

// sendTrailer sets the trailer fields after the body.
func sendTrailer(h http.Header, hd *head) {
	for name, values := range hd.trailer {
		key := http.TrailerPrefix + name
		for _, n := range hd.announced {
			if n == name {
				key = name
			}
		}
		h[key] = append([]string(nil), values...)
	}
}
