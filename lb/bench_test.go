package lb

import (
	"net/http"
	"testing"
	"time"
)

// benchCall is a call's whole way but for the transport.
func benchCall(b *testing.B, policy Policy, origins int) {
	p := plainPool("p")
	for range origins {
		p.Origins = append(p.Origins, Origin{ID: string(rune('A' + len(p.Origins))), Address: "127.0.0.1:1"})
	}
	p.Policy = policy
	lbal, err := New(Options{Pools: []Pool{p}})
	if err != nil {
		b.Fatal(err)
	}
	req := mustRequest("GET", "http://shop.test/products/1")
	b.ReportAllocs()
	for b.Loop() {
		lbal.enter()
		c := &call{b: lbal, req: req, host: hostOf(req)}
		c.tried = c.triedBuf[:0]
		l, err := c.start()
		if err != nil {
			b.Fatal(err)
		}
		l.res = &http.Response{StatusCode: 200}
		l.headAt = lbal.clock()
		l.server.entry.load.latency.observe(time.Millisecond, l.start)
		l.end(nil)
		c.done()
	}
}

// BenchmarkCall is what a request costs besides its transport: the plan, the
// reservation, the report. It should grow with the origins for least-connections
// and hashes only.
func BenchmarkCall(b *testing.B) {
	for _, p := range []Policy{RoundRobin, LeastConnections, HashPath} {
		for _, n := range []int{3, 50} {
			b.Run(string(p)+"/"+string(rune('0'+n/10))+string(rune('0'+n%10)), func(b *testing.B) { benchCall(b, p, n) })
		}
	}
}
