package admission

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// spinners keep all CPUs busy: each works for a while, and then lets others run. The
// while is short, or the runtime, which samples one in eight, has too few samples.
type spinners struct {
	stop atomic.Bool
	all  sync.WaitGroup
}

func (s *spinners) add(n int) {
	for range n {
		s.all.Go(func() {
			for !s.stop.Load() {
				for began := time.Now(); time.Since(began) < 200*time.Microsecond && !s.stop.Load(); {
				}
				runtime.Gosched()
			}
		})
	}
}

// judged is how many windows were.
func (o *Overload) judged() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.windows
}

// With the runtime's own histogram and a CPU that really has too much to do: the guard
// sheds tenants, and not the operator, and lets everyone in again after the end. How
// much is too much depends on the machine, so the load grows until that is seen.
func TestLagUnderLoad(t *testing.T) {
	const patience = 2 * time.Minute
	o, err := NewOverload(OverloadOptions{LagWindow: 20 * time.Millisecond})
	require.NoError(t, err)
	defer o.Close()
	enter := func(a Arrival) Reason {
		token, d := o.Enter(a)
		token.Leave()
		return d.Reason
	}
	assert.Equal(t, Admitted, enter(tenantOf("a")))

	var load spinners
	defer load.all.Wait()
	defer load.stop.Store(true)
	grown, count := uint64(0), 64*runtime.GOMAXPROCS(0)
	load.add(count)
	require.Eventually(t, func() bool {
		if enter(tenantOf("a")) == TenantsShed {
			return true
		}
		// It isn't enough yet, if three windows have seen all of it.
		if n := o.judged(); n >= grown+3 {
			load.add(count)
			grown, count = n, 2*count
		}
		return false
	}, patience, time.Millisecond)
	assert.Equal(t, Admitted, enter(Arrival{From: FromOperator}))
	assert.Equal(t, Admitted, enter(Arrival{From: FromProbe}))

	load.stop.Store(true)
	load.all.Wait()
	require.Eventually(t, func() bool {
		return enter(tenantOf("a")) == Admitted && enter(Arrival{}) == Admitted
	}, patience, time.Millisecond)
	s := o.Stats()
	assert.Zero(t, s.InFlight)
	assert.NotZero(t, s.Refused[TenantsShed])
}

// On a single CPU that is taken by goroutines which work until they're preempted the
// runtime has few samples, and they are enough.
func TestLagUnderLoadOnOneCPU(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	o, err := NewOverload(OverloadOptions{})
	require.NoError(t, err)
	defer o.Close()
	var stop atomic.Bool
	var all sync.WaitGroup
	defer all.Wait()
	defer stop.Store(true)
	for range 16 {
		all.Go(func() {
			for !stop.Load() {
			}
		})
	}
	require.Eventually(t, func() bool { return o.Stats().Level == Shedding }, 2*time.Minute, 50*time.Millisecond)
}
