package purge

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// The path of a hit while nothing is purged.
func BenchmarkCheckUnchanged(b *testing.B) {
	l := mustNew(b, Options{})
	s := page(l, "/", "a")
	b.ReportAllocs()
	for b.Loop() {
		l.Check(s)
	}
}

// A check after a purge. The time shouldn't depend on the number of tombstones,
// but for the caches of the processor.
func BenchmarkCheck(b *testing.B) {
	kinds := map[string]func(i int) Selector{
		"host":  func(i int) Selector { return Selector{Kind: Host, Zone: "z", Host: fmt.Sprint("h", i)} },
		"url":   func(i int) Selector { return Selector{Kind: URL, Zone: "z", Host: "h", Path: fmt.Sprint("/", i)} },
		"exact": func(i int) Selector { return Selector{Kind: ExactURL, Zone: "z", Host: "h", Path: fmt.Sprint("/", i)} },
		"prefix": func(i int) Selector {
			return Selector{Kind: Prefix, Zone: "z", Host: "h", Path: fmt.Sprintf("/%04d/", i)}
		},
		"tag": func(i int) Selector { return tagged(fmt.Sprint(i)) },
		"group": func(i int) Selector {
			return Selector{Kind: Group, Zone: "z", Origin: "https://h", Tag: fmt.Sprint(i)}
		},
		"key":  func(i int) Selector { return Selector{Kind: Key, Zone: "z", Key: key(i + 2)} },
		"zone": func(i int) Selector { return Selector{Kind: Zone, Zone: fmt.Sprint(i)} },
	}
	for name, sel := range kinds {
		for _, n := range []int{0, 1, 4096} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				benchmarkCheck(b, n, sel)
			})
		}
	}
	b.Run("all", func(b *testing.B) {
		benchmarkCheck(b, 4096, func(i int) Selector {
			for name := range kinds {
				return kinds[name](i)
			}
			return Selector{}
		})
	})
	// The worst that prefixes can do: each length from 1 to 256 on one host.
	b.Run("prefix/256 lengths", func(b *testing.B) {
		benchmarkCheck(b, 256, func(i int) Selector {
			return Selector{Kind: Prefix, Zone: "z", Host: "h", Path: "/" + strings.Repeat("y", i+1)}
		})
	})
}

func benchmarkCheck(b *testing.B, n int, sel func(i int) Selector) {
	l := mustNew(b, Options{})
	s := NewSubject(Facts{Seq: l.Now(), Zone: "z", Scheme: "https", Host: "h", Path: "/blog/2024/" + strings.Repeat("x", 245),
		Query: "q=1", Key: key(1), Tags: []string{"a", "b", "c", "d"}, Groups: []string{"g"}})
	for i := range n {
		mustAdd(b, l, sel(i))
	}
	b.ReportAllocs()
	for b.Loop() {
		s.checked.Store(s.seq)
		if l.check(s) != Valid {
			b.Fatal("not valid")
		}
	}
}

// With the number of tags, 1,000 being the most.
func BenchmarkCheckTags(b *testing.B) {
	for _, n := range []int{1, 10, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := mustNew(b, Options{})
			tags := make([]string, n)
			for i := range tags {
				tags[i] = fmt.Sprint("tag", i)
			}
			s := page(l, "/", tags...)
			for i := range 4096 {
				mustAdd(b, l, tagged(fmt.Sprint(i)))
			}
			b.ReportAllocs()
			for b.Loop() {
				s.checked.Store(s.seq)
				l.check(s)
			}
		})
	}
}

// With the number of groups invalidated, for a response with four others.
func BenchmarkCheckInvalidatedGroups(b *testing.B) {
	for _, n := range []int{0, 1, 4096, 400_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := mustNew(b, Options{})
			s := NewSubject(Facts{Seq: l.Now(), Zone: "z", Scheme: "https", Host: "example.com", Path: "/", Groups: []string{"a", "b", "c", "d"}})
			for i := range n {
				mustInvalidate(b, l, item(i))
			}
			b.ReportAllocs()
			for b.Loop() {
				s.checked.Store(s.seq)
				l.check(s)
			}
		})
	}
}

func BenchmarkNewSubject(b *testing.B) {
	f := Facts{Zone: "z", Scheme: "https", Host: "www.example.com", Path: "/products/blue-shoes", Query: "page=2&sort=price",
		Tags: []string{"products", "product-4711", "shoes"}}
	b.ReportAllocs()
	for b.Loop() {
		NewSubject(f)
	}
}

// All are different, so that the list folds all the time; or all are the same.
func BenchmarkAdd(b *testing.B) {
	for _, journal := range []string{"", "os", "disk"} {
		for _, name := range []string{"different", "same"} {
			o := Options{}
			if journal != "" {
				o.Journal = filepath.Join(b.TempDir(), "j")
			}
			if journal == "os" {
				o.Sync = SyncOS
			}
			b.Run("journal="+journal+"/"+name, func(b *testing.B) {
				l := mustNew(b, o)
				i := 0
				b.ReportAllocs()
				for b.Loop() {
					if name == "different" {
						i++
					}
					mustAdd(b, l, tagged(fmt.Sprint(i)))
				}
				_ = l.Close(background)
			})
		}
	}
}

// 64 at once share the disk's time.
func BenchmarkAddDurableParallel(b *testing.B) {
	l := mustNew(b, Options{Journal: filepath.Join(b.TempDir(), "j")})
	var n atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			mustAdd(b, l, tagged(fmt.Sprint(n.Add(1))))
		}
	})
}
