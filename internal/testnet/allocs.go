package testnet

import (
	"strings"
	"testing"
)

const (
	// allocRuns is how many calls an average is taken of, and raceRuns how many
	// are made when none is taken.
	allocRuns, raceRuns = 500, 10
	// allocTries is how often it may be taken: goroutines of earlier tests that
	// are still ending, and collections that empty the pools, can only add.
	allocTries = 5
)

// Allocs fails the test if f allocates more than most times a call. It calls f
// some hundred times, from one goroutine.
//
// Under the race detector f is called, but not counted: the detector allocates
// itself, and has pools drop what they are given. So that somebody counts,
// .ci/run repeats all tests with Alloc in their names without it; Allocs fails
// in a test that has another name.
func Allocs(t testing.TB, most float64, f func(), what ...any) {
	t.Helper()
	allocs(t, most, f, Race, what...)
}

func allocs(t testing.TB, most float64, f func(), race bool, what ...any) {
	t.Helper()
	if !named(t) {
		return
	}
	if race {
		for range raceRuns {
			f()
		}
		return
	}
	least := testing.AllocsPerRun(allocRuns, f)
	for try := 1; try < allocTries && least > most; try++ {
		least = min(least, testing.AllocsPerRun(allocRuns, f))
	}
	if least > most {
		t.Errorf("%v allocations a call, at most %v wanted %v", least, most, what)
	}
}

// WithoutRace leaves a test that measures memory to the run without the race
// detector; like one that calls [Allocs], it has to be named so.
func WithoutRace(t testing.TB) {
	t.Helper()
	if named(t) && Race {
		t.Skip("run again without the race detector")
	}
}

// named is whether a test is run again without the race detector, by its name.
func named(t testing.TB) bool {
	t.Helper()
	top, _, _ := strings.Cut(t.Name(), "/")
	if strings.Contains(top, "Alloc") {
		return true
	}
	t.Fatalf("testnet: %s measures memory, but isn't named so: it would never be run without the race detector", top)
	return false
}
