package purge

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A zone floods: its purges queue, merge and drain at its rate; another zone
// doesn't notice.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustNew(t, Options{Rate: 100, Burst: 50, MaxQueued: 200})
		stored := page(l, "/", "n149")
		for i := range 150 {
			res, err := l.Submit(background, tagged(fmt.Sprint("n", i)))
			require.NoError(t, err)
			require.Equal(t, i < 50, res.Applied == 1, i)
			require.Equal(t, i >= 50, res.Queued == 1, i)
		}
		for range 1000 { // identical ones merge
			res, err := l.Submit(background, tagged("n149"), tagged("n148"))
			require.NoError(t, err)
			require.Equal(t, 2, res.Queued)
		}
		st := l.Stats()
		assert.Equal(t, 100, st.Queued)
		assert.Equal(t, map[string]int{"z": 100}, st.Backlog)

		other, err := l.Submit(background, Selector{Kind: Tag, Zone: "y", Tag: "a"})
		require.NoError(t, err)
		assert.Equal(t, 1, other.Applied)
		all, err := l.Submit(background, Selector{Kind: Everything, Soft: true})
		require.NoError(t, err)
		assert.Equal(t, 1, all.Applied)
		assert.Equal(t, Stale, l.Check(stored))

		time.Sleep(500*time.Millisecond + 2*drainEvery)
		assert.InDelta(t, 50, l.Stats().Queued, 3)
		time.Sleep(500 * time.Millisecond)
		assert.Zero(t, l.Stats().Queued)
		assert.Equal(t, Gone, l.Check(stored))
		time.Sleep(time.Second)
		res, err := l.Submit(background, tagged("again"))
		require.NoError(t, err)
		assert.Equal(t, 1, res.Applied)
	})
}

func TestFullQueueRefusesWholeCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustNew(t, Options{Rate: 1, Burst: 1, MaxQueued: 3})
		submit := func(names ...string) (Result, error) {
			var list []Selector
			for _, n := range names {
				list = append(list, tagged(n))
			}
			return l.Submit(background, append(list, Selector{Kind: Zone, Zone: "y", Soft: true})...)
		}
		_, err := submit("a", "b", "c") // overdraws
		require.NoError(t, err)
		_, err = submit("d", "e", "e")
		require.NoError(t, err)
		before := l.Stats()
		_, err = submit("e", "f", "g")
		require.ErrorIs(t, err, ErrBusy)
		var busy *BusyError
		require.True(t, errors.As(err, &busy))
		assert.Equal(t, "z", busy.Zone)
		assert.Positive(t, busy.RetryAfter)
		assert.Equal(t, before, l.Stats(), "nothing was purged or queued, in other zones either")
		assert.Equal(t, 3, before.Queued)
	})
}

// A hard purge that merges with a queued soft one stays hard.
func TestQueueMergesToHard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustNew(t, Options{Rate: 10, Burst: 1})
		s, soft := page(l, "/", "a"), tagged("a")
		soft.Soft = true
		for _, sel := range []Selector{tagged("first"), soft, tagged("a"), soft} {
			_, err := l.Submit(background, sel)
			require.NoError(t, err)
		}
		assert.Equal(t, 1, l.Stats().Queued)
		assert.Equal(t, Valid, l.Check(s))
		time.Sleep(time.Second)
		assert.Equal(t, Gone, l.Check(s))
	})
}

// It's that very one, however many have left the queue before it.
func TestQueueMergesTheRightOneToHard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustNew(t, Options{Rate: 10, Burst: 1})
		soft := func(tag string) Selector {
			s := tagged(tag)
			s.Soft = true
			return s
		}
		stored := []*Subject{page(l, "/c", "c"), page(l, "/d", "d"), page(l, "/e", "e")}
		for _, s := range []Selector{tagged("first"), soft("a"), soft("b"), soft("c"), soft("d"), soft("e")} {
			_, err := l.Submit(background, s)
			require.NoError(t, err)
		}
		for l.Stats().Queued > 3 { // a and b
			time.Sleep(drainEvery)
		}
		require.Equal(t, 3, l.Stats().Queued)
		_, err := l.Submit(background, tagged("d"))
		require.NoError(t, err)
		require.Equal(t, 3, l.Stats().Queued)
		time.Sleep(time.Second)
		var got []Verdict
		for _, s := range stored {
			got = append(got, l.Check(s))
		}
		assert.Equal(t, []Verdict{Stale, Gone, Stale}, got)
	})
}

// What has waited longest goes first: however many come later, none waits for longer
// than it takes to carry out what was queued before it.
func TestQueueIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustNew(t, Options{Rate: 100, Burst: 10, MaxQueued: 1000})
		submit := func(tag string) Result {
			res, err := l.Submit(background, tagged(tag))
			if err != nil {
				require.ErrorIs(t, err, ErrBusy)
			}
			return res
		}
		for i := range 40 {
			submit(fmt.Sprint("before", i))
		}
		first := page(l, "/", "first")
		require.Equal(t, 1, submit("first").Queued)
		for i := range 100 { // five times as many as are carried out
			time.Sleep(drainEvery)
			for j := range 5 {
				submit(fmt.Sprint("later", i, " ", j))
			}
			if i == 20 {
				require.Equal(t, Valid, l.Check(first), "so far there were others before it")
				require.Equal(t, 1, submit("first").Queued, "it keeps its place")
			}
			if i == 33 {
				require.Equal(t, Gone, l.Check(first))
				first = page(l, "/", "first")
				require.Equal(t, 1, submit("first").Queued, "it queues anew")
				require.Equal(t, Valid, l.Check(first))
			}
		}
		time.Sleep(5 * time.Second)
		require.Zero(t, l.Stats().Queued)
		require.Equal(t, Gone, l.Check(first))
	})
}

func TestCloseAppliesQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustNew(t, Options{Rate: 1, Burst: 1})
		s := page(l, "/", "b")
		for _, tag := range []string{"a", "b", "c"} {
			_, err := l.Submit(background, tagged(tag))
			require.NoError(t, err)
		}
		require.NoError(t, l.Close(background))
		require.NoError(t, l.Close(background))
		assert.Equal(t, Gone, l.Check(s))
		_, err := l.Submit(background, tagged("a"))
		assert.ErrorIs(t, err, ErrClosed)
	})
}

func TestNegativeRateIsNoBudget(t *testing.T) {
	l := mustNew(t, Options{Rate: -1, Burst: 1})
	for range 100 {
		res, err := l.Submit(background, tagged("a"))
		require.NoError(t, err)
		require.Equal(t, 1, res.Applied)
	}
}

// Names of zones made up by a client don't fill the memory.
func TestBucketsAreBounded(t *testing.T) {
	l := mustNew(t, Options{Rate: 1, Burst: 10})
	for i := range 3 * maxBuckets {
		_, err := l.Submit(background, Selector{Kind: Zone, Zone: fmt.Sprint(i)})
		require.NoError(t, err)
	}
	l.queues.mu.Lock()
	n := len(l.queues.zones)
	l.queues.mu.Unlock()
	assert.LessOrEqual(t, n, maxBuckets+1)
}
