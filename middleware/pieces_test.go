package middleware

import (
	"bytes"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/store"
)

// Pieces hold what was put into them: over others the newer bytes count, under them
// the older. Older pieces stay as they were, and the memory held is at most twice the
// bytes, if what was put in held none to spare.
func TestPiecesAgainstModel(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		size := 1 + rnd.Int64N(500)
		model, known := make([]byte, size), make([]bool, size)
		var have spans
		var p pieces
		for range 40 {
			a := rnd.Int64N(size)
			n := newRun(a, make([]byte, 1+rnd.Int64N(min(60, size-a))))
			for i := range n.body {
				n.body[i] = byte(1 + rnd.IntN(255))
			}
			if have.cover(n.span()) {
				continue
			}
			before, was := p, p.text(size)
			have, _ = have.with(n.span())
			newer := rnd.IntN(2) == 0
			if newer {
				p = p.over(n).within(have)
			} else {
				p = p.under(n).within(have)
			}
			require.Equal(t, was, before.text(size))
			for i, b := range n.body {
				if at := a + int64(i); newer || !known[at] {
					model[at], known[at] = b, true
				}
			}
			require.Equal(t, model, p.text(size))
			var room, bytes, end int64
			for _, q := range p {
				require.NotEmpty(t, q.body)
				require.GreaterOrEqual(t, q.start, end)
				require.True(t, have.cover(q.span()))
				end = q.span().end
				room, bytes = room+q.room, bytes+int64(len(q.body))
			}
			require.LessOrEqual(t, room, 2*bytes+16*int64(len(p)), "copies are rounded up")
			require.Greater(t, p.weight(), room)
			f := piecesFile{p}
			for off := range size {
				r, err := f.Section(off, 7)
				if !known[off] {
					require.ErrorIs(t, err, store.ErrGone)
					continue
				}
				b, _ := io.ReadAll(r)
				require.NotEmpty(t, b)
				require.LessOrEqual(t, len(b), 7)
				require.Equal(t, model[off:off+int64(len(b))], b)
			}
		}
		if len(have) == 1 && have[0] == (span{0, size}) {
			require.Equal(t, model, p.join())
		}
	}
}

// text returns all bytes, zero in the gaps.
func (p pieces) text(size int64) []byte {
	b := make([]byte, size)
	for _, q := range p {
		copy(b[q.start:], q.body)
	}
	return b
}

// However many parts come, their number stays bounded, and so does what each costs.
func TestManyPieces(t *testing.T) {
	const size, step = 1 << 20, 64
	rnd := rand.New(rand.NewPCG(1, 1))
	body := make([]byte, size)
	for i := range body {
		body[i] = byte(rnd.Int())
	}
	for name, order := range map[string]func(i int) int{
		"in order":  func(i int) int { return i },
		"backwards": func(i int) int { return size/step - 1 - i },
		"halves":    func(i int) int { return i/2 + i%2*size/step/2 },
	} {
		var have spans
		var p pieces
		for i := range size / step {
			at := int64(order(i) * step)
			n := newRun(at, bytes.Clone(body[at:at+step]))
			have, _ = have.with(n.span())
			p = p.over(n).within(have)
			require.LessOrEqual(t, len(p), maxPieces)
		}
		require.True(t, bytes.Equal(body, p.join()), name)
	}
}

// A byte that joins many long pieces is cheap: they aren't copied.
func TestOneMoreByteBesideLongPiecesAllocatesLittle(t *testing.T) {
	testnet.WithoutRace(t)
	const long, n = 64 << 10, maxPieces
	var p pieces
	for i := range int64(n) {
		p = append(p, newRun(i*long, make([]byte, long)))
	}
	have := spans{{0, n * long}}
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	const times = 1000
	for i := range int64(times) {
		one := newRun(n*long+i, []byte{1})
		have, _ = have.with(one.span())
		p = p.over(one).within(have)
	}
	runtime.ReadMemStats(&now)
	require.Less(t, (now.TotalAlloc-before.TotalAlloc)/times, uint64(32<<10), "of %d KiB", n*long>>10)
}
