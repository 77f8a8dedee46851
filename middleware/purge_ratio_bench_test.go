package middleware

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/purge"
)

// BenchmarkHitRatioBesidePurges compares hits beside 4,096 live purges of a kind with
// hits beside none, in short slices in turn, so that what else the machine does meets
// both alike. One operation is a pair of slices: run it with -benchtime 400x. What
// counts is ratio, the median time of the former by that of the latter; low, middle and
// high are the quartiles of the pairs' own ratios. "none" against none shows the noise.
//
// While purging, both sides purge once every hundred hits, so that each has to look
// again at what is stored.
func BenchmarkHitRatioBesidePurges(b *testing.B) {
	all := selectors{"all kinds", func(i int) purge.Selector { return besides[i%len(besides)].make(i / len(besides)) }}
	kinds := append(slices.Clone(besides), all)
	for _, way := range []struct {
		name string
		hits int // in a slice
		hit  func(b *testing.B, h http.Handler, r *http.Request, w *reusable) func()
	}{{"in process", 1000, inProcess}, {"loopback", 100, overLoopback}} {
		for _, purging := range []bool{false, true} {
			state := map[bool]string{false: "still", true: "purging"}[purging]
			none := besides[4].make
			b.Run(fmt.Sprint(way.name, "/", state, "/none"), func(b *testing.B) {
				ratio(b, way.hits, newSide(b, way.hit, 0, none, purging), newSide(b, way.hit, 0, none, purging))
			})
			for _, c := range kinds {
				n := 4096
				if c.name == all.name {
					n *= len(besides)
				}
				b.Run(fmt.Sprint(way.name, "/", state, "/", c.name), func(b *testing.B) {
					ratio(b, way.hits, newSide(b, way.hit, 0, c.make, purging), newSide(b, way.hit, n, c.make, purging))
				})
			}
		}
	}
}

// newSide returns what makes the i-th hit beside n purges.
func newSide(b *testing.B, way func(*testing.B, http.Handler, *http.Request, *reusable) func(), n int, selector func(int) purge.Selector, purging bool) func(i int) {
	h, r, w := taggedHitWith(b, purge.Options{MaxTombstones: max(n, 1)})
	mw := h.(*handler).Middleware
	again := func(i int) {
		if _, err := mw.Purge(context.Background(), selector(i)); err != nil {
			b.Fatal(err)
		}
	}
	for i := range n {
		again(i)
	}
	require.Zero(b, mw.purges.list.Stats().Folded)
	hit := way(b, h, r, w)
	return func(i int) {
		if purging && i%100 == 0 {
			again(i / 100 % max(n, 1))
		}
		hit()
	}
}

// ratio compares two sides.
func ratio(b *testing.B, hits int, bare, beside func(i int)) {
	slice := func(hit func(i int)) float64 {
		began := time.Now()
		for i := range hits {
			hit(i)
		}
		return float64(time.Since(began)) / float64(hits)
	}
	slice(bare)
	slice(beside)
	var one, other, pairs []float64
	for first := true; b.Loop(); first = !first {
		var x, y float64
		if first {
			x, y = slice(bare), slice(beside)
		} else {
			y, x = slice(beside), slice(bare)
		}
		one, other, pairs = append(one, x), append(other, y), append(pairs, y/x)
	}
	for _, s := range [][]float64{one, other, pairs} {
		slices.Sort(s)
	}
	n := len(pairs)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(one[n/2], "bare-ns")
	b.ReportMetric(other[n/2]/one[n/2], "ratio")
	b.ReportMetric(pairs[n/2], "middle")
	b.ReportMetric(pairs[n/4], "low")
	b.ReportMetric(pairs[n-1-n/4], "high")
}

func inProcess(_ *testing.B, h http.Handler, r *http.Request, w *reusable) func() {
	return func() { h.ServeHTTP(w, r) }
}

// overLoopback hits over one connection, by a client that does next to nothing.
func overLoopback(b *testing.B, h http.Handler, r *http.Request, _ *reusable) func() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	srv := &http.Server{Handler: h}
	go func() { _ = srv.Serve(ln) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(b, err)
	b.Cleanup(func() {
		_ = conn.Close()
		_ = srv.Close()
	})
	request := fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", r.URL.RequestURI(), r.URL.Host)
	in := bufio.NewReader(conn)
	return func() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		for hit := false; ; {
			line, err := in.ReadSlice('\n')
			if err != nil {
				b.Fatal(err)
			}
			if hit = hit || strings.HasPrefix(string(line), "Weir-Cache-Status: HIT"); len(line) == 2 {
				if !hit {
					b.Fatal("not a hit")
				}
				break
			}
		}
		if _, err := io.CopyN(io.Discard, in, 1024); err != nil {
			b.Fatal(err)
		}
	}
}
