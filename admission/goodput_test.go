package admission

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the table of goodput into the documentation")

// load is what came of one offered load, in parts of the origin's capacity.
type load struct {
	offered, goodput float64
	p99              time.Duration // of those that were served in time
	recovery         time.Duration // how long after the end all was as before; negative: not seen
}

const peak = 1000 // requests a second that the simulated origin can serve

// goodput offers a load for five seconds, then half of the capacity for another
// five.
func goodput(t *testing.T, offered float64, limited bool) (out load) {
	synctest.Test(t, func(t *testing.T) {
		var l *Limiter
		if limited {
			l = newLimiter(t, Options{Limit: 100})
		}
		w := newWorld(l, 1)
		const end, over = 5 * time.Second, 10 * time.Second
		w.offer("", Request{}, offered*peak, 0, end)
		w.offer("", Request{}, 0.5*peak, end, over)
		w.run(over + 2*time.Second)
		// The first second fills it up.
		_, good, took := w.among("", time.Second, end)
		out = load{offered, float64(good) / (peak * (end - time.Second).Seconds()), percentile(took, 0.99), -1}
		for _, v := range w.done {
			if v.came >= end && v.came < over && (!v.ok || v.took > 180*time.Millisecond) { // 1.2 × the slowest when idle
				out.recovery = max(out.recovery, v.came-end)
			}
		}
		out.recovery = max(out.recovery, 0)
		if all, _, _ := w.among("", over-time.Second, over); all < peak/4 || out.recovery > over-end-time.Second {
			out.recovery = -1
		}
		if limited {
			empty(t, l)
		}
	})
	return out
}

var loads = []float64{0.5, 0.8, 1, 1.2, 1.5, 2, 3, 5, 10}

// Whatever is offered, an origin behind a limiter does at least nine tenths of
// what it does at best, and within a second after the flood all is as it was.
// Without one it collapses, and stays down.
func TestGoodput(t *testing.T) {
	t.Parallel()
	var with, without []load
	best := 0.0
	for _, x := range loads {
		with, without = append(with, goodput(t, x, true)), append(without, goodput(t, x, false))
		best = max(best, with[len(with)-1].goodput)
	}
	assert.InDelta(t, 1, best, 0.05, "it uses all of the origin")
	for i, x := range loads {
		if x <= 0.8 {
			assert.InDelta(t, x, with[i].goodput, 0.05*x)
		}
		if x >= 1 {
			assert.GreaterOrEqual(t, with[i].goodput, 0.9*best, "at %g", x)
			assert.LessOrEqual(t, with[i].p99, 500*time.Millisecond, "at %g", x)
		}
		assert.GreaterOrEqual(t, with[i].recovery, time.Duration(0), "at %g", x)
		assert.LessOrEqual(t, with[i].recovery, time.Second, "at %g", x)
	}
	assert.Less(t, without[len(loads)-1].goodput, 0.1, "the contrast")
	assert.Negative(t, without[len(loads)-1].recovery)
	documented(t, "goodput", goodputTable(with, without))
}

func goodputTable(with, without []load) string {
	var b strings.Builder
	b.WriteString("| offered | goodput with a limiter | p99 | back to normal after | goodput without | back to normal after |\n|--:|--:|--:|--:|--:|--:|\n")
	back := func(d time.Duration) string {
		if d < 0 {
			return "not within 5 s"
		}
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	for i := range with {
		fmt.Fprintf(&b, "| %g × | %.0f %% | %.0f ms | %s | %.0f %% | %s |\n", with[i].offered, 100*with[i].goodput,
			float64(with[i].p99.Milliseconds()), back(with[i].recovery), 100*without[i].goodput, back(without[i].recovery))
	}
	return b.String()
}

var docs sync.Mutex

// documented compares a table with the one of that name in the documentation.
func documented(t *testing.T, name, table string) {
	t.Helper()
	docs.Lock()
	defer docs.Unlock()
	const file, to = "../docs/admission.md", "<!-- end -->\n"
	from := "<!-- " + name + " -->\n"
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(raw), from)
	require.True(t, ok)
	old, after, ok := strings.Cut(rest, to)
	require.True(t, ok)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(before+from+table+to+after), 0o644))
		return
	}
	assert.Equal(t, old, table, "run: go test ./admission -run %s -update", t.Name())
}

// One tenant that sends ten times its share, or ten times what the origin can
// serve, beside 99 quiet ones.
func TestQuietTenantsAreServed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ crowd, quiet float64 }{
		{10 * peak / 100, 0.95 * peak / 100}, // together a little more than there is
		{10 * peak, 0.5 * peak / 100},
		{10 * peak, 0.95 * peak / 100},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, Options{Limit: 100})
			w := newWorld(l, 2)
			const end = 20 * time.Second
			w.offer("crowd", Request{Tenant: "crowd"}, c.crowd, 0, end)
			for i := range 99 {
				name := fmt.Sprint(i)
				w.offer(name, Request{Tenant: name}, c.quiet, 0, end)
			}
			w.run(end + 2*time.Second)
			var all, served, sum, squares float64
			for i := range 99 {
				n, good, _ := w.among(fmt.Sprint(i), time.Second, end)
				part := float64(good) / float64(n)
				all, served = all+float64(n), served+float64(good)
				sum, squares = sum+part, squares+part*part
			}
			_, crowd, _ := w.among("crowd", time.Second, end)
			jain := sum * sum / (99 * squares)
			t.Logf("crowd %v/s, others %v/s each: %.2f %% of theirs served, Jain index %.4f, crowd got %.1f/s",
				c.crowd, c.quiet, 100*served/all, jain, float64(crowd)/(end-time.Second).Seconds())
			assert.GreaterOrEqual(t, served/all, 0.99)
			assert.GreaterOrEqual(t, jain, 0.98)
			empty(t, l)
		})
	}
}

// A flood of browsing doesn't slow the checkout down.
func TestCheckoutUnderFlood(t *testing.T) {
	t.Parallel()
	p99 := func(flood float64) (out time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, Options{Limit: 100, ReserveCritical: 20})
			w := newWorld(l, 3)
			const end = 20 * time.Second
			w.offer("checkout", Request{Class: Critical, Tenant: "shop"}, 100, 0, end)
			if flood > 0 {
				w.offer("browsing", Request{Tenant: "shop"}, flood, 0, end)
			}
			w.run(end + 2*time.Second)
			all, good, took := w.among("checkout", 0, end)
			assert.Equal(t, all, good, "none is refused")
			out = percentile(took, 0.99)
			empty(t, l)
		})
		return out
	}
	idle, flooded := p99(0), p99(20*peak)
	t.Logf("p99 of the checkout: idle %v, flooded %v", idle, flooded)
	assert.LessOrEqual(t, flooded, idle*12/10)
}
