package admission

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

func TestClassesOutrank(t *testing.T) {
	order := []Class{Critical, Normal, Background}
	for i, c := range order {
		for j, d := range order {
			assert.Equal(t, i < j, c.Outranks(d), "%v %v", c, d)
		}
	}
	assert.False(t, Class(200).Outranks(Background))
	assert.False(t, Background.Outranks(Class(200)))
}

// claimUp lets a claim queue in a goroutine.
func claimUp(ctx context.Context, c *Claim, name string, out chan<- result) {
	go func() {
		p, d := c.Acquire(ctx)
		out <- result{name, p, d}
	}()
	synctest.Wait()
}

// A request that is raised while it waits takes what is reserved for its new class at
// once, and else goes before those of its old one.
func TestRaisedWhileQueued(t *testing.T) {
	for _, reserve := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, Options{Limit: 2, ReserveCritical: reserve, Queue: 8, TenantQueue: 8, Routes: []Route{{Name: "a"}}})
			var held []Permit
			for range 2 - reserve {
				held = append(held, mustTry(t, l, Request{}))
			}
			out := make(chan result, 3)
			queueUp(background, l, "before", Request{Route: 1}, out)
			synctest.Wait()
			c := l.Claim(Request{Route: 1, Class: Background, Tenant: "t"})
			claimUp(background, &c, "claim", out)
			time.Sleep(100 * time.Millisecond)
			c.Raise(Background)
			c.Raise(Class(200))
			assert.Equal(t, [3]int{Normal: 1, Background: 1}, waitingBy(l))
			c.Raise(Normal)
			assert.Equal(t, [3]int{Normal: 2}, waitingBy(l))
			assert.Empty(t, out)
			c.Raise(Critical)
			if reserve == 0 {
				assert.Equal(t, [3]int{Normal: 1, Critical: 1}, waitingBy(l))
				held[0].Release()
				held = held[1:]
			}
			got := <-out
			assert.Equal(t, "claim", got.name)
			assert.Equal(t, Decision{Wait: 100 * time.Millisecond}, got.d)
			assert.Equal(t, 1, l.Stats().Classes[Critical].InUse)
			c.Raise(Critical) // it's too late, and does nothing
			assert.Equal(t, [3]int{Normal: 1}, waitingBy(l))
			got.permit.Release()
			for _, p := range held {
				p.Release()
			}
			if reserve == 1 {
				assert.Equal(t, "before", (<-out).name)
			} else {
				(<-out).permit.Release()
				empty(t, l)
			}
		})
	}
}

func waitingBy(l *Limiter) (n [3]int) {
	for c, s := range l.Stats().Classes {
		n[c] = s.Waiting
	}
	return n
}

// One that is raised before it asks, asks in the higher class from the start.
func TestRaisedBeforeAcquire(t *testing.T) {
	l := newLimiter(t, Options{Limit: 2, ReserveCritical: 1, Queue: -1})
	p := mustTry(t, l, Request{})
	for _, c := range []struct {
		was, to Class
		want    Reason
	}{{Normal, Critical, Admitted}, {Normal, Normal, LimitFull}, {Critical, Background, Admitted}} {
		claim := l.Claim(Request{Class: c.was})
		claim.Raise(c.to)
		got, d := claim.Acquire(background)
		assert.Equal(t, c.want, d.Reason, "%v to %v", c.was, c.to)
		claim.Raise(Critical)
		got.Release()
	}
	p.Release()
	empty(t, l)
}

// Raising keeps the deadline, and a claim that was refused, or given up, can't be
// raised into the place of the request that has its waiter next.
func TestRaisedInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Options{Limit: 1, Queue: 8})
		p := mustTry(t, l, Request{})
		out := make(chan result, 1)
		c := l.Claim(Request{})
		claimUp(background, &c, "", out)
		time.Sleep(900 * time.Millisecond)
		c.Raise(Critical)
		assert.Equal(t, Decision{QueueTimeout, time.Second, time.Second}, (<-out).d)
		ctx, cancel := context.WithCancel(background)
		d := l.Claim(Request{})
		claimUp(ctx, &d, "", out)
		c.Raise(Critical)
		assert.Equal(t, [3]int{Normal: 1}, waitingBy(l))
		cancel()
		assert.Equal(t, ClientGone, (<-out).d.Reason)
		d.Raise(Critical)
		e := l.Claim(Request{})
		_, dec := e.Acquire(ctx)
		assert.Equal(t, ClientGone, dec.Reason)
		p.Release()
		empty(t, l)
	})
}

// Where as many of the class wait as may, a request stays where it is, unless it can
// go on at once; and it can be raised once there is a place again.
func TestRaisedIntoAFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Options{Limit: 4, ReserveCritical: 1, Queue: 1, Routes: []Route{{Name: "narrow", Limit: 1}, {Name: "wide"}}})
		narrow := mustTry(t, l, Request{Route: 1})
		held := []Permit{mustTry(t, l, Request{}), mustTry(t, l, Request{})}
		out := make(chan result, 3)
		queueUp(background, l, "critical", Request{Route: 1, Class: Critical}, out)
		synctest.Wait()
		c := l.Claim(Request{Route: 2})
		claimUp(background, &c, "wide", out)
		c.Raise(Critical) // what is in the queue waits for another route
		got := <-out
		assert.Equal(t, "wide", got.name)
		assert.True(t, got.d.OK())
		d := l.Claim(Request{Route: 2})
		claimUp(background, &d, "again", out)
		d.Raise(Critical) // the reserve is in use
		assert.Equal(t, [3]int{Normal: 1, Critical: 1}, waitingBy(l))
		narrow.Release()
		first := <-out
		assert.Equal(t, "critical", first.name)
		assert.Equal(t, [3]int{Normal: 1}, waitingBy(l), "%v", l.Stats())
		d.Raise(Critical)
		assert.Equal(t, [3]int{Critical: 1}, waitingBy(l))
		first.permit.Release()
		last := <-out
		assert.Equal(t, "again", last.name)
		for _, p := range append(held, got.permit, last.permit) {
			p.Release()
		}
		empty(t, l)
	})
}

// Many goroutines claim, raise each other's claims, give up and release at once: no
// ceiling is exceeded, nobody sleeps for ever and every count comes back to nothing.
func TestRaisingConcurrently(t *testing.T) {
	for seed := range 20 {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 12))
			l := newLimiter(t, randomOptions(rng))
			var mu sync.Mutex
			claims := make([]*Claim, 16)
			var ends, asked uint64
			var all sync.WaitGroup
			for g := range 24 {
				all.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(seed), uint64(g)))
					for range 60 {
						if rng.IntN(3) > 0 {
							mu.Lock()
							c := claims[rng.IntN(len(claims))]
							mu.Unlock()
							if c != nil {
								c.Raise(Class(rng.IntN(classes)))
							}
							continue
						}
						c := l.Claim(randomRequest(rng))
						mu.Lock()
						claims[rng.IntN(len(claims))] = &c
						asked++
						mu.Unlock()
						ctx, cancel := background, func() {}
						if rng.IntN(3) == 0 {
							ctx, cancel = contextFor(time.Duration(rng.IntN(60)) * time.Millisecond)
						}
						permit, d := c.Acquire(ctx)
						cancel()
						if !d.OK() {
							assert.Zero(t, permit)
							continue
						}
						s := l.Stats()
						assert.LessOrEqual(t, s.InUse, s.Limit)
						for _, r := range s.Routes {
							assert.LessOrEqual(t, r.InUse, r.Limit)
						}
						time.Sleep(time.Duration(rng.IntN(4)) * time.Millisecond)
						permit.Release()
					}
				})
			}
			all.Wait()
			s := l.Stats()
			ends = s.Admitted
			for _, n := range s.Refused {
				ends += n
			}
			require.Equal(t, asked, ends, "each is counted once")
			empty(t, l)
		})
	}
}

func TestRaisingAllocatesNothing(t *testing.T) {
	l := newLimiter(t, Options{Limit: 1, Queue: 8})
	p := mustTry(t, l, Request{})
	r := Request{Tenant: "t", Class: Background}
	raised := func() {
		c := &Claim{l: l, request: r}
		l.mu.Lock()
		w := l.enqueue(&r, l.place(&r), l.now(), time.Hour)
		c.waiter, w.claim = w, c
		l.mu.Unlock()
		c.Raise(Normal)
		c.Raise(Critical)
		p.Release()
		<-w.wake
		p, _ = l.recycle(w)
	}
	raised()
	testnet.Allocs(t, 1, raised, "the claim itself")
}
