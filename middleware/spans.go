package middleware

import "slices"

// maxSpans bounds how many separate runs of bytes are kept of one response:
// somebody who asks for every second byte must not make a list of them all.
const maxSpans = 64

// span is a run of bytes, from start up to, but without, end.
type span struct{ start, end int64 }

func (s span) length() int64 { return s.end - s.start }

// spans are runs of bytes in order with gaps between them. Immutable.
type spans []span

// cover reports whether all of p lies within one of them.
func (s spans) cover(p span) bool {
	i, found := slices.BinarySearchFunc(s, p.start, func(have span, at int64) int { return int(min(1, max(-1, have.start-at))) })
	if !found {
		i-- // the last one that starts before p
	}
	return i >= 0 && p.end <= s[i].end
}

// with returns the spans joined with p, or false if there would be too many and
// p is none of the longer ones. Then the shortest of the others goes.
func (s spans) with(p span) (spans, bool) {
	out, at := make(spans, 0, len(s)+1), 0
	for _, have := range s {
		switch {
		case have.end < p.start:
			out = append(out, have)
			at = len(out)
		case have.start > p.end:
			out = append(out, have)
		default: // they overlap or touch
			p = span{min(p.start, have.start), max(p.end, have.end)}
		}
	}
	out = slices.Insert(out, at, p)
	if len(out) <= maxSpans {
		return out, true
	}
	shortest := at
	for i, have := range out {
		if have.length() < out[shortest].length() {
			shortest = i
		}
	}
	return slices.Delete(out, shortest, shortest+1), shortest != at
}
