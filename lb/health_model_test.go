package lb

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// modelOrigin is an origin told plainly: what happened is kept as it happened, and
// everything else is worked out from it.
type modelOrigin struct {
	in      bool
	up      bool
	known   bool
	checks  []bool // since the last change
	epoch   int    // how often it began anew
	ends    []modelEnd
	refused time.Duration // when the pool could last not spare it; -1: never
	times   int
	until   time.Duration // end of the ejection
	last    time.Duration // when it would have ended, had the origin not recovered
}

type modelEnd struct {
	at time.Duration
	ok bool
}

func (o *modelOrigin) anew() {
	o.epoch++
	o.ends, o.refused = nil, -1
}

func (o *modelOrigin) state(now time.Duration) State {
	switch {
	case !o.up:
		return sick
	case now < o.until:
		return ejected
	}
	return up
}

// failing works out from all that happened whether the rules say so.
func (o *modelOrigin) failing(e Ejection, now time.Duration, divisor int) bool {
	row := 0
	for i := len(o.ends) - 1; i >= 0 && !o.ends[i].ok; i-- {
		row++
	}
	if e.Failures > 0 && row*divisor >= e.Failures {
		return true
	}
	var from time.Duration
	all, bad := 0, 0
	for _, end := range o.ends {
		if !end.ok && (bad == 0 || end.at-from >= e.Window) {
			from, all, bad = end.at, 0, 0
		}
		all++
		if !end.ok {
			bad++
		}
	}
	return e.Rate > 0 && bad > 0 && now-from < e.Window && all*divisor >= e.Requests && bad*100 >= e.Rate*all
}

type modelToken struct {
	origin, epoch int
	token         token
}

// modelRun plays a random program on a pool and on the model.
type modelRun struct {
	t      *testing.T
	rng    *rand.Rand
	w      *ward
	e      Ejection
	all    []*modelOrigin
	tokens []modelToken
	count  int // ejections
}

func newModelRun(t *testing.T, seed uint64) *modelRun {
	g := &modelRun{t: t, rng: rand.New(rand.NewPCG(seed, 7))}
	g.e = Ejection{
		Failures: g.rng.IntN(8) - 1, Rate: g.rng.IntN(101) - 1, Requests: 2 + g.rng.IntN(10),
		Window: time.Duration(1+g.rng.IntN(10)) * time.Second, MaxPercent: 1 + g.rng.IntN(100),
		Duration: time.Duration(1+g.rng.IntN(5)) * time.Second, MaxDuration: time.Duration(5+g.rng.IntN(20)) * time.Second,
	}
	check := HealthCheck{Path: "/", Rise: 1 + g.rng.IntN(3), Fall: 1 + g.rng.IntN(3)}
	g.w = newWard(t, healthConfig{ejection: g.e, check: check}, 1+g.rng.IntN(6))
	g.e = g.w.health.cfg.Load().ejection
	for range g.w.conds {
		g.all = append(g.all, &modelOrigin{in: true, up: true, refused: -1})
	}
	return g
}

func (g *modelRun) step() {
	i := g.rng.IntN(len(g.all))
	switch n := g.rng.IntN(100); {
	case n < 40:
		token, s := g.w.conds[i].begin(g.w.time)
		require.Equal(g.t, g.all[i].state(g.w.time), s)
		if s == up {
			g.tokens = append(g.tokens, modelToken{i, g.all[i].epoch, token})
		} else {
			require.Zero(g.t, token)
		}
	case n < 80 && len(g.tokens) > 0:
		g.end(g.rng.IntN(len(g.tokens)))
	case n < 88:
		g.checkOne(i, g.rng.IntN(4) > 0)
	case n < 90:
		g.rotate(i)
	default:
		g.w.time += time.Duration(g.rng.IntN(1500)) * time.Millisecond
	}
	for i, o := range g.all {
		s, _ := g.w.conds[i].state(g.w.time)
		require.Equal(g.t, o.state(g.w.time), s, "origin %d at %v", i, g.w.time)
	}
}

// end lets a request end; now and then it is reported twice, as a mistake would.
func (g *modelRun) end(n int) {
	k := g.tokens[n]
	g.tokens = append(g.tokens[:n:n], g.tokens[n+1:]...)
	kind := []outcomeKind{noOutcome, succeeded, failed, failed}[g.rng.IntN(4)]
	g.w.conds[k.origin].report(k.token, outcome{kind: kind}, g.w.time)
	o, now := g.all[k.origin], g.w.time
	if k.epoch != o.epoch || kind == noOutcome {
		return
	}
	o.ends = append(o.ends, modelEnd{now, kind == succeeded})
	if kind != failed || !o.in || !o.failing(g.e, now, 1) || o.refused >= 0 && now < o.refused+lookAgainAfter {
		return
	}
	pool, out, better := 0, 0, 0
	for _, other := range g.all {
		switch {
		case !other.in:
			continue
		case other == o:
		case other.state(now) != up:
			out++
		case !other.failing(g.e, now, 2):
			better++
		}
		pool++
	}
	if better == 0 || out+1 > max(1, pool*g.e.MaxPercent/100) {
		o.refused = now
		return
	}
	g.count++
	require.Less(g.t, out+1, pool, "the last origin")
	if now > o.last {
		o.times = max(0, o.times-int((now-o.last)/g.e.Duration))
	}
	most := 0
	for time.Duration(most)*g.e.Duration < g.e.MaxDuration {
		most++
	}
	o.times = min(o.times+1, most)
	o.until = now + min(time.Duration(o.times)*g.e.Duration, g.e.MaxDuration)
	o.last = o.until
	o.anew()
}

func (g *modelRun) checkOne(i int, passed bool) {
	o := g.all[i]
	g.w.checked(g.w.conds[i], map[bool]string{false: "refused"}[passed], g.w.time)
	o.checks = append(o.checks, passed)
	run := 0
	for n := len(o.checks) - 1; n >= 0 && o.checks[n] == passed; n-- {
		run++
	}
	need := g.w.cfg.check.Fall
	if passed {
		need = g.w.cfg.check.Rise
	}
	if passed != o.up && (run >= need || !o.known) {
		o.up, o.checks = passed, nil
		o.anew()
		o.until = 0
	}
	o.known = true
}

func (g *modelRun) rotate(i int) {
	o := g.all[i]
	o.in = !o.in
	g.w.beds[i].inRotation = o.in
	g.w.refresh()
	if o.in {
		o.anew()
		o.until, o.last, o.times = 0, 0, 0
	}
}

// Random requests, late reports, checks and updates on pools of random settings.
func TestHealthAgreesWithAPlainModel(t *testing.T) {
	count := 0
	for seed := range uint64(200) {
		g := newModelRun(t, seed)
		for range 600 {
			g.step()
		}
		count += g.count
	}
	assert.Greater(t, count, 500, "ejections that were compared")
}

// With everything on and from many goroutines: nothing is left taken, and no more
// are out than may be.
func TestHealthHoldsUnderConcurrency(t *testing.T) {
	w := newWard(t, healthConfig{
		ejection: Ejection{Duration: time.Millisecond, MaxDuration: 5 * time.Millisecond}, breaker: Breaker{Failures: 7, Open: time.Millisecond},
		slowStart: time.Millisecond,
	}, 8)
	now := newClock()
	w.health.now = now
	var workers sync.WaitGroup
	for id := range uint64(8) {
		workers.Go(func() {
			rng := rand.New(rand.NewPCG(id, 3))
			for range 5000 {
				i := rng.IntN(8)
				token, s := w.conds[i].begin(now())
				if s != up {
					continue
				}
				kind := succeeded
				if rng.IntN(8) < i {
					kind = failed
				}
				w.conds[i].report(token, outcome{kind: kind}, now())
				w.conds[i].report(token, outcome{kind: kind}, now())
			}
		})
	}
	done := make(chan struct{})
	go func() { workers.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
			runtime.Gosched()
		}
		w.update(w.cfg, w.beds)
		w.mu.Lock()
		out := 0
		at := now()
		for _, c := range w.order {
			if at < c.ejectedUntil {
				out++
			}
		}
		w.mu.Unlock()
		assert.LessOrEqual(t, out, 4)
	}
	end := now() + time.Hour
	for i, c := range w.conds {
		token, s := c.begin(end)
		assert.Equal(t, up, s, i)
		c.report(token, outcome{kind: succeeded}, end)
	}
}
