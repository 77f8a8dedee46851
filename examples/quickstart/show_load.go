package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// loadFigures are those of many visitors at once, each on a page of its own, so that
// the cache is of no use, and of some who check out meanwhile. The peak is the
// origin's own count.
type loadFigures struct {
	verdict
	Visitors  int    `json:"visitors"`
	Ceiling   int    `json:"ceiling"`
	Peak      int    `json:"peak_at_origin"`
	Millis    millis `json:"ms"` // until the last visitor had the page
	Checkouts int    `json:"checkouts"`
	Slowest   millis `json:"slowest_checkout_ms"`
	Bound     millis `json:"slowest_checkout_bound_ms"` // half of what the last visitor waited, or close to a render
}

func (s *stage) showLoad(ctx context.Context) *loadFigures {
	f := &loadFigures{
		verdict: newVerdict(), Visitors: s.flood, Ceiling: ceiling,
		Checkouts: s.buyers * s.buys,
	}
	var mu sync.Mutex
	var slow time.Duration
	var buying sync.WaitGroup
	for i := range s.buyers {
		buying.Go(func() {
			wait := time.After(s.render / 2) // the flood comes first
			select {
			case <-wait:
			case <-ctx.Done():
			}
			for range s.buys {
				visits, err := s.crowd(ctx, 1, fmt.Sprint(s.governedURL, checkoutPage, "?buyer=", i))
				mu.Lock()
				f.mustWork(err)
				slow = max(slow, slowest(visits))
				mu.Unlock()
			}
		})
	}
	visits, err := s.crowdOf(ctx, s.flood, func(i int) string { return fmt.Sprint(s.governedURL, itemPage, i) })
	buying.Wait()
	f.mustWork(err)
	f.Peak = s.origin.peaked()
	f.Millis, f.Slowest = inMillis(slowest(visits)), inMillis(slow)
	f.Bound = max(f.Millis/2, inMillis(s.render+s.near)) // on a machine of any speed
	f.judge()
	return f
}

func (f *loadFigures) judge() {
	// The last places are kept for checkouts, which a busy machine may not bring at once.
	f.must(f.Peak <= f.Ceiling && f.Peak >= f.Ceiling-reserve, "%s at once at the origin instead of %d", count(f.Peak, "render"), f.Ceiling)
	f.must(f.Slowest <= f.Bound, "a checkout took %s, more than %s", f.Slowest, f.Bound)
}

func (f *loadFigures) String() string {
	return f.show(
		fmt.Sprintf("%d visitors at once on as many pages, and %d checkouts meanwhile", f.Visitors, f.Checkouts),
		fmt.Sprintf("%s at once, as the origin counted; all served after %s;",
			count(f.Peak, "render"), f.Millis),
		fmt.Sprintf("no checkout took longer than %s: %d of %d renders are theirs", f.Slowest, reserve, f.Ceiling))
}
