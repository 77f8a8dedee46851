package flight

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// part is one request's part in a flight.
type part struct {
	f       *Flight[int]
	arrived bool
}

// modelled is what a flight should be.
type modelled struct {
	f                            *Flight[int]
	value                        int
	parts                        []*part
	verdict                      Verdict
	closed, finished, doomed     bool
	solo, purged                 bool
	keep                         Keep
	cancelled, arrivals, pending int
	allArrived                   int
}

func (m *modelled) joinable() bool {
	return !m.solo && !m.closed && !m.finished && !m.purged && m.verdict != Released
}

// settle does what the flight should do by itself.
func (m *modelled) settle() {
	if m.verdict != 0 && m.pending == 0 && m.allArrived == 0 {
		m.allArrived = 1
	}
	if len(m.parts) == 0 && m.keep == KeepNot && !m.finished && !m.closed {
		m.closed = true
	}
}

// Random programs against a simple model: who joins whom, the counts, when the
// body's beginning may go, when a fetch is cancelled.
func TestGroupPrograms(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runGroup(t, rand.New(rand.NewPCG(seed, 5))) })
		if t.Failed() {
			return
		}
	}
}

func runGroup(t *testing.T, rnd *rand.Rand) {
	var g Group[int]
	var flights []*modelled
	pick := func() *modelled { return flights[rnd.IntN(len(flights))] }
	for step := range 150 {
		if len(flights) == 0 || rnd.IntN(3) == 0 {
			k := Key{Primary: digest(rnd.IntN(2)), Variant: digest(rnd.IntN(2))}
			var want *modelled
			for _, m := range flights {
				if m.f.key == k && m.joinable() {
					want = m
				}
			}
			var f *Flight[int]
			role := Leader
			solo := rnd.IntN(5) == 0
			if solo {
				f, want = g.Solo(k, 0), nil
			} else {
				f, role = g.Claim(k, 0, t0)
			}
			if want == nil {
				require.Equal(t, Leader, role, "step %d", step)
				m := &modelled{f: f, solo: solo}
				f.OnAbandon(func(error) { m.cancelled++ })
				flights = append(flights, m)
				want = m
			} else {
				require.Equal(t, Waiter, role, "step %d", step)
				require.Same(t, want.f, f)
				if want.verdict != 0 {
					want.pending++
				}
			}
			want.parts = append(want.parts, &part{f: f})
			continue
		}
		m := pick()
		act(rnd, &g, m, flights, step)
		m.settle()
		compare(t, &g, flights, step)
	}
	for _, m := range flights {
		m.f.Finish(0)
	}
	require.Zero(t, g.Flights())
	for i := range g.shards {
		require.Empty(t, g.shards[i].open)
		require.Empty(t, g.shards[i].all)
	}
}

// act does something with one flight and in the model.
func act(rnd *rand.Rand, g *Group[int], m *modelled, flights []*modelled, step int) {
	decide := func(v Verdict) {
		if m.verdict == 0 {
			m.verdict, m.value, m.pending = v, step, len(m.parts)
		}
	}
	switch rnd.IntN(7) {
	case 0:
		v := Verdict(1 + rnd.IntN(2))
		m.f.Decide(v, step, func() { m.arrivals++ })
		decide(v)
	case 1:
		if m.verdict == 0 {
			m.allArrived, m.arrivals = 1, 1 // Finish asks for no call
		}
		m.f.Finish(step)
		decide(Released)
		m.finished = true
	case 2:
		m.keep = Keep(rnd.IntN(3))
		m.f.SetKeep(m.keep)
	case 3:
		if rnd.IntN(4) == 0 {
			for _, o := range flights {
				if o.f.key.Primary == m.f.key.Primary && !o.finished {
					o.purged, o.doomed = true, true
				}
			}
			g.Forget(m.f.key.Primary)
		}
	default:
		if len(m.parts) == 0 {
			return
		}
		i := rnd.IntN(len(m.parts))
		if p := m.parts[i]; m.verdict != 0 && !p.arrived && rnd.IntN(2) == 0 {
			p.arrived = true
			m.pending--
			m.f.Arrive()
		} else {
			m.parts = append(m.parts[:i], m.parts[i+1:]...)
			if m.verdict != 0 && !p.arrived {
				m.pending--
			}
			m.f.Leave(p.arrived)
		}
	}
}

func compare(t *testing.T, g *Group[int], flights []*modelled, step int) {
	listed := 0
	for i, m := range flights {
		decided, value := Verdict(0), 0
		select {
		case <-m.f.Decided():
			decided, value = m.f.Result()
		default:
		}
		got := []any{m.f.Attached(), m.f.pending, m.arrivals, m.f.Doomed(), m.cancelled > 0, decided, value}
		want := []any{len(m.parts), m.pending, m.allArrived, m.doomed, m.closed, m.verdict, m.value}
		if !slices.Equal(got, want) {
			t.Fatalf("step %d, flight %d: attached, pending, all arrived, doomed, cancelled, verdict, value are\n%v, should be\n%v",
				step, i, got, want)
		}
		if !m.finished && !m.purged {
			listed++
		}
	}
	if n := g.Flights(); n != listed {
		t.Fatalf("step %d: %d flights are listed, not %d", step, n, listed)
	}
}

// Everything at once: at no time are there two leaders for a key whose flight
// can be joined, and nothing is left in the end.
func TestGroupInParallel(t *testing.T) {
	var g Group[int]
	var leading [4]atomic.Int32
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 9))
			for range 2000 {
				n := rnd.IntN(len(leading))
				if rnd.IntN(50) == 0 {
					g.Remember(named(n), 1, time.Now().Add(time.Millisecond))
					g.Forget(digest(100 + n))
				}
				f, role := g.Claim(named(n), 0, time.Now())
				if role == Leader {
					if leading[n].Add(1) != 1 {
						t.Error("two leaders at once")
					}
					f.OnAbandon(func(error) {})
					runtime.Gosched()
					leading[n].Add(-1)
					f.Decide(Shared, n, nil)
					f.Finish(0)
				}
				<-f.Decided()
				if v, value := f.Result(); v == Shared && value != n {
					t.Errorf("value %d for key %d", value, n)
				}
				arrived := rnd.IntN(2) == 0
				if arrived {
					f.Arrive()
				}
				f.Leave(arrived)
			}
		})
	}
	wg.Wait()
	assert.Zero(t, g.Flights())
}

// Forget against Claim and Finish: a flight that began before Forget returned
// is doomed, and nobody who claims afterwards joins it.
func TestForgetRaces(t *testing.T) {
	var g Group[int]
	k := named(1)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 3000 {
				f, role := g.Claim(k, 0, t0)
				if role == Leader {
					f.Decide(Shared, 0, nil)
					runtime.Gosched()
					f.Finish(0)
				} else {
					<-f.Decided()
				}
				f.Leave(false)
			}
		})
	}
	wg.Go(func() {
		for range 2000 {
			f, role := g.Claim(k, 0, t0)
			g.Forget(k.Primary)
			if role == Leader && !f.Doomed() {
				t.Error("a flight that was under way isn't doomed")
			}
			again, _ := g.Claim(k, 0, t0)
			if again == f {
				t.Error("joined a purged flight")
			}
			again.Leave(false)
			f.Leave(false)
			again.Finish(0)
			if role == Leader {
				f.Finish(0)
			}
		}
	})
	wg.Wait()
	assert.Zero(t, g.Flights())
}

// Two shards don't share a cache line.
func TestShardSize(t *testing.T) {
	assert.Zero(t, unsafe.Sizeof(shard[int]{})%64)
}
