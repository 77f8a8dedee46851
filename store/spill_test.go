package store

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// spillingTo makes a store whose memory takes 100,000 bytes of a body, with the disk.
func spillingTo(t *testing.T, d *fakeDisk) *Store {
	if d.max == 0 {
		d.max = 64 << 20
	}
	return newStore(t, Options{MemoryBytes: 1 << 20, MaxMemoryObjectBytes: 100_000, Disk: d})
}

// A body that outgrows memory is whole on disk, whether its length is declared or
// not, and whatever the pieces in which it comes.
func TestSpilledBodyIsWhole(t *testing.T) {
	for _, declared := range []bool{true, false} {
		for _, piece := range []int{700, 32 << 10, 1 << 20} {
			d := &fakeDisk{failAfter: -1}
			s, data := spillingTo(t, d), content(1<<20+77)
			length := int64(-1)
			if declared {
				length = int64(len(data))
			}
			f := s.NewFill(length)
			r, _ := f.Reader(0)
			for at := 0; at < len(data); at += piece {
				require.NoError(t, f.Append(t.Context(), data[at:min(at+piece, len(data))]))
				f.check(t)
			}
			kept, _ := f.Kept()
			require.True(t, kept)
			_, ok := f.Take()
			require.False(t, ok, "it isn't in memory")
			o := &Object{Key: key(1), Primary: key(1), Status: 200}
			require.Equal(t, Kept, s.Keep(f, o, nil))
			require.True(t, bytes.Equal(data, d.kept))
			require.NoError(t, f.End())
			got, err := readAll(t.Context(), r)
			require.NoError(t, err)
			require.True(t, bytes.Equal(data, got))
			require.EqualValues(t, 1, d.open.Load(), "open as long as there's a reader")
			r.Close()
			require.Zero(t, d.open.Load())
			require.Zero(t, d.aborted.Load())
			f.check(t)
			_, ok = f.Reader(0)
			require.False(t, ok)
		}
	}
}

// When the budget for bodies in memory is used up, the disk takes them.
func TestSpillForWantOfBudget(t *testing.T) {
	d := &fakeDisk{failAfter: -1, max: 64 << 20}
	s := newStore(t, Options{MemoryBytes: 4 << 20, MaxMemoryObjectBytes: 2 << 20, FillBytes: 1 << 20, Disk: d})
	data := content(1 << 20)
	one, two := s.NewFill(-1), s.NewFill(int64(len(data)))
	require.NoError(t, one.Append(t.Context(), data))
	require.NoError(t, two.Append(t.Context(), data))
	require.Equal(t, []bool{false, true}, []bool{one.Spilled(), two.Spilled()})
	require.Equal(t, Kept, s.Keep(two, &Object{Status: 200}, nil))
	require.True(t, bytes.Equal(data, d.kept))
	one.Fail(nil)
	_ = two.End()
	require.Zero(t, s.Stats().FillBytes)
}

// A reader that stands still holds nobody up and costs no memory.
func TestSlowReaderOfASpilledBody(t *testing.T) {
	t.Parallel()
	d := &fakeDisk{failAfter: -1}
	s, data := spillingTo(t, d), content(16<<20)
	f := s.NewFill(-1)
	slow, _ := f.Reader(0)
	most := int64(0)
	for at := 0; at < len(data); at += 1 << 20 {
		require.NoError(t, f.Append(t.Context(), data[at:at+1<<20])) // nobody reads
		most = max(most, s.Stats().FillBytes)
		f.check(t) // memory has no more than the free window
	}
	assert.Zero(t, most, "a spilled body needs nothing of the budget")
	require.Equal(t, Kept, s.Keep(f, &Object{Status: 200}, nil))
	require.NoError(t, f.End())
	got, err := readAll(t.Context(), slow)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got))
	slow.Close()
	require.Zero(t, d.open.Load())
}

func TestSpoolFailsInTheMiddle(t *testing.T) {
	for name, failAfter := range map[string]int{"at once": 0, "while memory has it all": 50_000, "later": 500_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := &fakeDisk{failAfter: failAfter}
				s, data := spillingTo(t, d), content(3<<20)
				defer func() { _ = s.Close(t.Context()) }()
				f := s.NewFill(-1)
				var readers sync.WaitGroup
				for range 3 {
					r, ok := f.Reader(0)
					require.True(t, ok)
					readers.Go(func() {
						defer r.Close()
						got, err := readAll(t.Context(), r)
						assert.NoError(t, err)
						assert.True(t, bytes.Equal(data, got), "%d bytes", len(got))
					})
				}
				late, _ := f.Reader(0) // reads nothing before the spool fails
				half := 600_000
				require.NoError(t, f.Append(t.Context(), data[:half]))
				f.check(t)
				kept, tooLarge := f.Kept()
				require.Equal(t, []bool{false, false}, []bool{kept, tooLarge})
				require.Equal(t, NoRoom, f.SpillFailed())
				readers.Go(func() {
					defer late.Close()
					got, err := readAll(t.Context(), late)
					assert.NoError(t, err)
					assert.True(t, bytes.Equal(data, got), "late: %d bytes", len(got))
				})
				require.NoError(t, f.Append(t.Context(), data[half:]))
				require.Equal(t, Incomplete, s.Keep(f, &Object{Status: 200}, nil))
				require.NoError(t, f.End())
				readers.Wait()
				require.Zero(t, d.open.Load())
				require.Nil(t, d.kept)
				require.Zero(t, s.Stats().FillBytes)
				f.check(t)
			})
		})
	}
}

// A disk that takes nothing at all.
func TestNoSpool(t *testing.T) {
	for _, length := range []int64{-1, 1 << 20} {
		d := &fakeDisk{noCreate: true, failAfter: -1}
		s, data := spillingTo(t, d), content(1<<20)
		f := s.NewFill(length)
		r, _ := f.Reader(0)
		require.NoError(t, f.Append(t.Context(), data))
		kept, tooLarge := f.Kept()
		require.Equal(t, []bool{false, false}, []bool{kept, tooLarge})
		require.Equal(t, SwitchedOff, f.SpillFailed())
		require.NoError(t, f.End())
		got, err := readAll(t.Context(), r)
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, got))
		r.Close()
		require.Zero(t, s.Stats().FillBytes)
	}
}

// What is larger than the disk takes, too, is known as such at the head if its
// length is declared, and else when it turns out.
func TestLargerThanTheDiskTakes(t *testing.T) {
	d := &fakeDisk{max: 1 << 20, failAfter: -1}
	s := spillingTo(t, d)
	declared := s.NewFill(1<<20 + 1)
	kept, tooLarge := declared.Kept()
	require.Equal(t, []bool{false, true}, []bool{kept, tooLarge})
	f := s.NewFill(-1)
	require.NoError(t, f.Append(t.Context(), content(1<<20+100<<10)))
	kept, tooLarge = f.Kept()
	require.Equal(t, []bool{false, true}, []bool{kept, tooLarge})
	_ = f.End()
	require.Zero(t, d.open.Load())
}

// A body that breaks off leaves no file behind, once its readers have had what there
// is. It may be failed by somebody else while the writer writes to the disk.
func TestBrokenSpillIsAborted(t *testing.T) {
	for _, during := range []bool{true, false} {
		d := &fakeDisk{failAfter: -1}
		s, data := spillingTo(t, d), content(1<<20)
		f := s.NewFill(-1)
		r, _ := f.Reader(0)
		if during {
			n := 0
			d.atWrite = func() {
				if n++; n == 10 {
					f.Fail(errBrokenOff)
				}
			}
			require.ErrorIs(t, f.Append(t.Context(), data), ErrEnded)
		} else {
			require.NoError(t, f.Append(t.Context(), data))
			f.Fail(errBrokenOff)
		}
		got, err := readAll(t.Context(), r)
		require.ErrorIs(t, err, errBrokenOff)
		size, _ := f.Progress()
		require.True(t, bytes.Equal(data[:size], got))
		require.Greater(t, size, int64(200_000))
		require.Equal(t, Incomplete, s.Keep(f, &Object{Status: 200}, nil))
		r.Close()
		require.Equal(t, []int64{0, 1}, []int64{d.open.Load(), d.aborted.Load()})
		f.check(t)
	}
}

// Nobody reads any more when somebody else ends the body in the middle of a write: the
// file is closed after the write.
func TestBrokenWhileTheWriterWrites(t *testing.T) {
	d := &fakeDisk{failAfter: -1}
	s := spillingTo(t, d)
	f := s.NewFill(-1)
	n := 0
	d.atWrite = func() {
		if n++; n == 10 {
			f.Fail(errBrokenOff)
		}
	}
	require.ErrorIs(t, f.Append(t.Context(), content(1<<20)), ErrEnded)
	require.Equal(t, []int64{0, 1}, []int64{d.open.Load(), d.aborted.Load()})
	f.check(t)
}

// Readers begin and leave at all times; each gets its bytes from the first on.
func TestReadersOfASpilledBody(t *testing.T) {
	d := &fakeDisk{failAfter: -1}
	s, data := spillingTo(t, d), content(4<<20)
	f := s.NewFill(-1)
	pin, _ := f.Reader(0)
	var readers sync.WaitGroup
	read := func(off int, all bool) {
		r, ok := f.Reader(int64(off))
		assert.True(t, ok)
		readers.Go(func() {
			defer r.Close()
			at := off
			for {
				p, err := r.Next(t.Context())
				if errors.Is(err, io.EOF) {
					assert.Equal(t, len(data), at)
					return
				}
				if err != nil || !bytes.Equal(p, data[at:at+len(p)]) {
					t.Errorf("reader from %d at %d: %v", off, at, err)
					return
				}
				if at += len(p); !all && at > off+100_000 {
					return
				}
			}
		})
	}
	for at := 0; at < len(data); at += 64 << 10 {
		read(0, true)
		read(at/2, at%3 == 0)
		require.NoError(t, f.Append(t.Context(), data[at:at+64<<10]))
	}
	read(0, true)
	require.Equal(t, Kept, s.Keep(f, &Object{Status: 200}, nil))
	read(0, true)
	require.NoError(t, f.End())
	read(5, true)
	readers.Wait()
	pin.Close()
	require.Zero(t, d.open.Load())
	require.Zero(t, s.Stats().FillBytes)
	f.check(t)
}
