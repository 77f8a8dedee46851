package admission

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCeilings(t *testing.T) {
	l := newLimiter(t, Options{Limit: 4, Routes: []Route{{Name: "search", Limit: 2}}})
	search, ok := l.Route("search")
	require.True(t, ok)
	_, ok = l.Route("other")
	require.False(t, ok)

	a := mustTry(t, l, Request{Route: search, Cost: 2})
	_, d := l.TryAcquire(Request{Route: search})
	assert.Equal(t, Decision{Reason: RouteFull, RetryAfter: time.Second}, d)
	b := mustTry(t, l, Request{Cost: 2})
	_, d = l.TryAcquire(Request{})
	assert.Equal(t, LimitFull, d.Reason)
	a.Release()
	// The route has room for two but all together only for one more: nothing is
	// taken of either.
	c := mustTry(t, l, Request{})
	_, d = l.TryAcquire(Request{Route: search, Cost: 2})
	assert.Equal(t, LimitFull, d.Reason)
	assert.Equal(t, Stats{
		Limit: 4, InUse: 3, Classes: [3]ClassStats{Normal: {InUse: 3}},
		Routes:   []RouteStats{{Name: "search", Limit: 2}},
		Admitted: 3, Refused: map[Reason]uint64{RouteFull: 1, LimitFull: 2},
	}, l.Stats())
	b.Release()
	c.Release()
	empty(t, l)
}

func TestReleaseTwice(t *testing.T) {
	l := newLimiter(t, Options{Limit: 2})
	Permit{}.Release()
	a := mustTry(t, l, Request{})
	again := a
	a.Release()
	a.Release()
	again.Release()
	assert.Zero(t, l.Stats().InUse)
	b := mustTry(t, l, Request{}) // in the slot that a had
	require.Equal(t, a.slot, b.slot)
	a.Release()
	assert.Equal(t, 1, l.Stats().InUse, "a late release of an old permit frees a new one")
	b.Release()
	empty(t, l)
}

// A request that costs more than there is runs alone instead of never.
func TestCostIsCut(t *testing.T) {
	l := newLimiter(t, Options{Limit: 10, ReserveCritical: 3, Routes: []Route{{Name: "r", Limit: 5, Cost: 2}}})
	for _, c := range []struct {
		r    Request
		want int
	}{
		{Request{}, 1},
		{Request{Cost: -5}, 1},
		{Request{Cost: 100}, 7},
		{Request{Cost: 100, Class: Critical}, 10},
		{Request{Cost: 100, Class: 200}, 7},
		{Request{Route: 1}, 2},
		{Request{Route: 1, Cost: 100}, 5},
		{Request{Route: 7, Cost: 3}, 3},
		{Request{Route: -1, Cost: 3}, 3},
	} {
		p := mustTry(t, l, c.r)
		assert.Equal(t, c.want, p.Cost(), "%+v", c.r)
		p.Release()
	}
}

func TestReserves(t *testing.T) {
	l := newLimiter(t, Options{Limit: 10, ReserveCritical: 3, ReserveNormal: 2})
	count := func(c Class) (n int) {
		for {
			if _, d := l.TryAcquire(Request{Class: c}); !d.OK() {
				return n
			}
			n++
		}
	}
	assert.Equal(t, 5, count(Background))
	assert.Equal(t, 2, count(Normal))
	assert.Equal(t, 3, count(Critical))
	assert.Equal(t, 10, l.Stats().InUse)
}

func TestQueueHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Options{Limit: 1, Queue: 8})
		p := mustTry(t, l, Request{})
		out := make(chan result, 4)
		for _, r := range []struct {
			name  string
			class Class
		}{{"background", Background}, {"normal 1", Normal}, {"normal 2", Normal}, {"critical", Critical}} {
			queueUp(background, l, r.name, Request{Class: r.class}, out)
			synctest.Wait()
		}
		_, d := l.TryAcquire(Request{Class: Critical})
		assert.Equal(t, LimitFull, d.Reason)
		time.Sleep(20 * time.Millisecond)
		for _, want := range []string{"critical", "normal 1", "normal 2", "background"} {
			p.Release()
			got := <-out
			assert.Equal(t, want, got.name)
			assert.Equal(t, Decision{Wait: 20 * time.Millisecond}, got.d)
			p = got.permit
		}
		p.Release()
		empty(t, l)
	})
}

func TestQueueBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Options{Limit: 2, Queue: 4, TenantQueue: 2,
			Routes: []Route{{Name: "slow", Limit: 1, Queue: 3}, {Name: "never", Limit: 1, Queue: -1}, {Name: "fast"}}})
		const slow, never, fast = 1, 2, 3
		p := mustTry(t, l, Request{Route: slow})
		out := make(chan result, 9)
		for range 2 {
			queueUp(background, l, "", Request{Route: slow, Tenant: "a"}, out)
		}
		synctest.Wait()
		_, d := l.Acquire(background, Request{Route: slow, Tenant: "a"})
		assert.Equal(t, TenantQueueFull, d.Reason)
		queueUp(background, l, "", Request{Route: slow, Tenant: "b"}, out)
		synctest.Wait()
		_, d = l.Acquire(background, Request{Route: slow, Tenant: "b"})
		assert.Equal(t, QueueFull, d.Reason)
		// A route's queue being full doesn't concern the others.
		q, d := l.Acquire(background, Request{Route: never})
		require.True(t, d.OK())
		_, d = l.Acquire(background, Request{Route: never})
		assert.Equal(t, RouteFull, d.Reason)
		queueUp(background, l, "", Request{Route: fast}, out)
		synctest.Wait()
		_, d = l.Acquire(background, Request{Route: fast})
		assert.Equal(t, QueueFull, d.Reason)
		// Another class has its own bound.
		queueUp(background, l, "critical", Request{Route: fast, Class: Critical}, out)
		synctest.Wait()
		q.Release()
		got := <-out
		assert.Equal(t, "critical", got.name)
		got.permit.Release()
		(<-out).permit.Release()
		// The queue is full of the slow route's, but there is room for a fast one.
		queueUp(background, l, "", Request{Route: slow}, out)
		synctest.Wait()
		assert.Equal(t, 3, l.Stats().Waiting)
		q, d = l.Acquire(background, Request{Route: fast})
		assert.True(t, d.OK())
		q.Release()
		assert.Equal(t, TenantQueueFull, (<-out).d.Reason, "the second of a made way for the newcomer")
		p.Release()
		for range 3 {
			(<-out).permit.Release()
		}
		empty(t, l)
	})
}

func TestQueueTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Options{Limit: 1, Routes: []Route{{Name: "quick", QueueTimeout: 30 * time.Millisecond}}})
		p := mustTry(t, l, Request{})
		_, d := l.Acquire(background, Request{})
		assert.Equal(t, Decision{QueueTimeout, time.Second, time.Second}, d)
		_, d = l.Acquire(background, Request{Route: 1})
		assert.Equal(t, 30*time.Millisecond, d.Wait)
		// A quarter of the time left.
		ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
		defer cancel()
		_, d = l.Acquire(ctx, Request{})
		assert.Equal(t, QueueTimeout, d.Reason)
		assert.Equal(t, 25*time.Millisecond, d.Wait)
		p.Release()
		empty(t, l)

		err := d.Err()
		assert.ErrorIs(t, err, ErrShed)
		var shed *ShedError
		assert.True(t, errors.As(err, &shed))
		assert.Equal(t, &ShedError{QueueTimeout, time.Second}, shed)
		assert.EqualError(t, err, "admission: refused: queue-timeout")
		assert.NoError(t, Decision{}.Err())
	})
}

// A client that goes away is out of the queue at once, and who it held up moves.
func TestClientGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Options{Limit: 4})
		p := mustTry(t, l, Request{Cost: 2})
		out := make(chan result, 2)
		ctx, cancel := context.WithCancel(background)
		queueUp(ctx, l, "wide", Request{Cost: 4}, out)
		synctest.Wait()
		queueUp(background, l, "narrow", Request{}, out)
		synctest.Wait()
		require.Equal(t, 2, l.Stats().Waiting, "the narrow one overtook")
		cancel()
		synctest.Wait()
		assert.Equal(t, 0, l.Stats().Waiting)
		for range 2 {
			got := <-out
			if got.name == "wide" {
				assert.Equal(t, Decision{Reason: ClientGone}, got.d)
			} else {
				assert.True(t, got.d.OK())
			}
			got.permit.Release()
		}
		_, d := l.Acquire(ctx, Request{})
		assert.Equal(t, Decision{Reason: ClientGone}, d)
		p.Release()
		empty(t, l)
	})
}

// A permit that is handed over to a client that goes away at the same time
// doesn't get lost.
func TestGoneWhileGranted(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, Options{Limit: 1})
			p := mustTry(t, l, Request{})
			out := make(chan result, 1)
			ctx, cancel := context.WithCancel(background)
			queueUp(ctx, l, "", Request{}, out)
			synctest.Wait()
			go cancel()
			go p.Release()
			got := <-out
			if !got.d.OK() {
				assert.Equal(t, ClientGone, got.d.Reason)
			}
			got.permit.Release()
			synctest.Wait()
			empty(t, l)
		})
	}
}

func TestStandingQueue(t *testing.T) {
	for _, fifo := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o := Options{Limit: 1, Queue: 8, StandingAfter: 100 * time.Millisecond, StandingTimeout: 50 * time.Millisecond}
			if fifo {
				o.StandingAfter = -1
			}
			l := newLimiter(t, o)
			p := mustTry(t, l, Request{})
			out := make(chan result, 8)
			for i := range 5 {
				queueUp(background, l, fmt.Sprint(i), Request{}, out)
				time.Sleep(30 * time.Millisecond)
			}
			// Ages: 150, 120, 90, 60 and 30 ms.
			p.Release()
			synctest.Wait()
			got := map[string]Reason{}
			for len(out) > 0 {
				r := <-out
				got[r.name] = r.d.Reason
				defer r.permit.Release()
			}
			if fifo {
				assert.Equal(t, map[string]Reason{"0": Admitted}, got)
			} else {
				assert.Equal(t, map[string]Reason{"0": QueueOverdue, "1": QueueOverdue,
					"2": QueueOverdue, "3": QueueOverdue, "4": Admitted}, got)
			}
			time.Sleep(2 * time.Second) // the rest run out of time
		})
	}
}

func TestRetryAfterGrowsAndShrinks(t *testing.T) {
	var r retryAfter
	second := int64(time.Second)
	for i := range 100 * 60 { // 100 a second
		r.refuse(int64(i) * second / 100)
	}
	assert.Equal(t, MaxRetryAfter, r.refuse(60*second))
	for i := range 60 { // one every 40 s
		d := r.refuse((100 + 40*int64(i)) * second)
		assert.GreaterOrEqual(t, d, time.Second)
	}
	assert.Equal(t, time.Second, r.value)
	r.value = MaxRetryAfter
	assert.Equal(t, time.Second, r.refuse(1e6*second), "all of it is long ago")
}

// A request on a route without a ceiling of its own, that costs nearly all there
// is, isn't overtaken by cheap ones of other routes for ever.
func TestWideRequestIsNotOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Options{Limit: 8, Routes: []Route{{Name: "a"}}})
		p := mustTry(t, l, Request{Route: 1})
		out := make(chan result, 1)
		queueUp(background, l, "wide", Request{Route: 1, Cost: 8}, out)
		synctest.Wait()
		_, d := l.TryAcquire(Request{})
		assert.Equal(t, LimitFull, d.Reason)
		p.Release()
		got := <-out
		assert.True(t, got.d.OK())
		got.permit.Release()
		empty(t, l)
	})
}
