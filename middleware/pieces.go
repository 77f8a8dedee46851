package middleware

import (
	"bytes"
	"io"
	"slices"
	"sort"

	"github.com/weirhttp/weir/store"
)

// maxPieces bounds the pieces of one response. When there are more, the shortest
// neighbours are joined until a quarter of them is gone, so that a part costs little
// more than its own bytes, however many came before.
const maxPieces = 4 * maxSpans

// run is a run of bytes of a body, from start on. room is the memory that it holds:
// it may be what is left of a longer one.
type run struct {
	start int64
	body  []byte
	room  int64
}

func newRun(start int64, body []byte) run { return run{start, body, int64(cap(body))} }

func (p run) span() span { return span{p.start, p.start + int64(len(p.body))} }

// cut returns the part of p within s, which lies within p. It doesn't hold memory of
// which it uses less than half.
func (p run) cut(s span) run {
	if s == p.span() {
		return p
	}
	body := p.body[s.start-p.start : s.end-p.start : s.end-p.start]
	if 2*int64(len(body)) < p.room {
		return newRun(s.start, bytes.Clone(body))
	}
	return run{s.start, body, p.room}
}

// pieces are runs in order that don't overlap, but may touch. Immutable.
type pieces []run

// over returns the pieces with n, whose bytes take the place of others.
func (p pieces) over(n run) pieces {
	out, at := make(pieces, 0, len(p)+2), n.span()
	placed := false
	for _, have := range p {
		s := have.span()
		if s.start < at.start {
			out = append(out, have.cut(span{s.start, min(s.end, at.start)}))
		}
		if s.end > at.end {
			if !placed {
				out, placed = append(out, n), true
			}
			out = append(out, have.cut(span{max(s.start, at.end), s.end}))
		}
	}
	if !placed {
		out = append(out, n)
	}
	return out
}

// under returns the pieces with those bytes of n that they don't have.
func (p pieces) under(n run) pieces {
	at, out := n.span(), p
	for _, have := range p {
		s := have.span()
		if s.end <= at.start || s.start >= at.end {
			continue
		}
		if s.start > at.start {
			out = out.over(n.cut(span{at.start, s.start}))
		}
		at.start = min(s.end, at.end)
	}
	if at.length() > 0 {
		out = out.over(n.cut(at))
	}
	return out
}

// within returns the pieces that lie within have, few enough. p isn't used any more.
func (p pieces) within(have spans) pieces {
	p = slices.DeleteFunc(p, func(q run) bool { return !have.cover(q.span()) })
	if len(p) <= maxPieces {
		return p
	}
	for len(p) > maxPieces-maxPieces/4 {
		best, least := 0, int64(-1)
		for i := range len(p) - 1 {
			if both := int64(len(p[i].body) + len(p[i+1].body)); p[i].span().end == p[i+1].start && (least < 0 || both < least) {
				best, least = i, both
			}
		}
		if least < 0 {
			break // not reached: there are fewer spans than that
		}
		joined := append(append(make([]byte, 0, least), p[best].body...), p[best+1].body...)
		p = slices.Replace(p, best, best+2, newRun(p[best].start, joined))
	}
	return p
}

// from returns the bytes from an offset on that one piece has, or nil.
func (p pieces) from(off int64) []byte {
	i := sort.Search(len(p), func(i int) bool { return p[i].span().end > off })
	if i == len(p) || p[i].start > off {
		return nil
	}
	return p[i].body[off-p[i].start:]
}

// join returns all of the bytes in one piece. There are no gaps.
func (p pieces) join() []byte {
	if len(p) == 1 && len(p[0].body) == int(p[0].room) {
		return p[0].body
	}
	var size int
	for _, one := range p {
		size += len(one.body)
	}
	body := make([]byte, 0, size)
	for _, one := range p {
		body = append(body, one.body...)
	}
	return body
}

// weight is the memory of the pieces: the runtime may set aside an eighth more than
// was asked for, up to a page.
func (p pieces) weight() int64 {
	const one, page = 40, 8 << 10
	w := int64(one * cap(p))
	for _, q := range p {
		w += q.room + min(q.room/8+16, page)
	}
	return w
}

// piecesFile reads pieces as the body of a stored response is read.
type piecesFile struct{ pieces }

// Section implements [store.File].
func (f piecesFile) Section(off, n int64) (*io.LimitedReader, error) {
	body := f.from(off)
	if len(body) == 0 {
		return nil, store.ErrGone
	}
	return &io.LimitedReader{R: bytes.NewReader(body), N: min(n, int64(len(body)))}, nil
}

// Close implements [store.File].
func (piecesFile) Close() error { return nil }
