package store

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// content is a body in which every place can be told from every other.
func content(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return b
}

// key makes a key that spreads over the flights' shards as digests do.
func key(n int) (k Key) {
	r := rand.New(rand.NewPCG(uint64(n), 0))
	for i := range k {
		k[i] = byte(r.Uint32())
	}
	return k
}

// plain is an object that doesn't vary, with a body of n bytes.
func plain(primary Key, n int) *Object {
	return &Object{Key: primary, Primary: primary, Status: 200, Body: make([]byte, n), Length: strconv.Itoa(n)}
}

// variant is an object that varies by the names.
func variant(primary, k Key, n int, names ...string) *Object {
	return &Object{Key: k, Primary: primary, Status: 200, Body: make([]byte, n), VaryNames: names, Selecting: "x"}
}

func newStore(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// fillOf makes a fill with a budget of its own.
func fillOf(budget, length, maxWhole int64) *Fill {
	return newFill(&Budget{max: budget}, length, maxWhole)
}

// readAll reads until the end or an error.
func readAll(ctx context.Context, r *Reader) ([]byte, error) {
	var got []byte
	for {
		p, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		if len(p) == 0 {
			return got, errors.New("Next returned neither bytes nor an error")
		}
		got = append(got, p...)
	}
}

// check tests what must hold of a fill whenever its lock is free.
func (f *Fill) check(t testing.TB) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	var bytes, memory int64
	for i, seg := range f.segs {
		bytes += int64(len(seg))
		memory += footprint(cap(seg))
		if len(seg) < cap(seg) && i < len(f.segs)-1 {
			t.Errorf("segment %d of %d isn't full", i, len(f.segs))
		}
	}
	if f.size-f.base != bytes {
		t.Errorf("%d bytes here, but from %d to %d", bytes, f.base, f.size)
	}
	if f.retained != memory {
		t.Errorf("retained is %d, the segments take %d", f.retained, memory)
	}
	if want := max(0, f.retained-freeWindow); !f.taken && f.charged != want || f.taken && f.charged != 0 {
		t.Errorf("charged is %d, should be %d, or 0 if taken (%v)", f.charged, want, f.taken)
	}
	if f.spilled() && f.spill.users == 0 && f.base > f.spill.size && f.slowest() < f.base {
		t.Errorf("what is from %d to %d is neither in the spool nor in memory", f.spill.size, f.base)
	}
	if f.spilled() && f.keep && !f.taken && f.retained > freeWindow {
		t.Errorf("%d bytes of a spilled body are in memory", f.retained)
	}
	if f.keep && !f.spilled() && f.base != 0 {
		t.Errorf("%d bytes of a body that is to be kept are gone", f.base)
	}
	if f.keep && !f.spilled() && f.size > f.maxWhole {
		t.Errorf("%d bytes are kept, more than any tier takes (%d)", f.size, f.maxWhole)
	}
	atLeast, least := 0, int64(1<<62)
	for i, r := range f.readers {
		if r.place != i || r.cut || r.closed {
			t.Errorf("reader %d: place %d, cut %v, closed %v", i, r.place, r.cut, r.closed)
		}
		if r.off < f.base && !f.onSpool() {
			t.Errorf("reader %d is at %d, but what is before %d is gone", i, r.off, f.base)
		}
		if r.off < least {
			atLeast, least = 0, r.off
		}
		if r.off == least {
			atLeast++
		}
	}
	if f.atLeast > 0 && (f.atLeast != atLeast || f.least != least) {
		t.Errorf("slowest: %d readers at %d; should be %d at %d", f.atLeast, f.least, atLeast, least)
	}
	if used := f.budget.used.Load(); used < 0 || used > f.budget.max {
		t.Errorf("%d of the budget of %d are used", used, f.budget.max)
	}
}
