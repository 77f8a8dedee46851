package testnet

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// otherTB is a test of another name that notes its failures.
type otherTB struct {
	fakeTB
	name string
}

func (n *otherTB) Name() string              { return n.name }
func (n *otherTB) Fatalf(s string, a ...any) { n.Errorf(s, a...) }

func TestAllocs(t *testing.T) {
	var sink *int
	calls := 0
	one := func() { sink = new(int); calls++ }
	_ = sink
	run := func(name string, most float64, race bool) []string {
		n, calls0 := &otherTB{name: name}, calls
		allocs(n, most, one, race, "one")
		if len(n.errors) == 0 {
			assert.GreaterOrEqual(t, calls-calls0, raceRuns)
		}
		return n.errors
	}
	assert.Empty(t, run("TestXAllocates/sub", 1, false))
	assert.Empty(t, run("TestXAllocates", 0, true))
	assert.Equal(t, []string{"testnet: TestX measures memory, but isn't named so: it would never be run without the race detector"},
		run("TestX/Alloc", 1, false))
	if !Race {
		assert.Equal(t, []string{"1 allocations a call, at most 0 wanted [one]"}, run("TestXAllocates", 0, false))
	}
}
