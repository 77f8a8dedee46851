package admission

import (
	"runtime/metrics"
	"time"
)

// schedLatencies is the runtime's histogram of how long goroutines were ready to
// run before they ran. It is cumulative: only the change between two readings
// says how it is now. Tickers that are late, and the delay of fresh goroutines,
// show next to nothing, since the scheduler prefers both.
const schedLatencies = "/sched/latencies:seconds"

// lagReader reads the histogram. What it returns is valid until the next call.
type lagReader func() (counts []uint64, bounds []float64)

// runtimeLag reads the runtime's histogram without allocating after the first
// time. If this runtime has none, it reads nothing.
func runtimeLag() lagReader {
	sample := []metrics.Sample{{Name: schedLatencies}}
	return func() ([]uint64, []float64) {
		metrics.Read(sample)
		if sample[0].Value.Kind() != metrics.KindFloat64Histogram {
			return nil, nil
		}
		h := sample[0].Value.Float64Histogram()
		return h.Counts, h.Buckets
	}
}

// watchLag judges window after window until the guard is closed. It is a
// goroutine of its own, not something that requests do in passing: that would
// cost each of them a look at the clock, and there would be no windows while no
// requests come. If it is late itself, its window is longer, and no less true.
func (o *Overload) watchLag(read lagReader) {
	defer close(o.done)
	tick := time.NewTicker(o.config.lagWindow)
	defer tick.Stop()
	counts, _ := read()
	before := append([]uint64(nil), counts...)
	since := time.Now()
	for {
		select {
		case <-o.stop:
			return
		case <-tick.C:
		}
		counts, bounds := read()
		lag, samples := lagOf(before, counts, bounds)
		if !ripe(time.Since(since), o.config.lagWindow, samples) {
			continue
		}
		o.tellLag(lag)
		before = append(before[:0], counts...)
		since = time.Now()
	}
}

// tellLag takes a window's lag into account.
func (o *Overload) tellLag(lag time.Duration) {
	o.mu.Lock()
	o.lag = o.lag.step(lag, o.config.lagKnee, o.config.lagLimit)
	o.windows++
	o.mu.Unlock()
}
