package store

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTake(t *testing.T) {
	tests := []struct {
		name     string
		length   int64
		pieces   []int
		before   func(f *Fill)
		taken    bool
		sameSize bool // the body is what was allocated: no copy
	}{
		{name: "nothing, length unknown", length: -1, taken: true},
		{name: "nothing, as declared", length: 0, taken: true},
		{name: "as declared, in one piece", length: 3000, pieces: []int{1000, 2000}, taken: true, sameSize: true},
		{name: "short", length: 3000, pieces: []int{2999}},
		{name: "unknown length", length: -1, pieces: []int{100, 600, 5000}, taken: true},
		{name: "as large as may be", length: -1, pieces: []int{10_000}, taken: true},
		{name: "a byte larger, unknown length", length: -1, pieces: []int{10_000, 1}},
		{name: "a byte larger, at once", length: -1, pieces: []int{10_001}},
		{name: "a byte larger, declared", length: 10_001, pieces: []int{10_001}},
		{name: "forgone", length: -1, pieces: []int{10}, before: (*Fill).Forgo},
		{name: "failed", length: -1, pieces: []int{10}, before: func(f *Fill) { f.Fail(errBrokenOff) }},
		{name: "ended before", length: -1, pieces: []int{10}, before: func(f *Fill) { _ = f.End() }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := fillOf(1<<20, tt.length, 10_000)
			data, sent := content(20_000), 0
			for _, n := range tt.pieces {
				require.NoError(t, f.Append(t.Context(), data[sent:sent+n]))
				sent += n
			}
			if tt.before != nil {
				tt.before(f)
			}
			var first *byte
			if tt.sameSize {
				first = &f.segs[0][0]
			}
			body, ok := f.Take()
			require.Equal(t, tt.taken, ok)
			f.check(t)
			if !ok {
				return
			}
			assert.Equal(t, string(data[:sent]), string(body))
			if tt.sameSize {
				assert.Same(t, first, &body[0])
			}
			again, ok := f.Take()
			assert.True(t, ok)
			assert.Len(t, again, sent)
			assert.ErrorIs(t, f.Append(t.Context(), data[:1]), ErrEnded, "what is stored doesn't change")
			require.NoError(t, f.End())
			r, ok := f.Reader(0)
			require.True(t, ok)
			got, err := readAll(t.Context(), r)
			assert.NoError(t, err)
			assert.Equal(t, string(body), string(got))
		})
	}
}

// Readers go on in the one copy that is stored, so that a body isn't in memory
// twice for as long as someone slow reads it.
func TestReadersFollowIntoTheStoredCopy(t *testing.T) {
	f, data := fillOf(1<<20, -1, 1<<20), content(200_000)
	start, _ := f.Reader(0)
	middle, _ := f.Reader(0)
	for at := 0; at < len(data); at += 1000 {
		require.NoError(t, f.Append(t.Context(), data[at:at+1000]))
	}
	head := 0
	for range 3 {
		p, err := middle.Next(t.Context())
		require.NoError(t, err)
		head += len(p)
	}
	body, ok := f.Take()
	require.True(t, ok)
	require.NoError(t, f.End())
	p, err := start.Next(t.Context())
	require.NoError(t, err)
	assert.Same(t, &body[0], &p[0])
	rest, err := readAll(t.Context(), middle)
	require.NoError(t, err)
	assert.Equal(t, string(data[head:]), string(rest))
	start.Close()
	middle.Close()
	f.check(t)
}

func TestBudgetComesBack(t *testing.T) {
	const size = 300_000
	tests := map[string]func(f *Fill){
		"ended, never taken": func(f *Fill) { require.NoError(t, f.End()) },
		"failed":             func(f *Fill) { f.Fail(errBrokenOff) },
		"forgone":            func(f *Fill) { f.Forgo() },
		"taken":              func(f *Fill) { f.Take() },
		"taken, failed":      func(f *Fill) { f.Take(); f.Fail(errBrokenOff) },
		"taken, forgone":     func(f *Fill) { f.Take(); f.Forgo() },
	}
	for name, end := range tests {
		for _, length := range []int64{-1, size} {
			t.Run(name, func(t *testing.T) {
				f := fillOf(1<<20, length, 1<<20)
				require.NoError(t, f.Append(t.Context(), make([]byte, size)))
				require.Positive(t, f.budget.used.Load())
				end(f)
				_ = f.End()
				f.check(t)
				assert.Zero(t, f.budget.used.Load())
			})
		}
	}
	t.Run("short", func(t *testing.T) {
		f := fillOf(1<<20, size+1, 1<<20)
		require.NoError(t, f.Append(t.Context(), make([]byte, size)))
		require.ErrorIs(t, f.End(), ErrShort)
		require.ErrorIs(t, f.End(), ErrShort)
		assert.Zero(t, f.budget.used.Load())
	})
}

func TestAppendRefuses(t *testing.T) {
	f := fillOf(1<<20, 10, 1<<20)
	require.NoError(t, f.Append(t.Context(), make([]byte, 10)))
	assert.ErrorIs(t, f.Append(t.Context(), []byte{0}), ErrLong)
	assert.NoError(t, f.Append(t.Context(), nil))
	require.NoError(t, f.End())
	assert.ErrorIs(t, f.Append(t.Context(), []byte{0}), ErrEnded)
	assert.ErrorIs(t, f.Append(t.Context(), nil), ErrEnded)
	f.Fail(errBrokenOff)
	_, whole := f.Progress()
	assert.True(t, whole, "a body that has ended can't fail any more")
}

func TestKeptTellsWhy(t *testing.T) {
	for name, tt := range map[string]struct {
		f              *Fill
		n              int
		kept, tooLarge bool
	}{
		"declared at the limit":      {fillOf(1<<20, 1000, 1000), 1000, true, false},
		"declared beyond it":         {fillOf(1<<20, 1001, 1000), 0, false, true},
		"unknown, at the limit":      {fillOf(1<<20, -1, 1000), 1000, true, false},
		"unknown, beyond it":         {fillOf(1<<20, -1, 1000), 1001, false, true},
		"no budget, small":           {fillOf(0, -1, 1<<20), 64 << 10, true, false},
		"no budget, declared":        {fillOf(0, 65<<10, 1<<20), 1, false, false},
		"no budget, unknown, larger": {fillOf(0, -1, 1<<20), 64<<10 + 1, false, false},
	} {
		for range tt.n { // in the smallest pieces
			require.NoError(t, tt.f.Append(t.Context(), []byte{1}))
		}
		kept, tooLarge := tt.f.Kept()
		assert.Equal(t, tt.kept, kept, name)
		assert.Equal(t, tt.tooLarge, tooLarge, name)
		tt.f.check(t)
	}
}

// An error that a reader would take for a good end must not become one.
func TestFailureNeverLooksWhole(t *testing.T) {
	for _, err := range []error{nil, io.EOF} {
		f := fillOf(1<<20, -1, 1000)
		r, _ := f.Reader(0)
		require.NoError(t, f.Append(t.Context(), []byte("half")))
		f.Fail(err)
		got, err := readAll(t.Context(), r)
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
		assert.Equal(t, "half", string(got))
		_, whole := f.Progress()
		assert.False(t, whole)
	}
}

func TestReaderAfterItsEnd(t *testing.T) {
	f := fillOf(1<<20, -1, 1000)
	r, _ := f.Reader(0)
	require.NoError(t, f.Append(t.Context(), []byte("abc")))
	_, err := r.Next(t.Context())
	require.NoError(t, err)
	r.Close()
	r.Close()
	assert.True(t, r.More())
	_, err = r.Next(t.Context())
	assert.ErrorIs(t, err, ErrClosed)
	assert.Empty(t, f.readers)
	_, ok := f.Reader(-1)
	assert.False(t, ok)
}

func TestReaderBeyondTheEnd(t *testing.T) {
	f := fillOf(1<<20, -1, 1000)
	at, _ := f.Reader(3)
	beyond, _ := f.Reader(100)
	require.NoError(t, f.Append(t.Context(), []byte("abcd")))
	require.NoError(t, f.End())
	got, err := readAll(t.Context(), at)
	require.NoError(t, err)
	assert.Equal(t, "d", string(got))
	got, err = readAll(t.Context(), beyond)
	require.NoError(t, err)
	assert.Empty(t, got)
}

func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fillOf(1<<20, -1, 1000)
		r, _ := f.Reader(0)
		type answer struct {
			size  int64
			whole bool
			err   error
		}
		sizes := make(chan answer, 2)
		for _, n := range []int64{3, 100} {
			go func() {
				size, whole, err := f.WaitSize(t.Context(), n)
				sizes <- answer{size, whole, err}
			}()
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errBrokenOff)
		defer cancel()
		_, err := r.Next(ctx)
		assert.ErrorIs(t, err, errBrokenOff)
		_, _, err = f.WaitSize(ctx, 1)
		assert.ErrorIs(t, err, errBrokenOff)
		assert.False(t, r.More())

		require.NoError(t, f.Append(t.Context(), []byte("abc")))
		assert.Equal(t, answer{3, false, nil}, <-sizes)
		assert.True(t, r.More())
		p, err := r.Next(ctx)
		require.NoError(t, err, "bytes that are here are given although the context has ended")
		assert.Equal(t, "abc", string(p))

		go func() { time.Sleep(time.Minute); _ = f.End() }()
		_, err = r.Next(t.Context())
		assert.ErrorIs(t, err, io.EOF)
		assert.Equal(t, answer{3, true, nil}, <-sizes)
	})
}

// Everything at once, for the race detector.
func TestFillInParallel(t *testing.T) {
	for _, keep := range []bool{true, false} {
		f, data := fillOf(2<<20, -1, 4<<20), content(256<<10)
		pin, _ := f.Reader(0)
		done := make(chan error, 40)
		for i := range cap(done) {
			r, ok := f.Reader(0)
			require.True(t, ok)
			go func() {
				defer r.Close()
				if i%4 == 3 { // leaves early
					_, err := r.Next(t.Context())
					done <- err
					return
				}
				got, err := readAll(t.Context(), r)
				if err == nil && string(got) != string(data) {
					err = errors.New("other bytes than were written")
				}
				done <- err
			}()
		}
		pin.Close()
		if !keep {
			f.Forgo()
		}
		for at := 0; at < len(data); at += 1 << 12 {
			require.NoError(t, f.Append(t.Context(), data[at:at+1<<12]))
		}
		if keep {
			_, ok := f.Take()
			require.True(t, ok)
		}
		require.NoError(t, f.End())
		for range cap(done) {
			assert.NoError(t, <-done)
		}
		f.check(t)
		assert.Zero(t, f.budget.used.Load())
	}
}
