package guard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/admission"
)

// randomPolicy is a valid policy with rates and limits at random.
func randomPolicy(t *testing.T, rng *rand.Rand, version uint64, expires time.Time) Policy {
	below := func(r admission.Rate) admission.Rate {
		return rate(r.PerSecond*(0.5+rng.Float64()/2), max(8, r.Burst*(0.5+rng.Float64()/2)))
	}
	p := Policy{Version: version, Expires: expires, Global: rate(50+100*rng.Float64(), 100+100*rng.Float64()),
		Operations: 1 + rng.IntN(8), ContextAgeMS: 1 + rng.IntN(1000)}
	p.Unknown = rate(p.Global.PerSecond/8, p.Global.Burst/8)
	p.Address = rate(p.Unknown.PerSecond/2, min(p.Unknown.Burst, 8))
	p.Work.Global = 2 + rng.IntN(10)
	p.Work.Unknown = 1 + rng.IntN(p.Work.Global/2)
	p.Work.Local = p.Work.Unknown + 1 + rng.IntN(p.Work.Global-p.Work.Unknown)
	for _, name := range []string{"big", "small"} {
		if rng.IntN(4) == 0 {
			continue
		}
		pr := Provider{Name: name, Rate: below(p.Global), Work: p.Work.Unknown + rng.IntN(p.Work.Global-p.Work.Unknown+1)}
		for _, class := range []string{"a", "b"} {
			c := Class{Name: class}
			if rng.IntN(3) > 0 {
				c.Rate = below(pr.Rate)
			}
			pr.Classes = append(pr.Classes, c)
		}
		p.Providers = append(p.Providers, pr)
	}
	for i, name := range []string{"x", "y"} {
		r := Route{Name: name, Cost: 1 + i*rng.IntN(7)}
		if rng.IntN(2) == 0 {
			r.Rate = below(p.Global)
		}
		p.Routes = append(p.Routes, r)
	}
	require.NoError(t, p.Validate(time.Now()))
	return p
}

// randomRequest is of one of five clients.
func randomRequest(rng *rand.Rand) Request {
	r := Request{Addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(rng.IntN(3))})}
	if rng.IntN(3) > 0 {
		r.Identity = Identity{[]string{"big", "small"}[rng.IntN(2)], []string{"a", "b"}[rng.IntN(2)]}
	}
	return r
}

// ledger checks from outside that a budget never lets more pass than the largest
// burst it had, and what its rates added up to.
type ledger struct {
	bucket                *admission.Bucket // nil for an address
	most, allowed, passed float64
	now                   admission.Rate
}

// ledgers has one for each budget, by name.
type ledgers map[string]*ledger

// install takes over the rates of a policy. A bucket that was forgotten, since it
// was full and its name wasn't used, begins anew.
func (all ledgers) install(g *Guard, p Policy) {
	rates := map[string]admission.Rate{"global": p.Global, "unknown": p.Unknown}
	for i := range 3 {
		rates[fmt.Sprintf("address/192.0.2.%d", i)] = p.Address
	}
	for _, pr := range p.Providers {
		rates["provider/"+pr.Name] = pr.Rate
		for _, c := range pr.Classes {
			if c.Rate != (admission.Rate{}) {
				rates["class/"+pr.Name+"/"+c.Name] = c.Rate
			}
		}
	}
	for _, r := range p.Routes {
		if r.Rate != (admission.Rate{}) {
			rates["route/"+r.Name] = r.Rate
		}
	}
	for name, r := range rates {
		l := all[name]
		if b := g.named[name]; l == nil || l.bucket != b {
			l = &ledger{bucket: b}
			all[name] = l
		}
		l.now, l.most = r, max(l.most, r.Burst)
	}
}

// concerned names the budgets that a request is debited from.
func concerned(p Policy, d Decision, r Request, route string) map[string]bool {
	out := map[string]bool{"global": true}
	if !d.As.Known() {
		out["unknown"], out["address/"+r.Addr.String()] = true, true
	}
	for _, pr := range p.Providers {
		if pr.Name != d.As.Provider {
			continue
		}
		out["provider/"+pr.Name] = true
		for _, c := range pr.Classes {
			if c.Name == d.As.Class && c.Rate != (admission.Rate{}) {
				out["class/"+d.As.String()] = true
			}
		}
	}
	for _, x := range p.Routes {
		if x.Name == route && x.Rate != (admission.Rate{}) {
			out["route/"+route] = true
		}
	}
	return out
}

// Random requests under random policies that replace each other, with one that ends
// now and then: each admitted request is debited from all budgets that concern it,
// each refused one from none, and no budget ever exceeds what it could have.
func TestRandomProgramsOfRequests(t *testing.T) {
	for seed := range 40 {
		rng := rand.New(rand.NewPCG(uint64(seed), 11))
		synctest.Test(t, func(t *testing.T) { randomRequests(t, rng) })
	}
}

func randomRequests(t *testing.T, rng *rand.Rand) {
	soon := func() time.Time { return time.Now().Add(time.Duration(1+rng.IntN(5)) * time.Second) }
	p := randomPolicy(t, rng, 1, soon())
	g := newGuard(t, p)
	books := ledgers{}
	books.install(g, p)
	for range 800 {
		if rng.IntN(40) == 0 {
			p = randomPolicy(t, rng, p.Version+1, soon())
			require.NoError(t, g.Replace(p))
			books.install(g, p)
		}
		pause := time.Duration(rng.ExpFloat64() * 2e7)
		time.Sleep(pause)
		for _, l := range books {
			l.allowed += l.now.PerSecond * pause.Seconds()
		}
		r, route := randomRequest(rng), []string{"", "x", "y"}[rng.IntN(3)]
		cost := 1.0
		for _, x := range p.Routes {
			if x.Name == route {
				cost = float64(x.Cost)
			}
		}
		before := lefts(g)
		d := g.Admit(r, route)
		after := lefts(g)
		require.Equal(t, !time.Now().Before(p.Expires), d.Expired)
		budgets := concerned(p, d, r, route)
		for name, left := range before {
			want := left
			if budgets[name] && d.OK() {
				want -= cost
			}
			require.InDelta(t, want, after[name], 1e-6, "%s after %v", name, d)
		}
		for name := range budgets {
			l := books[name]
			if d.OK() {
				l.passed += cost
			}
			require.LessOrEqual(t, l.passed, l.most+l.allowed+1e-6, name)
		}
	}
}

// Many goroutines at once, and policies that change meanwhile: all that was
// admitted was debited once from each budget, and no more than there was.
func TestConcurrentRequestsAreDebitedExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes, so nothing fills up
		p := policy()
		g := newGuard(t, p)
		var admitted [3]atomic.Int64
		var wg sync.WaitGroup
		requests := []Request{from(bigSearch), from(smallOnly), at("192.0.2.1")}
		for i := range 60 {
			wg.Go(func() {
				for range 20 {
					if g.Admit(requests[i%3], "page").OK() {
						admitted[i%3].Add(1)
					}
				}
			})
		}
		wg.Go(func() {
			for v := range 20 {
				next := policy()
				next.Version = uint64(v + 2)
				assert.NoError(t, g.Replace(next))
			}
		})
		wg.Wait()
		assert.Equal(t, []int64{50, 20, 10}, []int64{admitted[0].Load(), admitted[1].Load(), admitted[2].Load()})
		assert.Equal(t, map[string]float64{
			"global": 20, "unknown": 10, "provider/big": 10, "provider/small": 0, "class/big/search": 0, "class/small/only": 0, "route/search": 40,
		}, lefts(g))
	})
}

// peaks watches how many operations run at once.
type peaks struct {
	mu        sync.Mutex
	all       int
	by        map[string]int
	exceeded  []string
	limit     Work
	providers map[string]int
}

func (p *peaks) start(who string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all++
	p.by[who]++
	limit := p.limit.Unknown
	if who != "" {
		limit = p.providers[who]
	}
	if p.by[who] > limit || p.all > p.limit.Local || p.all > p.limit.Global {
		p.exceeded = append(p.exceeded, fmt.Sprint(who, p.by, p.all))
	}
}

func (p *peaks) end(who string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	p.by[who]--
}

// Operations at random, of many requests, that return, fail, panic, are cancelled
// and start others: no limit is ever exceeded, and all slots come back.
func TestRandomProgramsOfOperations(t *testing.T) {
	for seed := range 20 {
		rng := rand.New(rand.NewPCG(uint64(seed), 12))
		synctest.Test(t, func(t *testing.T) {
			p := roomy()
			p.Work = Work{Global: 4 + rng.IntN(5), Unknown: 1 + rng.IntN(2), Local: 3 + rng.IntN(2)}
			p.Providers[0].Work, p.Providers[1].Work = 2, 2+rng.IntN(2)
			g := newGuard(t, p)
			w := &peaks{by: map[string]int{}, limit: p.Work, providers: map[string]int{"big": 2, "small": p.Providers[1].Work}}
			var wg sync.WaitGroup
			for i := range 60 {
				mine := rand.New(rand.NewPCG(uint64(seed), uint64(100+i)))
				id := []Identity{{}, bigSearch, bigImages, smallOnly}[mine.IntN(4)]
				ctx, cancel := context.WithTimeout(g.WithRequest(background, from(id)), time.Duration(mine.IntN(100))*time.Millisecond)
				wg.Go(func() {
					defer cancel()
					for range 5 {
						operation(ctx, mine, w, id.Provider, 0)
						time.Sleep(time.Duration(mine.IntN(10)) * time.Millisecond)
					}
					started, limit := Started(ctx)
					assert.LessOrEqual(t, started, limit)
				})
			}
			wg.Wait()
			assert.Empty(t, w.exceeded)
			s := g.Stats()
			assert.Equal(t, []int{0, 0, 0}, []int{s.Work, s.Unknown, len(s.Providers)})
			assert.Positive(t, s.Decisions[Admitted])
		})
	}
}

func operation(ctx context.Context, rng *rand.Rand, w *peaks, who string, depth int) {
	defer func() { _ = recover() }()
	_ = Do(ctx, "search", func(ctx context.Context) error {
		w.start(who)
		defer w.end(who)
		select {
		case <-time.After(time.Duration(rng.IntN(30)) * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		switch rng.IntN(4) {
		case 0:
			panic("boom")
		case 1:
			return errors.New("failed")
		case 2:
			if depth < 2 {
				operation(ctx, rng, w, who, depth+1)
			}
		}
		return nil
	})
}
