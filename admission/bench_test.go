package admission

import (
	"strconv"
	"testing"
	"time"

	"github.com/weirhttp/weir/internal/testnet"
)

// handOff queues a request behind a full limiter and lets it be served.
func handOff(l *Limiter, held Permit, r Request) Permit {
	l.mu.Lock()
	w := l.enqueue(&r, l.place(&r), l.now(), time.Hour)
	l.mu.Unlock()
	held.Release()
	<-w.wake
	p, _ := l.recycle(w)
	return p
}

func TestAllocations(t *testing.T) {
	none := func(what string, f func()) {
		testnet.Allocs(t, 0, f, what)
	}
	l := newLimiter(t, Options{Limit: 1, Queue: 8, Routes: []Route{{Name: "a"}}})
	none("acquire and release", func() {
		p, _ := l.Acquire(background, Request{Route: 1, Tenant: "t"})
		p.Release()
	})
	p := mustTry(t, l, Request{})
	none("refusal", func() { l.TryAcquire(Request{Route: 1}) })
	none("hand-off", func() { p = handOff(l, p, Request{Route: 1, Tenant: "t"}) })
	names, i := []string{"a", "b", "c"}, 0
	none("hand-off between tenants", func() {
		i++
		p = handOff(l, p, Request{Tenant: names[i%3]})
	})
}

// Nobody waits.
func BenchmarkAcquireRelease(b *testing.B) {
	l := newLimiter(b, Options{Routes: []Route{{Name: "a", Limit: 100}}, ReserveCritical: 10, ReserveNormal: 10})
	b.ReportAllocs()
	for b.Loop() {
		p, _ := l.Acquire(background, Request{Route: 1, Tenant: "t"})
		p.Release()
	}
}

// Nobody waits; as many goroutines as there are CPUs.
func BenchmarkAcquireReleaseParallel(b *testing.B) {
	l := newLimiter(b, Options{Routes: []Route{{Name: "a"}}})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p, _ := l.Acquire(background, Request{Route: 1})
			p.Release()
		}
	})
}

func BenchmarkRefusal(b *testing.B) {
	l := newLimiter(b, Options{Limit: 1})
	p, _ := l.TryAcquire(Request{})
	defer p.Release()
	b.ReportAllocs()
	for b.Loop() {
		l.TryAcquire(Request{})
	}
}

// More goroutines than permits, so nearly each request queues. The cost of a
// hand-off grows with the logarithm of the tenants that wait.
func BenchmarkHandOff(b *testing.B) {
	for _, g := range []int{8, 64, 1024} {
		b.Run(strconv.Itoa(g), func(b *testing.B) {
			l := newLimiter(b, Options{Limit: 4, Queue: 2048, StandingAfter: -1, QueueTimeout: time.Hour})
			b.ReportAllocs()
			b.SetParallelism(g / 2)
			var names [16]string
			for i := range names {
				names[i] = strconv.Itoa(i)
			}
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					p, _ := l.Acquire(background, Request{Tenant: names[i%16]})
					p.Release()
				}
			})
		})
	}
}

// The bookkeeping of a hand-off alone, without waking a goroutine.
func BenchmarkHandOffBookkeeping(b *testing.B) {
	l := newLimiter(b, Options{Limit: 1, Queue: 8})
	p, _ := l.TryAcquire(Request{})
	b.ReportAllocs()
	for b.Loop() {
		p = handOff(l, p, Request{Tenant: "t"})
	}
	p.Release()
}

// A request of a tenant below the knee, of one that is shed, and of an unknown
// host that is shed.
func BenchmarkOverload(b *testing.B) {
	o := newGuard(b, OverloadOptions{Knee: 20, TenantFloor: 2})
	for _, c := range []struct {
		name string
		fill int
		a    Arrival
	}{{"enter and leave", 0, tenantOf("a")}, {"shed tenant", 20, tenantOf("a")}, {"shed unknown", 0, Arrival{}}} {
		fill(b, o, tenantOf("a"), c.fill)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				token, _ := o.Enter(c.a)
				token.Leave()
			}
		})
	}
}
