package admission

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

func TestQuantileOfTwoReadings(t *testing.T) {
	inf := math.Inf(1)
	bounds := []float64{-inf, 0, 0.001, 0.010, 0.020, inf}
	for name, c := range map[string]struct {
		before, after []uint64
		bounds        []float64
		want          time.Duration
		samples       uint64
	}{
		"nothing new":        {[]uint64{5, 5, 5, 5, 5}, []uint64{5, 5, 5, 5, 5}, bounds, 0, 0},
		"all in one bucket":  {[]uint64{0, 9, 0, 0, 0}, []uint64{0, 9, 0, 100, 0}, bounds, 19 * time.Millisecond, 100},
		"the past not":       {[]uint64{0, 0, 0, 0, 1e9}, []uint64{0, 100, 0, 0, 1e9}, bounds, 900 * time.Microsecond, 100},
		"nine of ten":        {[]uint64{0, 0, 0, 0, 0}, []uint64{0, 90, 0, 10, 0}, bounds, time.Millisecond, 100},
		"one more":           {[]uint64{0, 0, 0, 0, 0}, []uint64{0, 89, 0, 11, 0}, bounds, 10*time.Millisecond + 10*time.Millisecond/11, 100},
		"below the first":    {[]uint64{0, 0, 0, 0, 0}, []uint64{7, 0, 0, 0, 0}, bounds, 0, 7},
		"above the last":     {[]uint64{0, 0, 0, 0, 0}, []uint64{0, 0, 0, 0, 7}, bounds, 20 * time.Millisecond, 7},
		"counts that shrink": {[]uint64{0, 9, 0, 0, 0}, []uint64{0, 0, 10, 0, 0}, bounds, 9100 * time.Microsecond, 10},
		"not a number":       {[]uint64{0}, []uint64{1}, []float64{math.NaN(), math.NaN()}, 0, 1},
		"no end":             {[]uint64{0}, []uint64{1}, []float64{inf, inf}, time.Minute, 1},
		"other buckets":      {[]uint64{0}, []uint64{1, 2}, []float64{0, 1, 2}, 0, 0},
		"no bounds":          {[]uint64{0}, []uint64{1}, nil, 0, 0},
		"nothing at all":     {nil, nil, nil, 0, 0},
	} {
		got, samples := quantile(c.before, c.after, c.bounds, lagQuantile)
		assert.InDelta(t, c.want, got, 10, name)
		assert.Equal(t, c.samples, samples, name)
	}
}

// Samples of four windows of 250 ms each on one CPU, in the buckets that had any. Those
// of eight that work until preempted are what the runtime recorded, the others are made
// up.
var recorded = map[string]struct {
	low, high []float64 // of the buckets, in seconds
	counts    []uint64
	least     time.Duration // the lag is at least this
	most      time.Duration // and at most this
}{
	"eight that work until preempted": {
		[]float64{2.56e-06, 0.168, 0.201, 0.235, 0.268}, []float64{3.07e-06, 0.201, 0.235, 0.268, 0.336},
		[]uint64{1, 1, 2, 2, 0}, 201 * time.Millisecond, 268 * time.Millisecond,
	},
	"the same, three samples": {
		[]float64{0.168, 0.201, 0.235}, []float64{0.201, 0.235, 0.268},
		[]uint64{1, 1, 1}, 168 * time.Millisecond, 201 * time.Millisecond,
	},
	"next to nothing to do, and one is late": {
		[]float64{1e-06, 3e-06, 0.134}, []float64{3e-06, 9e-06, 0.168},
		[]uint64{2, 1, 1}, 0, 9 * time.Microsecond,
	},
	"two are late of twelve": {
		[]float64{1e-06, 3e-06, 0.134}, []float64{3e-06, 9e-06, 0.168},
		[]uint64{7, 3, 2}, 0, 9 * time.Microsecond,
	},
	"two samples tell nothing": {
		[]float64{1e-06, 0.134}, []float64{3e-06, 0.168},
		[]uint64{0, 2}, 0, 0,
	},
}

func TestLagOfFewSamples(t *testing.T) {
	for name, c := range recorded {
		var bounds []float64
		var counts []uint64
		for i := range c.low {
			if k := len(bounds); k == 0 || bounds[k-1] != c.low[i] {
				if k > 0 {
					counts = append(counts, 0) // between two that had samples
				}
				bounds = append(bounds, c.low[i])
			}
			bounds, counts = append(bounds, c.high[i]), append(counts, c.counts[i])
		}
		lag, _ := lagOf(make([]uint64, len(counts)), counts, bounds)
		assert.True(t, c.least <= lag && lag <= c.most, "%s: %v", name, lag)
	}
}

// Few samples of the same rarely seem worse than they are: of a load of which just
// one in ten is late, nearly no window says so.
func TestFewSamplesAreNotBelievedTooSoon(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for n := leastSamples; n < enoughSamples; n++ {
		late := 0
		for range 2000 {
			counts := make([]uint64, 2)
			for range n {
				if rng.IntN(10) == 0 {
					counts[1]++
				} else {
					counts[0]++
				}
			}
			if lag, _ := lagOf(make([]uint64, 2), counts, []float64{0, 0.001, 0.1}); lag > time.Millisecond {
				late++
			}
		}
		assert.Less(t, late, 140, "%d samples", n)
	}
}

// This runtime has the histogram, and reading it again and again doesn't
// allocate.
func TestRuntimeHistogram(t *testing.T) {
	read := runtimeLag()
	counts, bounds := read()
	require.NotEmpty(t, counts)
	require.Len(t, bounds, len(counts)+1)
	before := append([]uint64(nil), counts...)
	for range 1000 {
		done := make(chan bool)
		go func() { done <- true }()
		<-done
		runtime.Gosched()
	}
	counts, bounds = read()
	_, samples := quantile(before, counts, bounds, lagQuantile)
	assert.NotZero(t, samples)
}

func TestRuntimeHistogramAllocatesNothing(t *testing.T) {
	read := runtimeLag()
	testnet.Allocs(t, 0, func() { read() })
}

func TestLevels(t *testing.T) {
	const ms = time.Millisecond
	type want struct {
		level Level
		open  uint32
	}
	for _, c := range []struct {
		why  string
		lags []time.Duration
		want want
	}{
		{"nothing yet", nil, want{Calm, 1024}},
		{"one window is no overload", []time.Duration{0, 30 * ms, 0, 200 * ms, 0}, want{Calm, 1024}},
		{"at the knee", []time.Duration{10 * ms, 10 * ms, 10 * ms}, want{Calm, 1024}},
		{"two windows above the knee", []time.Duration{11 * ms, 11 * ms}, want{Busy, 716}},
		{"further windows close further", []time.Duration{11 * ms, 11 * ms, 11 * ms, 11 * ms}, want{Busy, 350}},
		{"a trickle is left", append(make([]time.Duration, 0), repeat(40*ms, 50)...), want{Busy, 64}},
		{"a window below the knee opens", []time.Duration{11 * ms, 11 * ms, 9 * ms}, want{Busy, 818}},
		{"one below half of it isn't the end", []time.Duration{11 * ms, 11 * ms, 9 * ms, 9 * ms, 9 * ms, 4 * ms}, want{Busy, 1024}},
		{"nor is what is between", append([]time.Duration{11 * ms, 11 * ms}, repeat(6*ms, 50)...), want{Busy, 1024}},
		{"two are, once all is open", append([]time.Duration{11 * ms, 11 * ms}, repeat(5*ms, 4)...), want{Calm, 1024}},
		{"not before", append([]time.Duration{11 * ms, 11 * ms}, repeat(5*ms, 2)...), want{Busy, 920}},
		{"one window above the limit", []time.Duration{60 * ms, 40 * ms}, want{Busy, 716}},
		{"two above it", []time.Duration{60 * ms, 51 * ms}, want{Shedding, 0}},
		{"one good window doesn't stop that", []time.Duration{60 * ms, 60 * ms, 0, 30 * ms, 0}, want{Shedding, 0}},
		{"not low enough", append([]time.Duration{60 * ms, 60 * ms}, repeat(26*ms, 9)...), want{Shedding, 0}},
		{"two do", []time.Duration{60 * ms, 60 * ms, 25 * ms, 25 * ms}, want{Recovering, 256}},
		{"it opens", []time.Duration{60 * ms, 60 * ms, 0, 0, 0, 0}, want{Recovering, 460}},
		{"it closes", []time.Duration{60 * ms, 60 * ms, 0, 0, 20 * ms}, want{Recovering, 179}},
		{"and back", []time.Duration{60 * ms, 60 * ms, 0, 0, 60 * ms, 60 * ms}, want{Shedding, 0}},
		{"until all is open", append([]time.Duration{60 * ms, 60 * ms}, repeat(0, 10)...), want{Calm, 1024}},
		{"but not calm", append([]time.Duration{60 * ms, 60 * ms, 0, 0}, repeat(9*ms, 10)...), want{Busy, 1024}},
	} {
		s := lagState{open: openAll}
		for _, lag := range c.lags {
			s = s.step(lag, 10*ms, 50*ms)
			assert.Equal(t, lag, s.lag)
		}
		assert.Equal(t, c.want, want{s.level, s.open}, c.why)
	}
}

func repeat(d time.Duration, n int) (out []time.Duration) {
	for range n {
		out = append(out, d)
	}
	return out
}

// script is a histogram that a test writes.
type script struct {
	mu     sync.Mutex
	counts []uint64
}

func (s *script) read() ([]uint64, []float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]uint64(nil), s.counts...), []float64{0, 0.001, 0.020, 0.040, 0.080, math.Inf(1)}
}

// add adds n samples to a bucket.
func (s *script) add(bucket int, n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[bucket] += n
}

func TestLagIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{counts: []uint64{0, 0, 0, 1e6, 1e6}} // what was before
		o, err := newOverload(OverloadOptions{}, s.read)
		require.NoError(t, err)
		defer o.Close()
		window := func(bucket int, n uint64) Level {
			s.add(bucket, n)
			time.Sleep(DefaultLagWindow)
			synctest.Wait()
			return o.Stats().Level
		}
		assert.Equal(t, Calm, window(0, 1000))
		assert.Equal(t, Calm, window(1, 1000))
		assert.Equal(t, Busy, window(1, 50))
		assert.Equal(t, 18100*time.Microsecond, o.Stats().Lag)
		// Too few: the window goes on until it has enough.
		assert.Equal(t, Busy, window(3, 20))
		assert.Equal(t, Busy, window(3, 29))
		assert.Equal(t, 18100*time.Microsecond, o.Stats().Lag)
		assert.Equal(t, Busy, window(3, 1))
		assert.Equal(t, 76*time.Millisecond, o.Stats().Lag)
		// Or until four windows have passed.
		for range 3 {
			assert.Equal(t, Busy, window(3, 5))
		}
		assert.Equal(t, Shedding, window(3, 5))
		// When next to nothing runs, nothing is known, and nothing is shed.
		for i := range 4 {
			assert.Equal(t, Shedding, window(4, uint64(i%2)))
		}
		assert.Zero(t, o.Stats().Lag)
		for range 4 {
			window(4, 0)
		}
		assert.Equal(t, Recovering, o.Stats().Level)
		assert.Equal(t, 0.25, o.Stats().Open)
		o.Close()
		o.Close()
	})
}

// Without the lag there is no goroutine, and still something to close. A runtime
// that has no histogram is like one where nothing runs.
func TestLagOff(t *testing.T) {
	o, err := newOverload(OverloadOptions{LagKnee: -1}, func() ([]uint64, []float64) { panic("read") })
	require.NoError(t, err)
	o.Close()
	synctest.Test(t, func(t *testing.T) {
		o, err := newOverload(OverloadOptions{}, func() ([]uint64, []float64) { return nil, nil })
		require.NoError(t, err)
		time.Sleep(time.Hour)
		assert.Equal(t, Calm, o.Stats().Level)
		o.Close()
	})
}

func TestLevelNames(t *testing.T) {
	assert.Equal(t, []string{"calm", "busy", "recovering", "shedding", "unknown"},
		[]string{Calm.String(), Busy.String(), Recovering.String(), Shedding.String(), Level(9).String()})
	assert.Equal(t, []string{"unknown", "tenant", "operator", "probe", "invalid"},
		[]string{FromUnknown.String(), FromTenant.String(), FromOperator.String(), FromProbe.String(), Sender(9).String()})
}
