package admission

import "math/bits"

// window is what happened since the last look at the origin: times to the first
// byte in buckets that grow exponentially, sixteen for each doubling.
type window struct {
	since  int64 // when the first permit was issued in it
	begun  bool
	after  int64 // permits issued before tell of an older, higher ceiling
	peak   int64 // highest cost in use
	wanted bool  // a request found the ceiling in its way

	seen    int // answers with a time
	untimed int // and without
	failed  int

	counts [windowBuckets]uint32
}

const (
	windowBits    = 4
	windowBuckets = (64 - windowBits) << windowBits // for all of int64
)

// add counts a time in ns.
func (w *window) add(t int64) {
	w.seen++
	w.counts[bucketOf(uint64(max(t, 0)))]++
}

// bucketOf returns the bucket of a value: its magnitude and the four bits below
// its highest one.
func bucketOf(v uint64) int {
	shift := max(bits.Len64(v)-windowBits-1, 0)
	return shift<<windowBits + int(v>>shift)
}

// bucketFrom is the least value of a bucket.
func bucketFrom(i int) float64 {
	if i < 2<<windowBits {
		return float64(i)
	}
	shift := i>>windowBits - 1
	return float64(uint64(i-shift<<windowBits) << shift)
}

// median returns the median in ns. A few slow ones don't move it.
func (w *window) median() float64 {
	half, below := float64(w.seen)/2, 0.0
	for i, n := range &w.counts {
		if next := below + float64(n); n > 0 && next >= half {
			from, to := bucketFrom(i), bucketFrom(i+1)
			return from + (to-from)*(half-below)/float64(n)
		}
		below += float64(n)
	}
	return 0
}

// all is how many permits told something.
func (w *window) all() int { return w.seen + w.untimed + w.failed }

// restart begins a window.
func (w *window) restart(now, used int64) {
	*w = window{since: now, after: w.after, peak: used}
}
