package store

import (
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// stored is an object as a fetch makes it.
func stored(primary, k Key, size int, names []string, selecting string) *Object {
	h := http.Header{
		"Content-Type": {"text/html; charset=utf-8"}, "Cache-Control": {"public, max-age=300"},
		"Date": {"Mon, 02 Jan 2006 15:04:05 GMT"}, "Etag": {`"5f3c2b1a-400"`}, "Server": {"origin"},
	}
	o := &Object{
		Key: k, Primary: primary, Status: 200, Header: EncodeBlock(h), Body: make([]byte, size),
		VaryNames: names, Selecting: selecting, RequestedAt: time.Now(), Length: strconv.Itoa(size),
	}
	o.SetMemo(&Memo{Age: 12, AgeText: strconv.Itoa(12), CacheStatus: "weir; hit; ttl=288; " + strconv.Itoa(size)})
	return o
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// heapPerObject puts n objects into a store large enough and returns what one
// takes of the heap, and what the store believes.
func heapPerObject(t testing.TB, n, size int, vary bool) (heap, weight float64) {
	s := newStore(t, Options{MemoryBytes: 4 << 30})
	before := liveHeap()
	for i := range n {
		var o *Object
		if k := key(i); vary {
			o = stored(key(n+i), k, size, []string{"accept-encoding"}, "accept-encoding:1:2:br"+strconv.Itoa(i%10))
		} else {
			o = stored(k, k, size, nil, "")
		}
		require.Equal(t, Kept, s.Put(o))
	}
	st := s.Stats().Memory
	heap = float64(liveHeap()-before) / float64(n)
	runtime.KeepAlive(s)
	return heap, float64(st.Bytes) / float64(n)
}

// Weight is what an object costs: the bound on memory is of no use if it isn't.
func TestWeightIsWhatIsAllocated(t *testing.T) {
	testnet.WithoutRace(t)
	for _, tt := range []struct {
		n, size int
		vary    bool
		off     float64 // share by which it may be wrong
	}{
		{50_000, 1 << 10, false, 0.10},
		{50_000, 1 << 10, true, 0.15}, // an index for each
		{50_000, 0, false, 0.15},      // nothing but overhead
		{10_000, 5000, false, 0.10},
		{2_000, 40_000, false, 0.10},
	} {
		t.Run(fmt.Sprintf("%d objects of %d bytes, vary %v", tt.n, tt.size, tt.vary), func(t *testing.T) {
			heap, weight := heapPerObject(t, tt.n, tt.size, tt.vary)
			t.Logf("heap %.0f bytes, weight %.0f: %+.1f %%", heap, weight, 100*(weight-heap)/heap)
			assert.InDelta(t, 1, weight/heap, tt.off)
		})
	}
}

// What varies is the number of objects of 1 KiB. Expected: heap and weight for
// each differ by a tenth at most, whatever the number.
func BenchmarkHeapPerObject(b *testing.B) {
	for _, n := range []int{70_000, 100_000, 200_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			var heap, weight float64
			for b.Loop() {
				heap, weight = heapPerObject(b, n, 1<<10, false)
			}
			b.ReportMetric(heap, "heap-B/object")
			b.ReportMetric(weight, "weight-B/object")
		})
	}
}

func TestFootprintFollowsTheRuntime(t *testing.T) {
	for n := range 100_000 {
		if n%101 > 0 && n > 1100 {
			continue
		}
		real := int64(0)
		if n > 0 {
			real = int64(cap(append([]byte(nil), make([]byte, n)...)))
		}
		got := footprint(n)
		if got < int64(n) || float64(got) > 1.15*float64(real)+8 || float64(real) > 1.15*float64(got)+8 {
			t.Errorf("%d bytes take %d, footprint says %d", n, real, got)
		}
	}
}
