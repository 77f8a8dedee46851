package store

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A copy is what was written, however it was cut up, and takes from the budget what
// its memory is beyond the free window; when it ends all of that is given back.
func TestTapAgainstModel(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		s, err := New(Options{FillBytes: 1 << 20})
		require.NoError(t, err)
		limit := rnd.Int64N(900 << 10)
		tap, model, whole := s.NewTap(limit), []byte(nil), true
		for range rnd.IntN(40) {
			p := make([]byte, rnd.IntN(1<<(1+rnd.IntN(17))))
			for i := range p {
				p[i] = byte(rnd.Int())
			}
			model = append(model, p...)
			ok := tap.Append(p)
			whole = whole && ok
			require.Equal(t, whole, ok, "once dropped, always dropped")
			if !whole {
				require.Zero(t, tap.Size())
				require.Zero(t, s.Stats().FillBytes)
				require.True(t, int64(len(model)) > limit || len(model) > (512-300)<<10, "%d bytes of %d", len(model), limit)
				continue
			}
			require.EqualValues(t, len(model), tap.Size())
			require.GreaterOrEqual(t, s.Stats().FillBytes, int64(len(model)-freeWindow))
			require.LessOrEqual(t, s.Stats().FillBytes, int64(512<<10))
			require.LessOrEqual(t, tap.retained, int64(2*len(model)+len(model)/4+2*minSegment), "memory follows what has come")
		}
		body := tap.Take()
		require.Zero(t, s.Stats().FillBytes)
		if !whole {
			require.Nil(t, body)
			continue
		}
		require.True(t, bytes.Equal(model, body))
		require.Equal(t, len(body), cap(body))
		require.False(t, tap.Append([]byte("x")))
		require.Nil(t, tap.Take())
	}
}

// Copies for clients that don't read take no more than half of the budget, and a
// fill finds the rest.
func TestTapsLeaveRoomForFills(t *testing.T) {
	s, err := New(Options{FillBytes: 1 << 20})
	require.NoError(t, err)
	var taps []*Tap
	whole := 0
	for range 20 {
		tap := s.NewTap(1 << 20)
		if tap.Append(make([]byte, 200<<10)) {
			whole++
		}
		taps = append(taps, tap)
	}
	require.Equal(t, 3, whole)
	require.LessOrEqual(t, s.Stats().FillBytes, int64(512<<10))
	f := s.NewFill(-1)
	require.NoError(t, f.Append(t.Context(), make([]byte, 400<<10)))
	kept, _ := f.Kept()
	require.True(t, kept)
	f.Fail(nil)
	for _, tap := range taps {
		tap.Drop()
		tap.Drop()
	}
	require.Zero(t, s.Stats().FillBytes)
}
