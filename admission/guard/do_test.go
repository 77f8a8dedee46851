package guard

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// roomy is the tests' policy with rates that don't matter.
func roomy() Policy {
	p := policy()
	most := rate(1e6, 1e6)
	p.Global, p.Unknown, p.Address = most, rate(9e5, 1e6), rate(9e5, 1e6)
	p.Providers[0].Rate, p.Providers[1].Rate = most, most
	p.Providers[0].Classes[0].Rate, p.Providers[1].Classes[0].Rate = most, most
	p.Routes[0].Rate, p.Routes[0].Unknown = most, rate(9e5, 1e6)
	return p
}

func nothing(context.Context) error { return nil }

// why runs an operation and returns why it was refused.
func why(t *testing.T, ctx context.Context, operation string) Reason {
	t.Helper()
	err := Do(ctx, operation, nothing)
	if err == nil {
		return Admitted
	}
	var refused *RefusedError
	require.ErrorAs(t, err, &refused)
	require.ErrorIs(t, err, ErrRefused)
	assert.Equal(t, operation, refused.What)
	return refused.Reason
}

func TestDoReturnsWhatTheOperationReturns(t *testing.T) {
	g := newGuard(t, roomy())
	r := Request{Identity: bigSearch, Addr: at("192.0.2.1").Addr, Began: time.Now()}
	ctx := g.WithRequest(background, r)
	failed := errors.New("failed")
	err := Do(ctx, "search", func(inner context.Context) error {
		assert.Equal(t, ctx, inner)
		s := g.Stats()
		assert.Equal(t, 1, s.Work)
		assert.Equal(t, map[string]int{"big": 1}, s.Providers)
		return failed
	})
	assert.Equal(t, failed, err)
	assert.Zero(t, g.Stats().Work)
	got, ok := FromContext(ctx)
	assert.True(t, ok)
	assert.Equal(t, r, got)
	started, limit := Started(ctx)
	assert.Equal(t, []int{1, 4}, []int{started, limit})
}

func TestDoWithoutAGuard(t *testing.T) {
	called := false
	err := Do(background, "search", func(context.Context) error { called = true; return nil })
	assert.Equal(t, ErrNoGuard, err)
	assert.False(t, called)
	_, ok := FromContext(background)
	assert.False(t, ok)
	started, limit := Started(background)
	assert.Zero(t, started+limit)
}

func TestDoNeedsARouteOfThePolicy(t *testing.T) {
	g := newGuard(t, roomy())
	ctx := g.WithRequest(background, Request{})
	assert.Equal(t, NoRoute, why(t, ctx, "nope"))
	assert.Equal(t, NoRoute, why(t, ctx, ""))
	assert.Equal(t, Admitted, why(t, ctx, "page"))
}

func TestDoCountsOperationsOfARequest(t *testing.T) {
	g := newGuard(t, roomy())
	ctx := g.WithRequest(background, from(bigSearch))
	child, cancel := context.WithCancel(ctx)
	defer cancel()
	for i := range 4 {
		c := ctx
		if i%2 == 1 {
			c = child // of the same request
		}
		assert.Equal(t, Admitted, why(t, c, "search"))
	}
	left := lefts(g)
	err := Do(child, "search", nothing)
	assert.Equal(t, &RefusedError{"search", Operations, 0}, err)
	assert.LessOrEqual(t, left["global"], lefts(g)["global"], "a refusal debits nothing")
	assert.Equal(t, Admitted, why(t, g.WithRequest(background, from(bigSearch)), "search"), "another request")
}

func TestDoRefusesOldRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, roomy())
		ctx := g.WithRequest(background, Request{})
		time.Sleep(time.Second)
		assert.Equal(t, Admitted, why(t, ctx, "search"))
		time.Sleep(time.Nanosecond)
		assert.Equal(t, &RefusedError{"search", ContextAge, 0}, Do(ctx, "search", nothing))
		began := g.WithRequest(background, Request{Began: time.Now().Add(-time.Second)})
		assert.Equal(t, Admitted, why(t, began, "search"))
		time.Sleep(time.Nanosecond)
		assert.Equal(t, ContextAge, why(t, began, "search"))
		future := g.WithRequest(background, Request{Began: time.Now().Add(time.Hour)})
		time.Sleep(time.Second + 1)
		assert.Equal(t, ContextAge, why(t, future, "search"), "the future is now")
	})
}

// held starts an operation that runs until the returned function is called.
func held(t *testing.T, g *Guard, id Identity) (end func()) {
	t.Helper()
	running, stop, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		done <- Do(g.WithRequest(background, from(id)), "search", func(context.Context) error {
			close(running)
			<-stop
			return nil
		})
	}()
	select {
	case <-running:
	case err := <-done:
		require.NoError(t, err)
	}
	return sync.OnceFunc(func() { close(stop); require.NoError(t, <-done) })
}

func TestDoBoundsWhatRunsAtOnce(t *testing.T) {
	unknown := Identity{}
	for _, c := range []struct {
		name    string
		change  func(*Policy)
		running []Identity
		next    Identity
		want    Reason
	}{
		{"unknown", nil, []Identity{unknown, unknown}, unknown, WorkUnknown},
		{"unknown, and others may", nil, []Identity{unknown, unknown}, bigSearch, Admitted},
		{"a provider", nil, []Identity{bigSearch, bigImages, bigSearch}, bigImages, WorkProvider},
		{"a provider, and others may", nil, []Identity{bigSearch, bigImages, bigSearch}, smallOnly, Admitted},
		{"this process", nil, []Identity{bigSearch, bigSearch, bigSearch, unknown, unknown}, smallOnly, WorkLocal},
		{"all", func(p *Policy) { p.Work.Local = 6 }, []Identity{smallOnly, smallOnly, smallOnly, smallOnly, unknown, unknown}, bigSearch, WorkGlobal},
		{"a provider without a bound of its own", func(p *Policy) { p.Work.Local = 6 }, []Identity{smallOnly, smallOnly, smallOnly, smallOnly, smallOnly}, smallOnly, Admitted},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := roomy()
			if c.change != nil {
				c.change(&p)
			}
			g := newGuard(t, p)
			var ends []func()
			for _, id := range c.running {
				ends = append(ends, held(t, g, id))
			}
			ctx := g.WithRequest(background, from(c.next))
			left := g.buckets.Left(g.global)
			assert.Equal(t, c.want, why(t, ctx, "search"))
			if c.want != Admitted {
				started, _ := Started(ctx)
				assert.Zero(t, started, "a refusal doesn't count")
				assert.GreaterOrEqual(t, g.buckets.Left(g.global), left, "nor is it debited")
			}
			ends[0]()
			assert.Equal(t, Admitted, why(t, ctx, "search"), "one has ended")
			for _, end := range ends {
				end()
			}
			s := g.Stats()
			assert.Equal(t, []int{0, 0, 0}, []int{s.Work, s.Unknown, len(s.Providers)})
		})
	}
}

// Rates refuse operations too, and then nothing else counts.
func TestDoDebitsRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, policy())
		r := at("192.0.2.1")
		assert.Equal(t, Admitted, why(t, g.WithRequest(background, r), "search"))
		assert.True(t, g.Admit(r, "search").OK())
		ctx := g.WithRequest(background, r)
		assert.Equal(t, &RefusedError{"search", RateAddress, 3 * time.Second}, Do(ctx, "search", nothing))
		started, _ := Started(ctx)
		assert.Zero(t, started)
		assert.Zero(t, g.Stats().Work)
		assert.Equal(t, RateAddress, why(t, ctx, "page"))
	})
}

func TestDoAfterItsContextEnded(t *testing.T) {
	g := newGuard(t, roomy())
	ctx, cancel := context.WithCancel(g.WithRequest(background, Request{}))
	cancel()
	called := false
	assert.Equal(t, context.Canceled, Do(ctx, "search", func(context.Context) error { called = true; return nil }))
	assert.False(t, called)
	started, _ := Started(ctx)
	assert.Zero(t, started)
	assert.Empty(t, g.Stats().Decisions)
}

// A slot follows the work: it comes back when that ends, however it does, and not
// before.
func TestDoGivesTheSlotBackOnce(t *testing.T) {
	p := roomy()
	p.Operations = 100
	g := newGuard(t, p)
	ctx, cancel := context.WithCancel(g.WithRequest(background, Request{}))
	defer cancel()
	assert.PanicsWithValue(t, "boom", func() {
		_ = Do(ctx, "search", func(context.Context) error { panic("boom") })
	})
	assert.Zero(t, g.Stats().Work)
	assert.Panics(t, func() { _ = Do(ctx, "search", nil) })
	assert.Zero(t, g.Stats().Work)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = Do(ctx, "search", func(context.Context) error { runtime.Goexit(); return nil })
	}()
	<-done
	assert.Zero(t, g.Stats().Work)
	err := Do(ctx, "search", func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		assert.Equal(t, 1, g.Stats().Work, "cancelled, and still running")
		return ctx.Err()
	})
	assert.Equal(t, context.Canceled, err)
	assert.Zero(t, g.Stats().Work)
}

func TestDoInsideDo(t *testing.T) {
	g := newGuard(t, roomy())
	ctx := g.WithRequest(background, Request{})
	err := Do(ctx, "search", func(ctx context.Context) error {
		return Do(ctx, "page", func(ctx context.Context) error {
			return Do(ctx, "page", nothing)
		})
	})
	assert.Equal(t, &RefusedError{"page", WorkUnknown, time.Second}, err)
	assert.Zero(t, g.Stats().Work)
}

// A handler starts operations from several goroutines: exactly as many run as may.
func TestDoFromManyGoroutines(t *testing.T) {
	p := roomy()
	p.Work = Work{Global: 50, Unknown: 7, Local: 40}
	p.Providers[0].Work, p.Operations = 0, 20
	g := newGuard(t, p)
	ctx := g.WithRequest(background, from(bigSearch))
	var ran, refused atomic.Int64
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			switch err := Do(ctx, "search", func(context.Context) error { ran.Add(1); return nil }); {
			case errors.Is(err, ErrRefused):
				refused.Add(1)
			case err != nil:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	assert.Equal(t, []int64{20, 30}, []int64{ran.Load(), refused.Load()})
}

// Operations that run while policies change keep counting, also for a provider
// that is left out and comes back.
func TestReplaceCountsWhatRuns(t *testing.T) {
	g := newGuard(t, roomy())
	first, second := held(t, g, bigSearch), held(t, g, bigSearch)
	p := roomy()
	p.Version, p.Providers = 2, p.Providers[1:]
	require.NoError(t, g.Replace(p))
	s := g.Stats()
	assert.Equal(t, 2, s.Work)
	assert.Equal(t, map[string]int{"big": 2}, s.Providers)
	p = roomy()
	p.Version, p.Providers[0].Work = 3, 2
	require.NoError(t, g.Replace(p))
	ctx := g.WithRequest(background, from(bigImages))
	assert.Equal(t, WorkProvider, why(t, ctx, "search"))
	first()
	assert.Equal(t, Admitted, why(t, ctx, "search"))
	second()
	assert.Zero(t, g.Stats().Work)
	p.Version, p.Providers = 4, nil
	require.NoError(t, g.Replace(p))
	assert.Empty(t, g.work.providers)
}

// After its policy ended a known client's operations are an unknown client's.
func TestDoUnderAnExpiredPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := roomy()
		p.Expires = time.Now().Add(time.Second)
		g := newGuard(t, p)
		before := held(t, g, bigSearch)
		time.Sleep(time.Second)
		ends := []func(){held(t, g, bigSearch), held(t, g, smallOnly)}
		s := g.Stats()
		assert.Equal(t, 3, s.Work)
		assert.Equal(t, 2, s.Unknown)
		assert.Equal(t, WorkUnknown, why(t, g.WithRequest(background, from(bigSearch)), "search"))
		before()
		ends[0]()
		ends[1]()
		s = g.Stats()
		assert.Equal(t, []int{0, 0, 0}, []int{s.Work, s.Unknown, len(s.Providers)})
	})
}
