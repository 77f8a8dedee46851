package testnet

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// fakeTB collects what CheckLeaks registers and reports.
type fakeTB struct {
	testing.TB
	cleanups []func()
	errors   []string
}

func (f *fakeTB) Helper()                   {}
func (f *fakeTB) Cleanup(c func())          { f.cleanups = append(f.cleanups, c) }
func (f *fakeTB) Errorf(s string, a ...any) { f.errors = append(f.errors, fmt.Sprintf(s, a...)) }

func leakyFunction(started, stop chan struct{}) {
	close(started)
	<-stop
}

// leak leaves a goroutine behind, and returns when it runs and can be seen.
func leak(stop chan struct{}) {
	started := make(chan struct{})
	go leakyFunction(started, stop)
	<-started
}

func TestLeakedSeesWhatIsLeft(t *testing.T) {
	stop := make(chan struct{})
	before := goroutines()
	leak(stop)
	left := leaked(before, 20*time.Millisecond)
	if assert.Len(t, left, 1) {
		assert.Contains(t, left[0], "leakyFunction")
	}
	close(stop)
	assert.Empty(t, leaked(before, leakPatience))
}

func TestLeakedForgivesWhatWasThere(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	leak(stop)
	assert.Empty(t, leaked(goroutines(), 0))
}

// A goroutine that is just about to end is no leak.
func TestCheckLeaksIsPatient(t *testing.T) {
	f := &fakeTB{TB: t}
	CheckLeaks(f)
	stop := make(chan struct{})
	leak(stop)
	time.AfterFunc(50*time.Millisecond, func() { close(stop) })
	for _, c := range f.cleanups {
		c()
	}
	assert.Empty(t, f.errors)
}

func TestCheckLeaksReports(t *testing.T) {
	f := &fakeTB{TB: t}
	checkLeaks(f, 20*time.Millisecond)
	stop := make(chan struct{})
	defer close(stop)
	leak(stop)
	for _, c := range f.cleanups {
		c()
	}
	if assert.Len(t, f.errors, 1) {
		assert.Contains(t, f.errors[0], "1 goroutines left behind")
		assert.Contains(t, f.errors[0], "leakyFunction")
	}
}

func TestMainCheckCodes(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	leaving := func(code int) func() int {
		return func() int {
			leak(stop)
			return code
		}
	}
	assert.Equal(t, 0, mainCheck(func() int { return 0 }, 0))
	assert.Equal(t, 1, mainCheck(leaving(0), 0))
	assert.Equal(t, 2, mainCheck(leaving(2), 0), "the tests' own failure comes first")
}
