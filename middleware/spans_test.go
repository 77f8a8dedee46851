package middleware

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Spans hold what was put into them, in order and with gaps between them, and
// nothing else.
func TestSpansAgainstModel(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		const size = 100
		var model [size]bool
		var s spans
		for range 30 {
			a := rnd.Int64N(size)
			p := span{a, a + 1 + rnd.Int64N(min(12, size-a))}
			before := append(spans(nil), s...)
			next, ok := s.with(p)
			require.True(t, ok)
			require.Equal(t, before, append(spans(nil), s...), "the old ones are as they were")
			s = next
			for i := p.start; i < p.end; i++ {
				model[i] = true
			}
			var want spans
			for i := range int64(size) {
				switch {
				case !model[i]:
				case i > 0 && model[i-1]:
					want[len(want)-1].end++
				default:
					want = append(want, span{i, i + 1})
				}
			}
			require.Equal(t, want, s)
			a = rnd.Int64N(size)
			q, all := span{a, a + 1 + rnd.Int64N(min(12, size-a))}, true
			for _, m := range model[q.start:q.end] {
				all = all && m
			}
			require.Equal(t, all, s.cover(q))
		}
	}
}

// Of too many spans the shortest goes; a new one that is no longer than the others
// isn't taken.
func TestTooManySpans(t *testing.T) {
	var s spans
	for i := range int64(maxSpans) {
		s, _ = s.with(span{10 * i, 10*i + 2 + i%2})
	}
	require.Len(t, s, maxSpans)
	next, ok := s.with(span{905, 907})
	require.False(t, ok)
	require.Equal(t, s, next)
	next, ok = s.with(span{905, 910})
	require.True(t, ok)
	require.Len(t, next, maxSpans)
	require.False(t, next.cover(span{0, 2}))
	require.True(t, next.cover(span{905, 910}))
	next, ok = s.with(span{2, 12})
	require.True(t, ok, "one that joins others makes no more of them")
	require.Len(t, next, maxSpans-1)
}
