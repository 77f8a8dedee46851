package admission

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// serveFor lets n clients ask one after another, of an origin that takes so long, and
// returns how many were answered. Each tells what f says.
func serveFor(t *testing.T, l *Limiter, n int, takes, length time.Duration, tell func(Permit)) (served, refused int) {
	t.Helper()
	done := make(chan [2]int, n)
	end := time.Now().Add(length)
	for range n {
		go func() {
			var got [2]int
			for time.Now().Before(end) {
				p, d := l.Acquire(background, Request{})
				if !d.OK() {
					got[1]++
					time.Sleep(takes)
					continue
				}
				time.Sleep(takes)
				tell(p)
				p.Release()
				got[0]++
			}
			done <- got
		}()
	}
	for range n {
		got := <-done
		served, refused = served+got[0], refused+got[1]
	}
	return served, refused
}

// Permits that have told their first byte long ago don't keep others out, however low
// the ceiling is, and it comes up again. All together stay below the hard one.
func TestIdleStreamsLockNobodyOut(t *testing.T) {
	for _, streams := range []int{0, 30, 90, 99} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, Options{Limit: 100, Adaptive: &Adaptive{Start: 100}})
			var idle []Permit
			for range streams {
				p := mustTry(t, l, Request{})
				p.FirstByte()
				idle = append(idle, p)
			}
			time.Sleep(3 * time.Second)
			serveFor(t, l, 20, 20*time.Millisecond, 30*time.Second, Permit.Failed)
			require.Equal(t, 10, l.Stats().Limit, "it's down")
			served, refused := serveFor(t, l, 20, 20*time.Millisecond, 10*time.Second, Permit.FirstByte)
			assert.Greater(t, served, min(20, 100-streams)*10*40, "with %d streams", streams)
			if streams < 80 {
				assert.Less(t, refused, served/50, "while it comes up")
				assert.GreaterOrEqual(t, l.Stats().Limit, 40, "it's up where it is in use")
			}
			for range 100 - streams {
				l.TryAcquire(Request{}) // never released
			}
			_, d := l.TryAcquire(Request{})
			assert.Equal(t, LimitFull, d.Reason)
			assert.LessOrEqual(t, l.Stats().InUse, 100)
			for _, p := range idle {
				p.Release()
			}
			assert.Zero(t, l.counts.aside)
			assert.Zero(t, l.adaptive.aside.recent)
		})
	}
}

// A permit counts against the adaptive ceiling until a while after its first byte.
func TestSetAsideAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Options{Limit: 10, Queue: -1, Adaptive: &Adaptive{Start: 2}})
		p, q := mustTry(t, l, Request{}), mustTry(t, l, Request{})
		p.FirstByte()
		q.Failed()
		time.Sleep(900 * time.Millisecond)
		_, d := l.TryAcquire(Request{})
		require.Equal(t, LimitFull, d.Reason, "they may still be the origin's work")
		time.Sleep(1200 * time.Millisecond)
		assert.EqualValues(t, 2, l.counts.used)
		more := []Permit{mustTry(t, l, Request{}), mustTry(t, l, Request{})}
		_, d = l.TryAcquire(Request{})
		require.Equal(t, LimitFull, d.Reason)
		for _, p := range append(more, p, q) {
			p.Release()
		}
		empty(t, l)
		assert.Zero(t, l.counts.aside)
	})
}

// Whatever permits tell, and whenever they end, what is set aside is part of what is
// in use, and comes back to nothing.
func TestSetAsideAddsUp(t *testing.T) {
	for seed := range 50 {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 21))
			l := newLimiter(t, Options{Limit: 50, Queue: -1, Adaptive: &Adaptive{}})
			a := l.adaptive
			told := map[Permit]time.Time{}
			var out []Permit
			for range 500 {
				switch rng.IntN(4) {
				case 0:
					if p, d := l.TryAcquire(Request{Cost: 1 + rng.IntN(3)}); d.OK() {
						out = append(out, p)
					}
				case 1:
					if len(out) > 0 {
						p := out[rng.IntN(len(out))]
						[]func(Permit){Permit.FirstByte, Permit.Answered, Permit.Failed}[rng.IntN(3)](p)
						if _, ok := told[p]; !ok {
							told[p] = time.Now()
						}
					}
				case 2:
					if len(out) > 0 {
						i := rng.IntN(len(out))
						p := out[i]
						p.Release()
						p.Release()
						delete(told, p)
						out[i] = out[len(out)-1]
						out = out[:len(out)-1]
					}
				default:
					time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
				}
				var all, sure int64
				for p, at := range told {
					all += int64(p.Cost())
					if time.Since(at) > 10*time.Minute {
						sure += int64(p.Cost())
					}
				}
				require.Equal(t, all, l.counts.aside+a.aside.recent[0]+a.aside.recent[1])
				require.LessOrEqual(t, sure, l.counts.aside)
				require.True(t, 0 <= l.counts.aside && l.counts.aside <= l.counts.used && l.counts.used <= 50)
			}
			for _, p := range out {
				p.Release()
			}
			empty(t, l)
			require.Zero(t, l.counts.aside)
			require.Zero(t, a.aside.recent)
		})
	}
}

// Permits that never tell anything fill the ceiling for some minutes, not for ever. If
// others come and go without a word, it doesn't grow.
func TestCeilingMovesWhenNothingIsTold(t *testing.T) {
	for _, goes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, Options{Limit: 100, Queue: -1, Adaptive: &Adaptive{Min: 10, Start: 10}})
			var held []Permit
			for range 10 {
				held = append(held, mustTry(t, l, Request{}))
			}
			var waited time.Duration
			for ; waited < 10*time.Minute; waited += time.Second {
				time.Sleep(time.Second)
				if goes && waited%(10*time.Second) == 0 {
					held[0].Release()
					held[0] = mustTry(t, l, Request{})
				}
				if p, d := l.TryAcquire(Request{}); d.OK() {
					p.Release()
					break
				}
			}
			if goes {
				assert.Equal(t, 10, l.Stats().Limit)
			} else {
				assert.LessOrEqual(t, waited, 3*time.Minute)
			}
			for _, p := range held {
				p.Release()
			}
		})
	}
}

// Answers without a time count beside failures, and let the ceiling come up.
func TestAnswersWithoutATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Options{Limit: 100, Adaptive: &Adaptive{Min: 5, Start: 100}})
		var n atomic.Int64
		serveFor(t, l, 30, 20*time.Millisecond, 30*time.Second, func(p Permit) {
			if n.Add(1)%100 == 0 {
				p.Failed()
			} else {
				p.Answered()
			}
		})
		assert.Equal(t, 100, l.Stats().Limit, "one in a hundred fails")
		serveFor(t, l, 30, 20*time.Millisecond, 60*time.Second, Permit.Failed)
		assert.Equal(t, 5, l.Stats().Limit)
		serveFor(t, l, 90, 20*time.Millisecond, 5*time.Minute, Permit.Answered)
		assert.Greater(t, l.Stats().Limit, 80)
		assert.Zero(t, l.adaptive.best, "they say nothing about the time")
	})
}

// A ceiling of one comes up although the origin is so slow that it answers less than
// ten requests a minute then.
func TestSlowOriginLeavesTheLowestCeiling(t *testing.T) {
	for _, takes := range []time.Duration{3 * time.Second, 7 * time.Second, 40 * time.Second, 3 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, Options{Limit: 10, QueueTimeout: 10 * time.Second, Adaptive: &Adaptive{Start: 1}})
			serveFor(t, l, 10, takes, max(10*time.Minute, 20*takes), Permit.FirstByte)
			assert.GreaterOrEqual(t, l.Stats().Limit, 6, "%v", takes)
		})
	}
}

// What is reserved and idle doesn't keep the ceiling down that others find in the way.
func TestCeilingGrowsBesideAnIdleReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Options{Limit: 100, ReserveCritical: 50, Adaptive: &Adaptive{Start: 55}})
		serveFor(t, l, 40, 20*time.Millisecond, 20*time.Second, Permit.FirstByte)
		assert.GreaterOrEqual(t, l.Stats().Limit, 85)
	})
}
