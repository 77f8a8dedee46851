package main

import (
	"math"
	"runtime"
	"runtime/debug"
)

// heapFloor is the heap below which the collector isn't worth its time. Go
// collects whenever the heap has doubled, but starts from 4 MiB: a proxy whose
// cache is nearly empty then collects dozens of times a second, which costs a
// tenth of each hit (docs/performance.md). A server that holds more than this
// anyway needs no floor.
const heapFloor = 16 << 20

// floorHeap makes the collector count heapFloor bytes more than there are, until
// the returned function is called. The bytes are never touched, so they take
// address space and no memory; what they cost is garbage that stays up to as
// much longer. Whoever sets GOMEMLIMIT, which would count them, has said what the
// heap should be, and there's no floor.
func floorHeap() (release func()) {
	if debug.SetMemoryLimit(-1) != math.MaxInt64 {
		return func() {}
	}
	floor := make([]byte, heapFloor)
	return func() { runtime.KeepAlive(floor) }
}
