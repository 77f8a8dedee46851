package benchmarks

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/weirhttp/weir/admission"
)

var ctx = context.Background()

func newLimiter(b *testing.B, limit int) *admission.Limiter {
	l, err := admission.New(admission.Options{
		Limit: limit, Queue: 4096, TenantQueue: 4096, QueueTimeout: time.Hour, StandingAfter: -1,
		Routes: []admission.Route{{Name: "a"}},
	})
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// Nobody waits.
func BenchmarkAcquireRelease(b *testing.B) {
	b.Run("weir", func(b *testing.B) {
		l := newLimiter(b, 100)
		b.ReportAllocs()
		for b.Loop() {
			p, _ := l.Acquire(ctx, admission.Request{Route: 1, Tenant: "t"})
			p.Release()
		}
	})
	b.Run("semaphore", func(b *testing.B) {
		s := semaphore.NewWeighted(100)
		b.ReportAllocs()
		for b.Loop() {
			_ = s.Acquire(ctx, 1)
			s.Release(1)
		}
	})
	b.Run("failsafe bulkhead", func(b *testing.B) {
		l := bulkhead.New[any](100)
		b.ReportAllocs()
		for b.Loop() {
			_ = l.AcquirePermit(ctx)
			l.ReleasePermit()
		}
	})
	b.Run("failsafe adaptive", func(b *testing.B) {
		l := adaptivelimiter.NewBuilder[any]().WithLimits(1, 200, 100).Build()
		b.ReportAllocs()
		for b.Loop() {
			if p, err := l.AcquirePermit(ctx); err == nil {
				p.Record()
			}
		}
	})
	b.Run("weir adaptive", func(b *testing.B) {
		l, err := admission.New(admission.Options{Limit: 200, Adaptive: &admission.Adaptive{}})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			p, _ := l.Acquire(ctx, admission.Request{})
			p.FirstByte()
			p.Release()
		}
	})
}

// It's full.
func BenchmarkRefusal(b *testing.B) {
	b.Run("weir", func(b *testing.B) {
		l := newLimiter(b, 1)
		p, _ := l.TryAcquire(admission.Request{})
		defer p.Release()
		b.ReportAllocs()
		for b.Loop() {
			l.TryAcquire(admission.Request{})
		}
	})
	b.Run("semaphore", func(b *testing.B) {
		s := semaphore.NewWeighted(1)
		s.TryAcquire(1)
		b.ReportAllocs()
		for b.Loop() {
			s.TryAcquire(1)
		}
	})
	b.Run("failsafe bulkhead", func(b *testing.B) {
		l := bulkhead.New[any](1)
		l.TryAcquirePermit()
		b.ReportAllocs()
		for b.Loop() {
			l.TryAcquirePermit()
		}
	})
}

// Four at once, and more goroutines than that, so nearly each one queues.
func BenchmarkHandOff(b *testing.B) {
	for _, goroutines := range []int{8, 64, 1024} {
		run := func(name string, f func()) {
			b.Run(name+"/"+strconv.Itoa(goroutines), func(b *testing.B) {
				b.ReportAllocs()
				b.SetParallelism(goroutines / 2)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						f()
					}
				})
			})
		}
		l := newLimiter(b, 4)
		run("weir", func() {
			p, _ := l.Acquire(ctx, admission.Request{Tenant: "t"})
			p.Release()
		})
		s := semaphore.NewWeighted(4)
		run("semaphore", func() {
			_ = s.Acquire(ctx, 1)
			s.Release(1)
		})
		h := bulkhead.New[any](4)
		run("failsafe bulkhead", func() {
			_ = h.AcquirePermit(ctx)
			h.ReleasePermit()
		})
	}
}

// The rate is exceeded, so some are refused.
func BenchmarkRate(b *testing.B) {
	b.Run("weir", func(b *testing.B) {
		var s admission.Buckets
		bucket, err := s.Bucket(admission.Rate{PerSecond: 1e6, Burst: 1e6}, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			s.Take(1, bucket)
		}
	})
	b.Run("x-time", func(b *testing.B) {
		l := rate.NewLimiter(1e6, 1e6)
		b.ReportAllocs()
		for b.Loop() {
			l.Allow()
		}
	})
	b.Run("failsafe smooth", func(b *testing.B) {
		l := ratelimiter.NewSmooth[any](1e6, time.Second)
		b.ReportAllocs()
		for b.Loop() {
			l.TryAcquirePermit()
		}
	})
}
