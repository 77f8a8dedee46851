package lb

import (
	"fmt"
	"testing"
	"time"
)

// The state of an origin, as it is as a rule, in slow start, and ejected: none
// should take 10 ns.
func BenchmarkConditionState(b *testing.B) {
	for _, name := range []string{"healthy", "slow-start", "ejected"} {
		b.Run(name, func(b *testing.B) {
			w := newWard(b, healthConfig{slowStart: time.Minute}, 3)
			if name != "healthy" {
				w.failTimes(0, 5)
			}
			if name == "slow-start" {
				w.time += 45 * time.Second
			}
			c, now := w.conds[0], w.time
			b.ReportAllocs()
			for b.Loop() {
				c.state(now)
			}
		})
	}
}

// A request's begin and report, by how it ends and how many run at once. A failure
// takes the pool's lock; that it doesn't grow with the pool shows that the pool is
// looked at only now and then.
func BenchmarkConditionRequest(b *testing.B) {
	for _, kind := range []outcomeKind{succeeded, failed} {
		for _, n := range []int{3, 256} {
			name := fmt.Sprintf("%s/origins=%d", map[outcomeKind]string{succeeded: "success", failed: "failure"}[kind], n)
			b.Run(name, func(b *testing.B) {
				w := newWard(b, healthConfig{}, n)
				for i := range n { // all fail: nothing can be ejected
					if kind == failed {
						w.failTimes(i, 4)
					}
				}
				now := w.time // reading the clock would cost more than the rest
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						token, _ := w.conds[0].begin(now)
						w.conds[0].report(token, outcome{kind: kind}, now)
					}
				})
			})
		}
	}
}
