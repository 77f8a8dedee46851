package admission

import (
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAdaptiveOptions(t *testing.T) {
	r, err := Options{Adaptive: &Adaptive{}}.resolve()
	require.NoError(t, err)
	assert.Equal(t, &adapting{low: 102, high: 1024, limit: 563}, r.adaptive)
	r, err = Options{Limit: 100, ReserveCritical: 20, ReserveNormal: 10, Adaptive: &Adaptive{}}.resolve()
	require.NoError(t, err)
	assert.Equal(t, &adapting{low: 37, high: 100, limit: 68}, r.adaptive)
	r, err = Options{Limit: 2, Adaptive: &Adaptive{Start: 2}}.resolve()
	require.NoError(t, err)
	assert.Equal(t, &adapting{low: 1, high: 2, limit: 2}, r.adaptive)
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Limit: 1, Adaptive: &Adaptive{}}, "Adaptive.Min"},
		{Options{Limit: 10, Adaptive: &Adaptive{Min: 10}}, "Adaptive.Min"},
		{Options{Limit: 10, Adaptive: &Adaptive{Min: -1}}, "Adaptive.Min"},
		{Options{Limit: 10, ReserveCritical: 5, Adaptive: &Adaptive{Min: 5}}, "Adaptive.Min"},
		{Options{Limit: 10, Adaptive: &Adaptive{Min: 3, Start: 2}}, "Adaptive.Start"},
		{Options{Limit: 10, Adaptive: &Adaptive{Start: 11}}, "Adaptive.Start"},
	} {
		_, err := New(c.o)
		assert.Equal(t, []string{c.want}, fields(t, err), "%+v", c.o)
	}
}

func TestWindowBuckets(t *testing.T) {
	for i := range bucketOf(math.MaxInt64) {
		require.Less(t, bucketFrom(i), bucketFrom(i+1))
	}
	for _, v := range []uint64{0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 1000, 1e6, 1e9 + 7, 3600e9, 1 << 62} {
		i := bucketOf(v)
		assert.LessOrEqual(t, bucketFrom(i), float64(v))
		assert.Less(t, float64(v), max(bucketFrom(i+1), float64(v)+1))
		assert.LessOrEqual(t, bucketFrom(i+1)-bucketFrom(i), max(1, float64(v)/16), "%d", v)
	}
	var w window
	assert.Zero(t, w.median())
	w.add(-5)
	for range 49 {
		w.add(int64(100 * time.Millisecond))
	}
	for range 45 {
		w.add(int64(time.Hour)) // outliers
	}
	assert.InDelta(t, 100e6, w.median(), 6e6)
}

func TestAdaptiveStep(t *testing.T) {
	const ms = 1e6
	windowOf := func(typical time.Duration, seen, failed int, peak int64) *window {
		w := &window{peak: peak}
		for range seen {
			w.add(int64(typical))
		}
		w.failed = failed
		return w
	}
	for _, c := range []struct {
		why   string
		a     adapting
		w     *window
		limit float64
		best  float64
	}{
		{"the first window", adapting{limit: 100}, windowOf(64*ms, 50, 0, 100), 111, 64 * ms},
		{"as ever, and in use", adapting{limit: 100, best: 64 * ms}, windowOf(64*ms, 50, 0, 51), 111, 64 * ms},
		{"not in use", adapting{limit: 100, best: 64 * ms}, windowOf(64*ms, 50, 0, 50), 100, 64 * ms},
		{"at the top", adapting{limit: 198, best: 64 * ms}, windowOf(64*ms, 50, 0, 150), 200, 64 * ms},
		{"a little queued", adapting{limit: 100, best: 54 * ms}, windowOf(64*ms, 50, 0, 100), 100, 54 * ms},
		{"half is queued", adapting{limit: 100, best: 32 * ms}, windowOf(64*ms, 50, 0, 100), 79, 32 * ms},
		{"nearly all is queued", adapting{limit: 100, best: 1 * ms}, windowOf(500*ms, 50, 0, 100), 55, 1 * ms},
		{"at the bottom", adapting{limit: 20, best: 8 * ms}, windowOf(64*ms, 50, 0, 20), 20, 15 * ms},
		{"slow without load", adapting{limit: 100, best: 56 * ms}, windowOf(64*ms, 50, 0, 9), 100, 57 * ms},
		{"faster", adapting{limit: 100, best: 128 * ms}, windowOf(64*ms, 50, 0, 9), 100, 96 * ms},
		{"single failures", adapting{limit: 100, best: 64 * ms}, windowOf(64*ms, 100, 5, 100), 111, 64 * ms},
		{"one in twenty", adapting{limit: 100, best: 64 * ms}, windowOf(64*ms, 95, 5, 100), 90, 64 * ms},
		{"all fail at once", adapting{limit: 100, best: 64 * ms}, windowOf(0, 0, 50, 100), 90, 64 * ms},
		{"all fail at the bottom", adapting{limit: 20, best: 64 * ms}, windowOf(0, 0, 50, 100), 20, 64 * ms},
		{"nothing", adapting{limit: 100, best: 64 * ms}, windowOf(0, 0, 0, 100), 100, 64 * ms},
		{"time for a probe", adapting{limit: 100, best: 64 * ms, busy: 1}, windowOf(64*ms, 50, 0, 100), 80, 64 * ms},
		{"not without load", adapting{limit: 100, best: 64 * ms, busy: 9}, windowOf(64*ms, 50, 0, 50), 100, 64 * ms},
		{"not at the bottom", adapting{limit: 20, best: 64 * ms, busy: 9}, windowOf(64*ms, 50, 0, 20), 23, 64 * ms},
		{"it helped", adapting{limit: 80, best: 120 * ms, probing: true, before: 128 * ms}, windowOf(64*ms, 50, 0, 80), 64, 64 * ms},
		{"it didn't", adapting{limit: 80, best: 64 * ms, probing: true, before: 65 * ms}, windowOf(64*ms, 50, 0, 80), 100, 64 * ms},
		{"it helped to the bottom", adapting{limit: 20, best: 120 * ms, probing: true, before: 128 * ms}, windowOf(64*ms, 50, 0, 20), 20, 64 * ms},
		{"failures end it", adapting{limit: 80, best: 64 * ms, probing: true, before: 65 * ms}, windowOf(64*ms, 50, 50, 80), 72, 64 * ms},
	} {
		c.a.low, c.a.high, c.a.pause = 20, 200, 1
		got := c.a.step(c.w)
		assert.InDelta(t, c.limit, got.limit, 1.5, c.why)
		assert.InDelta(t, c.best, got.best, 2*ms, c.why)
	}
}

// Whatever windows bring, the ceiling stays between its bounds, and failures
// never raise it.
func TestAdaptiveStaysInBounds(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 10))
	for range 200 {
		a := adapting{low: float64(1 + rng.IntN(50))}
		a.high = a.low + float64(1+rng.IntN(2000))
		a.limit = a.low + rng.Float64()*(a.high-a.low)
		for range 200 {
			var w window
			for range rng.IntN(100) {
				w.add(int64(math.Exp(rng.Float64()*43)) >> 1)
			}
			w.failed = rng.IntN(40) * rng.IntN(2)
			w.peak = rng.Int64N(3000)
			next := a.step(&w)
			require.False(t, math.IsNaN(next.limit) || next.limit < a.low || next.limit > a.high, "%v %v", a, next)
			if w.failed >= w.seen {
				require.LessOrEqual(t, next.limit, a.limit)
			}
			if w.peak <= int64(a.limit/2) {
				require.True(t, next.limit <= a.limit || a.probing, "nothing is learnt from idling")
			}
			a = next
		}
	}
}

// watchCeiling notes the ceiling over time.
func (w *world) watchCeiling(every, to time.Duration, note func(now time.Duration, limit int)) {
	for t := every; t <= to; t += every {
		w.at(t, func() { note(w.now(), int(w.l.counts.limit)) })
	}
}

// The ceiling finds out what an origin can take, follows it when it can take
// half as much, and again when it recovers. Offered is two or three times what it can.
func TestAdaptiveFindsCapacity(t *testing.T) {
	t.Parallel()
	for start, offered := range map[int]float64{20: 2 * peak, 0: 3 * peak} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, Options{Limit: 1000, Adaptive: &Adaptive{Min: 10, Start: start}})
			w := newWorld(l, 4)
			const end = 90 * time.Second
			w.offer("", Request{}, offered, 0, end)
			w.at(30*time.Second, func() { w.advance(); w.origin.capacity = 50; w.plan() })
			w.at(60*time.Second, func() { w.advance(); w.origin.capacity = 100; w.plan() })
			w.watchCeiling(time.Second, end, func(now time.Duration, limit int) {
				assert.LessOrEqual(t, limit, 1000)
				low, high := 55, 165 // a probe goes below what it can take
				if now > 30*time.Second && now <= 60*time.Second {
					low, high = 28, 90
				}
				if now%(30*time.Second) == 0 || now%(30*time.Second) > 12*time.Second {
					assert.True(t, low <= limit && limit <= high, "ceiling %d after %v", limit, now)
				}
			})
			w.run(end + 2*time.Second)
			for from, capacity := range map[time.Duration]float64{12 * time.Second: peak, 42 * time.Second: peak / 2, 72 * time.Second: peak} {
				_, good, _ := w.among("", from, from+18*time.Second)
				part := float64(good) / 18 / capacity
				t.Logf("from %d: goodput %.1f %% in the part from %v", start, 100*part, from)
				assert.GreaterOrEqual(t, part, 0.9)
			}
			empty(t, l)
		})
	}
}

// Neither a few requests that the origin is slow with, nor clients that read
// slowly, bring the ceiling down.
func TestAdaptiveIgnoresOutliersAndSlowReaders(t *testing.T) {
	for name, set := range map[string]func(w *world){
		"outliers": func(w *world) {
			w.extra = func() time.Duration {
				if w.rng.IntN(20) == 0 {
					return 700 * time.Millisecond
				}
				return 0
			}
		},
		"slow readers": func(w *world) {
			w.reading = func() time.Duration {
				if w.now() > 10*time.Second && w.rng.IntN(10) < 6 {
					return 2 * time.Second
				}
				return 0
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, Options{Limit: 1000, Adaptive: &Adaptive{Min: 10, Start: 700}})
			w := newWorld(l, 5)
			set(w)
			const end = 30 * time.Second
			w.offer("", Request{}, 0.4*peak, 0, end)
			w.watchCeiling(time.Second, end, func(now time.Duration, limit int) {
				assert.GreaterOrEqual(t, limit, 560, "%s after %v", name, now) // a probe
			})
			w.run(end + 5*time.Second)
			all, good, _ := w.among("", 0, end)
			assert.GreaterOrEqual(t, float64(good)/float64(all), 0.99, name)
			empty(t, l)
		})
	}
}

func TestFirstByteAndFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Options{Limit: 100, Adaptive: &Adaptive{}})
		w := &l.adaptive.window
		Permit{}.FirstByte()
		Permit{}.Failed()
		time.Sleep(time.Second)
		p := mustTry(t, l, Request{})
		time.Sleep(64 * time.Millisecond)
		p.FirstByte()
		p.FirstByte()
		p.Failed()
		assert.Equal(t, []int{1, 0}, []int{w.seen, w.failed})
		assert.InDelta(t, 64e6, w.median(), 4e6)
		p.Release()
		q := mustTry(t, l, Request{}) // in the same slot
		p.FirstByte()
		assert.Equal(t, 1, w.seen, "it's too late")
		q.Failed()
		q.Failed()
		q.FirstByte()
		assert.Equal(t, []int{1, 1}, []int{w.seen, w.failed})
		q.Release()
		// What belongs to a higher ceiling doesn't bring down the lower one too.
		old := mustTry(t, l, Request{})
		var failed []Permit
		for range 50 {
			failed = append(failed, mustTry(t, l, Request{}))
		}
		time.Sleep(time.Second)
		for _, p := range failed[:49] {
			p.Failed()
		}
		assert.Equal(t, 50, int(l.counts.limit), "nine tenths of 55")
		assert.Zero(t, w.seen+w.failed)
		old.Failed()
		failed[49].FirstByte()
		assert.Zero(t, w.seen+w.failed)
		for _, p := range append(failed, old) {
			p.Release()
		}
		empty(t, l)
		// Without the option they do nothing.
		l = newLimiter(t, Options{})
		p = mustTry(t, l, Request{})
		p.FirstByte()
		p.Failed()
		p.Release()
	})
}

func TestWindowIsOver(t *testing.T) {
	a := adapting{low: 1, high: 10, limit: 5}
	for _, c := range []struct {
		elapsed time.Duration
		seen    int
		last    time.Duration
		over    bool
	}{
		{249 * time.Millisecond, 500, 0, false},
		{250 * time.Millisecond, 49, 0, false},
		{250 * time.Millisecond, 50, 0, true},
		{799 * time.Millisecond, 50, 400 * time.Millisecond, false},
		{800 * time.Millisecond, 50, 400 * time.Millisecond, true},
		{4 * time.Second, 50, time.Hour, false},
		{5 * time.Second, 50, time.Hour, true},
		{5 * time.Second, 9, 0, false},
		{5 * time.Second, 10, 0, true},
		{time.Minute, 9, 0, true},
	} {
		a.last = float64(c.last)
		assert.Equal(t, c.over, a.ripe(&window{seen: c.seen}, int64(c.elapsed)), "%+v", c)
	}
}

// A ceiling that moves under random programs: never above the hard one, nothing
// sleeps in vain, and what is reserved is there.
func TestRandomProgramsWithMovingCeiling(t *testing.T) {
	t.Parallel()
	for seed := range 100 {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 11))
			o := randomOptions(rng)
			if o.Limit < 5 {
				o.ReserveNormal = 0
			}
			reserved := o.ReserveCritical + o.ReserveNormal
			o.Adaptive = &Adaptive{}
			g := &program{t: t, l: newLimiter(t, o), rng: rng}
			for range 300 {
				if rng.IntN(4) == 0 {
					g.l.counts.limit = int64(reserved + 1 + rng.IntN(o.Limit-reserved))
					g.l.handOver(g.l.now())
					g.collect()
				}
				g.step()
				c := &g.l.counts
				if free := c.reserve[0] - c.classes[0]; free > 0 && g.l.lines[0].waiters == 0 {
					require.True(t, c.fitsAll(0, free), "the reserve is there: %+v", *c)
				}
			}
			for _, a := range g.running {
				a.permit.Release()
			}
		})
	}
}

func BenchmarkAdaptive(b *testing.B) {
	l := newLimiter(b, Options{Adaptive: &Adaptive{}})
	b.ReportAllocs()
	for b.Loop() {
		p, _ := l.Acquire(background, Request{})
		p.FirstByte()
		p.Release()
	}
}
