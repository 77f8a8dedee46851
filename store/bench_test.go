package store

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

const benchKeys = 131_072

// manyKeys is a store with 131,072 objects of 100 bytes, all of which fit.
func manyKeys(b *testing.B) (*Store, []Key) {
	s, keys := newStore(b, Options{MemoryBytes: 256 << 20}), make([]Key, benchKeys)
	for i := range keys {
		keys[i] = key(i)
		s.Put(plain(keys[i], 100))
	}
	s.Stats()
	return s, keys
}

// What varies is which of 131,072 keys is asked for: one that is in the
// processor's caches or any. Expected: no allocation; any key costs a few cache
// misses more than the hot one; in parallel less for each.
func BenchmarkGet(b *testing.B) {
	s, keys := manyKeys(b)
	b.Run("hot", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.Get(keys[7])
		}
	})
	b.Run("any", func(b *testing.B) {
		rnd := rand.New(rand.NewPCG(1, 1))
		b.ReportAllocs()
		for b.Loop() {
			s.Get(keys[rnd.IntN(benchKeys)])
		}
	})
	b.Run("any/parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			rnd := rand.New(rand.NewPCG(rand.Uint64(), 1))
			for pb.Next() {
				s.Get(keys[rnd.IntN(benchKeys)])
			}
		})
	})
}

// What varies is whether the store is full, which makes each write evict, and
// whether the object is a variant. Expected: a plain object takes a microsecond
// or two, full or not; a variant several times as much, for its index of up to
// 64 keys is written anew.
func BenchmarkPut(b *testing.B) {
	for name, vary := range map[string]bool{"plain": false, "variant": true} {
		for _, memory := range []int64{1 << 20, 1 << 30} {
			b.Run(name+"/memory="+strconv.FormatInt(memory, 10), func(b *testing.B) {
				s, i := newStore(b, Options{MemoryBytes: memory}), 0
				keys := make([]Key, 1<<16)
				for i := range keys {
					keys[i] = key(i)
				}
				b.ReportAllocs()
				for b.Loop() {
					o := &Object{Key: keys[i%len(keys)], Primary: keys[i%len(keys)], Status: 200}
					if vary {
						o.Primary, o.VaryNames = keys[i%1000], names
						o.Primary[0]++
					}
					s.Put(o)
					i++
				}
			})
		}
	}
}

var names = []string{"accept"}

// What varies is the size of the writes, and whether the body of 2 MiB with one
// reader is kept. Expected: one or more GB/s, bound by copying and by fresh
// memory; a kept body is allocated at once, one that isn't in 64 pieces of 32
// KiB.
func BenchmarkFill(b *testing.B) {
	for _, piece := range []int{4 << 10, 32 << 10, 256 << 10} {
		for _, keep := range []bool{true, false} {
			b.Run("piece="+strconv.Itoa(piece)+"/keep="+strconv.FormatBool(keep), func(b *testing.B) {
				const size = 2 << 20
				p := make([]byte, piece)
				b.SetBytes(size)
				b.ReportAllocs()
				for b.Loop() {
					f := fillOf(64<<20, size, 32<<20)
					r, _ := f.Reader(0)
					if !keep {
						f.Forgo()
					}
					go func() {
						for range size / piece {
							_ = f.Append(b.Context(), p)
						}
						f.Take()
						_ = f.End()
					}()
					follow(b, r)
				}
			})
		}
	}
}

func follow(b *testing.B, r *Reader) (n int) {
	defer r.Close()
	for {
		p, err := r.Next(b.Context())
		if err != nil {
			return n
		}
		n += len(p)
	}
}

// What varies is the number of readers of one body of 1 MiB that arrives in 64
// pieces. Expected: the cost for each reader falls, kept or not, for they share
// the bytes and the wake-ups; it must never rise with their number.
func BenchmarkFillReaders(b *testing.B) {
	for _, readers := range []int{10, 100, 1000} {
		for _, keep := range []bool{true, false} {
			b.Run("readers="+strconv.Itoa(readers)+"/keep="+strconv.FormatBool(keep), func(b *testing.B) {
				const size, piece = 1 << 20, 16 << 10
				p := make([]byte, piece)
				var total atomic.Int64
				b.ReportAllocs()
				for b.Loop() {
					f := fillOf(64<<20, -1, 2<<20)
					if !keep {
						f.Forgo()
					}
					var wg sync.WaitGroup
					for range readers {
						r, _ := f.Reader(0)
						wg.Go(func() { total.Add(int64(follow(b, r))) })
					}
					for range size / piece {
						_ = f.Append(b.Context(), p)
					}
					f.Take()
					_ = f.End()
					wg.Wait()
				}
				if total.Load() != int64(b.N)*size*int64(readers) {
					b.Errorf("%d bytes were read", total.Load())
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*readers), "ns/reader")
			})
		}
	}
}
