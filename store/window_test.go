package store

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A client on a slow line asks first, one on a fast line second: the second is
// done at the origin's speed as long as the first is no window behind.
func TestSlowReaderDoesNotSetThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 4 << 20
		f, data := fillOf(DefaultFillBytes, -1, 1<<20), content(size)
		f.Forgo()
		slow, _ := f.Reader(0)
		fast, _ := f.Reader(0)
		slowDone := make(chan time.Duration)
		start := time.Now()
		go func() {
			for {
				if _, err := slow.Next(t.Context()); err != nil {
					assert.Equal(t, "EOF", err.Error())
					slow.Close()
					slowDone <- time.Since(start)
					return
				}
				time.Sleep(time.Second)
			}
		}()
		go func() {
			for at := 0; at < size; at += 64 << 10 {
				assert.NoError(t, f.Append(t.Context(), data[at:at+64<<10]))
				time.Sleep(10 * time.Millisecond)
			}
			assert.NoError(t, f.End())
		}()
		got, err := readAll(t.Context(), fast)
		require.NoError(t, err)
		assert.Len(t, got, size)
		assert.LessOrEqual(t, time.Since(start), time.Second, "64 pieces, 10 ms each")
		fast.Close()
		assert.Greater(t, <-slowDone, time.Minute)
		f.check(t)
		assert.Zero(t, f.budget.used.Load())
	})
}

// Beyond the window the slow one holds the fast one up for ten seconds, and is
// cut off.
func TestLaggardIsCutOff(t *testing.T) {
	for name, budget := range map[string]int64{"window": 4 << 20, "no budget": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := fillOf(budget, -1, 1<<20)
				f.Forgo()
				stuck, _ := f.Reader(0)
				fast, _ := f.Reader(0)
				beyond, _ := f.Reader(100 << 20) // waits for what is far ahead
				start := time.Now()
				go func() {
					assert.NoError(t, f.Append(t.Context(), make([]byte, 8<<20)))
					assert.NoError(t, f.End())
				}()
				got, err := readAll(t.Context(), fast)
				require.NoError(t, err)
				assert.Len(t, got, 8<<20)
				assert.Equal(t, laggardPatience, time.Since(start))
				_, err = stuck.Next(t.Context())
				assert.ErrorIs(t, err, ErrLagging)
				stuck.Close()
				fast.Close()
				beyond.Close()
				assert.Zero(t, f.budget.used.Load())
				f.check(t)
			})
		})
	}
}

// A body that came in large pieces while it was still to be stored has a
// window of few pieces: the laggard may be anywhere in the last.
func TestLaggardInALargePiece(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fillOf(1<<20, -1, 512<<10)
		stuck, _ := f.Reader(0)
		fast, _ := f.Reader(0)
		go func() {
			for range 2 << 10 {
				assert.NoError(t, f.Append(t.Context(), make([]byte, 1<<10)))
			}
			assert.NoError(t, f.End())
		}()
		for at := 0; at < 400<<10; {
			p, err := stuck.Next(t.Context())
			require.NoError(t, err)
			at += len(p)
		}
		got, err := readAll(t.Context(), fast)
		require.NoError(t, err)
		assert.Len(t, got, 2<<20)
		fast.Close()
		stuck.Close()
	})
}

// Nobody is cut off who holds nobody up.
func TestAloneSlowReaderIsNotCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fillOf(0, -1, 1<<20)
		f.Forgo()
		r, _ := f.Reader(0)
		done := make(chan error)
		go func() {
			err := f.Append(t.Context(), make([]byte, 1<<20))
			_ = f.End()
			done <- err
		}()
		got := 0
		for {
			p, err := r.Next(t.Context())
			if err != nil {
				assert.Equal(t, "EOF", err.Error())
				break
			}
			got += len(p)
			time.Sleep(time.Hour)
		}
		assert.Equal(t, 1<<20, got)
		assert.NoError(t, <-done)
	})
}

// A hundred megabytes pass through by readers that stop for a while, for good,
// or leave: what is kept for them stays within the window.
func TestMemoryOfALongBodyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Budget{max: DefaultFillBytes}
		f := newFill(&b, -1, DefaultMaxMemoryObjectBytes)
		const size, piece = 100 << 20, 1 << 20
		readers := make(chan error, 4)
		for i := range cap(readers) {
			r, ok := f.Reader(0)
			require.True(t, ok)
			go func() {
				defer r.Close()
				for n := 0; ; n++ {
					if _, err := r.Next(t.Context()); err != nil {
						readers <- err
						return
					}
					switch {
					case i == 1 && n%500 == 499:
						time.Sleep(3 * time.Second)
					case i == 2 && n == 200:
						time.Sleep(time.Hour)
					case i == 3 && n == 300:
						readers <- nil
						return
					}
				}
			}()
		}
		data, most := make([]byte, piece), int64(0)
		for range size / piece {
			require.NoError(t, f.Append(t.Context(), data))
			f.check(t)
			f.mu.Lock()
			most = max(most, f.retained)
			f.mu.Unlock()
		}
		require.NoError(t, f.End())
		assert.LessOrEqual(t, most, int64(DefaultFillBytes/4))
		assert.Greater(t, most, int64(DefaultFillBytes/8), "the window is used")
		ends := map[string]int{}
		for range cap(readers) {
			err := <-readers
			if err == nil {
				ends["left"]++
			} else {
				ends[err.Error()]++
			}
		}
		assert.Equal(t, map[string]int{"EOF": 2, "left": 1, ErrLagging.Error(): 1}, ends)
		assert.Zero(t, b.used.Load())
	})
}

// When another fill gives memory back, one that waits for it goes on at once,
// although none of its own readers moves.
func TestBudgetWakesThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Budget{max: 1 << 20}
		big := newFill(&b, 1<<20, 4<<20)
		require.NoError(t, big.Append(t.Context(), make([]byte, 1<<20)))
		require.Equal(t, int64(1<<20-freeWindow), b.used.Load())

		var fills []*Fill
		var readers []*Reader
		done := make(chan error, 3)
		for range cap(done) {
			f := newFill(&b, -1, 1<<20)
			f.Forgo()
			r, _ := f.Reader(0) // and doesn't read
			fills, readers = append(fills, f), append(readers, r)
			go func() { done <- f.Append(t.Context(), make([]byte, 96<<10)) }()
		}
		synctest.Wait()
		for _, f := range fills {
			assert.True(t, f.Full())
		}
		fills[0].Fail(errBrokenOff) // must not swallow anybody's call
		assert.ErrorIs(t, <-done, ErrEnded)
		start := time.Now()
		_, ok := big.Take()
		require.True(t, ok)
		assert.NoError(t, <-done)
		assert.NoError(t, <-done)
		assert.Zero(t, time.Since(start))
		for i, r := range readers {
			fills[i].Fail(errBrokenOff)
			r.Close()
		}
		assert.Zero(t, b.used.Load())
		assert.Empty(t, b.queue)
	})
}

// Windows may use half of the budget only: large downloads that aren't stored
// don't keep others from being.
func TestWindowsLeaveHalfOfTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Budget{max: 1 << 20}
		for range 10 {
			f := newFill(&b, -1, 1<<20)
			f.Forgo()
			_, _ = f.Reader(0)
			go func() { _ = f.Append(t.Context(), make([]byte, 1<<20)) }()
			defer f.Fail(errBrokenOff)
		}
		synctest.Wait()
		assert.LessOrEqual(t, b.used.Load(), int64(512<<10))
		keeper := newFill(&b, 500<<10, 1<<20)
		require.NoError(t, keeper.Append(t.Context(), make([]byte, 500<<10)))
		_, ok := keeper.Take()
		assert.True(t, ok)
	})
}
