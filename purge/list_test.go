package purge

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/weirhttp/weir/internal/testnet"
)

// What each selector matches, and what it leaves alone.
func TestSelectorsMatch(t *testing.T) {
	subject := Facts{
		Zone: "shop", Scheme: "https", Host: "Example.com:443", Path: "/a/%7euser/b%2fc", Query: "b=2&a=1",
		Key: key(1), Tags: []string{"news", "Sport"}, Groups: []string{"g 1"},
	}
	tests := []struct {
		sel  Selector
		want Verdict
	}{
		{Selector{Kind: Everything}, Gone},
		{Selector{Kind: Everything, Soft: true}, Stale},
		{Selector{Kind: Zone, Zone: "shop"}, Gone},
		{Selector{Kind: Zone}, Valid},
		{Selector{Kind: Zone, Zone: "Shop"}, Valid},
		{Selector{Kind: Host, Zone: "shop", Host: "example.COM."}, Gone},
		{Selector{Kind: Host, Zone: "shop", Host: "example.com:8080"}, Valid},
		{Selector{Kind: Host, Zone: "other", Host: "example.com"}, Valid},
		{Selector{Kind: URL, Zone: "shop", Host: "example.com", Path: "/a/~user/b%2Fc"}, Gone},
		{Selector{Kind: URL, Zone: "shop", Host: "example.com", Path: "/a/~user/b/c"}, Valid},
		{Selector{Kind: URL, Zone: "shop", Host: "example.com", Path: "/a/~user"}, Valid},
		{Selector{Kind: ExactURL, Zone: "shop", Host: "example.com", Path: "/a/~user/b%2Fc", Query: "a=1&b=2"}, Gone},
		{Selector{Kind: ExactURL, Zone: "shop", Host: "example.com", Path: "/a/~user/b%2Fc", Query: "a=1"}, Valid},
		{Selector{Kind: ExactURL, Zone: "shop", Host: "example.com", Path: "/a/~user/b%2Fc"}, Valid},
		{Selector{Kind: Prefix, Zone: "shop", Host: "example.com", Path: "/"}, Gone},
		{Selector{Kind: Prefix, Zone: "shop", Host: "example.com", Path: "/a/~us", Soft: true}, Stale},
		{Selector{Kind: Prefix, Zone: "shop", Host: "example.com", Path: "/a/~user/b%2Fc"}, Gone},
		{Selector{Kind: Prefix, Zone: "shop", Host: "example.com", Path: "/a/~user/b%2Fcd"}, Valid},
		{Selector{Kind: Prefix, Zone: "shop", Host: "example.org", Path: "/"}, Valid},
		{Selector{Kind: Tag, Zone: "shop", Tag: "news"}, Gone},
		{Selector{Kind: Tag, Zone: "shop", Tag: "sport"}, Valid}, // tags match whole and by case
		{Selector{Kind: Tag, Zone: "shop", Tag: "new"}, Valid},
		{Selector{Kind: Tag, Zone: "shop", Tag: "g 1"}, Valid}, // groups are no tags
		{Selector{Kind: Group, Zone: "shop", Origin: "HTTPS://example.com:443", Tag: "g 1"}, Gone},
		{Selector{Kind: Group, Zone: "shop", Origin: "http://example.com", Tag: "g 1"}, Valid},
		{Selector{Kind: Group, Zone: "shop", Origin: "https://example.com", Tag: "news"}, Valid},
		{Selector{Kind: Key, Zone: "shop", Key: key(1)}, Gone},
		{Selector{Kind: Key, Zone: "shop", Key: key(2)}, Valid},
		{Selector{Kind: Key, Key: key(1)}, Valid},
	}
	for _, tt := range tests {
		l := mustNew(t, Options{})
		subject.Seq = l.Now()
		s := NewSubject(subject)
		assert.Equal(t, Valid, l.Check(s))
		mustAdd(t, l, tt.sel)
		assert.Equal(t, tt.want, l.Check(s), tt.sel)
		assert.Equal(t, tt.want, l.Check(s), "again: %v", tt.sel)
		subject.Seq = l.Now()
		assert.Equal(t, Valid, l.Check(NewSubject(subject)), "fetched after: %v", tt.sel)
	}
}

func TestSelectorsRefused(t *testing.T) {
	tests := []struct {
		sel   Selector
		field string
	}{
		{Selector{}, "kind"},
		{Selector{Kind: anyTag}, "kind"},
		{Selector{Kind: Everything, Zone: "z"}, "zone"}, // it says less than it seems
		{Selector{Kind: Zone, Host: "a"}, "host"},
		{Selector{Kind: Zone, Zone: "a\nb"}, "zone"},
		{Selector{Kind: Host, Host: "https://a/"}, "host"},
		{Selector{Kind: Host, Host: "*.a"}, "host"},
		{Selector{Kind: Host}, "host"},
		{Selector{Kind: Host, Host: "a", Path: "/"}, "path"},
		{Selector{Kind: URL, Host: "a"}, "path"},
		{Selector{Kind: URL, Host: "a", Path: "b"}, "path"},
		{Selector{Kind: URL, Host: "a", Path: "/b?c"}, "path"},
		{Selector{Kind: URL, Host: "a", Path: "/b", Query: "c"}, "query"},
		{Selector{Kind: URL, Host: "a", Path: "/" + strings.Repeat("x", MaxURLBytes)}, "path"},
		{Selector{Kind: Prefix, Host: "a", Path: "/b/*"}, "path"},
		{Selector{Kind: ExactURL, Host: "a", Path: "/b", Query: "c#d"}, "query"},
		{Selector{Kind: Tag}, "tag"},
		{Selector{Kind: Tag, Tag: strings.Repeat("x", MaxTagBytes+1)}, "tag"},
		{Selector{Kind: Group, Tag: "a"}, "origin"},
		{Selector{Kind: Group, Tag: "a", Origin: "example.com"}, "origin"},
		{Selector{Kind: Key}, "key"},
	}
	l := mustNew(t, Options{})
	before := l.Now()
	for _, tt := range tests {
		_, err := l.Add(background, tagged("fine"), tt.sel)
		var e *SelectorError
		if assert.ErrorAs(t, err, &e, tt.sel) {
			assert.Equal(t, 1, e.Index)
			assert.Equal(t, tt.field, e.Field, tt.sel)
		}
	}
	assert.Equal(t, before, l.Now(), "nothing was purged")
	_, err := l.Add(background, make([]Selector, MaxSelectors+1)...)
	assert.ErrorContains(t, err, "split it")
}

// A fetch that was sent before a purge doesn't survive it, whenever it ends; the
// clock has no say.
func TestFetchInFlight(t *testing.T) {
	l := mustNew(t, Options{})
	inFlight := page(l, "/", "a")
	res := mustAdd(t, l, tagged("a"))
	after := page(l, "/", "a")
	assert.Equal(t, l.Now(), res.Seq)
	assert.Equal(t, Gone, l.Check(inFlight))
	assert.Equal(t, Valid, l.Check(after))
}

// A floor purges what was fetched before the purges that it stands for, and nothing
// that was fetched after them.
func TestFloorSparesWhatIsNewer(t *testing.T) {
	l := mustNew(t, Options{MaxTombstones: 8})
	older := page(l, "/")
	var newest *Subject
	for i := range 9 {
		newest = page(l, "/")
		mustAdd(t, l, tagged(fmt.Sprint(i)))
	}
	assert.EqualValues(t, 3, l.Stats().Folded)
	assert.Equal(t, Gone, l.Check(older))
	assert.Equal(t, Valid, l.Check(newest))
}

// Three variants of a URL, one from a POST: all are gone (a product once purged
// only one).
func TestAllVariants(t *testing.T) {
	l := mustNew(t, Options{})
	var variants []*Subject
	for i := range 3 {
		variants = append(variants, NewSubject(Facts{Seq: l.Now(), Host: "a", Path: "/x", Query: "q=1", Key: key(i)}))
	}
	mustAdd(t, l, Selector{Kind: URL, Host: "a", Path: "/x"})
	for _, s := range variants {
		assert.Equal(t, Gone, l.Check(s))
	}
}

func TestSoftNeverSoftensHard(t *testing.T) {
	l := mustNew(t, Options{})
	soft := tagged("a")
	soft.Soft = true
	s := page(l, "/", "a")
	mustAdd(t, l, tagged("a"))
	between := page(l, "/", "a")
	mustAdd(t, l, soft)
	assert.Equal(t, Gone, l.Check(s))
	assert.Equal(t, Stale, l.Check(between))
	assert.Equal(t, Stale, l.Check(between), "it stays stale until refreshed")
	assert.Equal(t, Valid, l.Check(page(l, "/", "a")), "refreshed")
	mustAdd(t, l, tagged("a"))
	assert.Equal(t, Gone, l.Check(between))
	assert.Equal(t, 1, l.Stats().Tombstones)
	assert.EqualValues(t, 2, l.Stats().Merged)
}

// A number of another list, or of a journal that was lost.
func TestForeignNumbers(t *testing.T) {
	l := mustNew(t, Options{})
	assert.True(t, l.Lost())
	assert.Equal(t, Gone, l.Check(NewSubject(Facts{Seq: l.Now() + 1})))
	assert.Equal(t, Gone, l.Check(NewSubject(Facts{Seq: 0})))
	assert.Equal(t, Valid, l.Check(NewSubject(Facts{Seq: l.Now()})))
}

func TestConfigErrors(t *testing.T) {
	_, err := New(Options{MaxTombstones: -1, Burst: -1, MaxQueued: -1, Sync: 9, Journal: "/nowhere/at/all"})
	for _, field := range []string{"MaxTombstones", "Burst", "MaxQueued", "Sync", "Journal"} {
		assert.ErrorContains(t, err, field)
	}
	_, err = New(Options{Journal: t.TempDir()})
	assert.ErrorContains(t, err, "not a regular file")
}

func TestFirstGenerationIsBounded(t *testing.T) {
	assert.EqualValues(t, 1, firstGeneration(time.Unix(0, 0)))
	assert.EqualValues(t, maxGeneration/2, firstGeneration(time.Date(3999, 1, 1, 0, 0, 0, 0, time.UTC)))
}

// Checks and purges at once: what was purged before a check began is never valid,
// and the tables grow and are replaced meanwhile.
func TestConcurrentChecks(t *testing.T) {
	l := mustNew(t, Options{MaxTombstones: 64})
	var purged atomic.Int64
	const total = 3000
	subjects := make([]*Subject, total)
	for i := range subjects {
		subjects[i] = page(l, "/p/"+strings.Repeat("x", i%40), fmt.Sprint("t", i))
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range total {
			if i%3 == 0 {
				_, _ = l.Add(background, Selector{Kind: Prefix, Zone: "y", Host: "h", Path: "/" + strings.Repeat("y", i%200)})
			}
			_, err := l.Add(background, tagged(fmt.Sprint("t", i)))
			assert.NoError(t, err)
			purged.Store(int64(i + 1))
		}
	})
	for range 3 {
		wg.Go(func() {
			for purged.Load() < total {
				n := purged.Load()
				for i := max(0, n-100); i < n; i++ {
					if !assert.Equal(t, Gone, l.Check(subjects[i])) {
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

// Checks of a response while it is being purged: whatever they say meanwhile, they
// don't make it remember that it passed. The call has many selectors, so that the
// purge takes a while.
func TestCheckDuringPurge(t *testing.T) {
	l := mustNew(t, Options{Rate: -1})
	const rounds = 300
	var current atomic.Pointer[Subject]
	current.Store(page(l, "/", "last"))
	call := make([]Selector, 200)
	for i := range call {
		call[i] = tagged(fmt.Sprint(i))
	}
	call[len(call)-1] = tagged("last")
	var wg sync.WaitGroup
	var stop atomic.Bool
	wg.Go(func() {
		for !stop.Load() {
			l.Check(current.Load())
		}
	})
	for range rounds {
		s := page(l, "/", "last")
		current.Store(s)
		runtime.Gosched()
		mustAdd(t, l, call...)
		if !assert.Equal(t, Gone, l.Check(s)) {
			break
		}
	}
	stop.Store(true)
	wg.Wait()
}

func TestCheckAllocatesNothing(t *testing.T) {
	l := mustNew(t, Options{})
	s := NewSubject(Facts{Seq: l.Now(), Zone: "z", Host: "a", Path: "/a/b/c", Tags: []string{"x", "y"}, Groups: []string{"g"}})
	add := []Selector{{Kind: Prefix, Zone: "z", Host: "a", Path: "/b"}, tagged("w")}
	mustAdd(t, l, add...)
	low := s.checked.Load()
	testnet.Allocs(t, 0, func() {
		s.checked.Store(low)
		if l.Check(s) != Valid {
			t.Fatal("not valid")
		}
		l.Check(s)
	})
	testnet.Allocs(t, 4, func() { mustAdd(t, l, add[1]) }, "one that is there already")
}

// 100,000 responses without tags take no room for tags (a product filed them all
// under the empty tag).
func TestNoTagsAllocateNothing(t *testing.T) {
	f := Facts{Host: "a", Path: "/x"}
	testnet.Allocs(t, 2, func() { NewSubject(f) })
	l := mustNew(t, Options{})
	_, err := l.Add(background, Selector{Kind: Tag})
	assert.Error(t, err, "there is no empty tag")
}
