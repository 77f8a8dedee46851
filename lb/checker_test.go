package lb

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var checkHome = healthConfig{check: HealthCheck{Path: "/healthz"}}

func TestChecksFindAnOriginSickAndWellAgain(t *testing.T) {
	bubble(t, checkHome, 2, func(t *testing.T, c *clinic) {
		c.refresh()
		assert.Equal(t, []State{up, up}, c.states(), "healthy until the first check says otherwise")
		assert.Equal(t, []State{up, up}, c.after(12*time.Second))
		assert.Equal(t, []string{"GET 0.test:80/healthz", "GET 0.test:80/healthz", "GET 0.test:80/healthz"}, c.patients[0].take())

		c.patients[0].set(always(500))
		// At most one interval, and two fast ones.
		assert.Equal(t, []State{sick, up}, c.after(7800*time.Millisecond))
		c.patients[0].set(nil)
		assert.Equal(t, []State{up, up}, c.after(6700*time.Millisecond))
		assert.Equal(t, []string{
			`level=WARN msg="origin unhealthy" pool=main origin=0 reason="status 500"`,
			`level=INFO msg="origin healthy" pool=main origin=0 reason="its health checks pass"`,
		}, c.logs.take())
	})
}

func TestFirstCheckDecides(t *testing.T) {
	bubble(t, checkHome, 2, func(t *testing.T, c *clinic) {
		c.patients[0].set(always(503))
		c.refresh()
		assert.Equal(t, []State{sick, up}, c.after(time.Second))
	})
	cfg := checkHome
	cfg.check.Pessimistic = true
	bubble(t, cfg, 2, func(t *testing.T, c *clinic) {
		c.patients[0].set(always(503))
		c.refresh()
		assert.Equal(t, []State{sick, sick}, c.states())
		assert.Equal(t, []State{sick, up}, c.after(time.Second))
		assert.Equal(t, []string{
			`level=INFO msg="origin healthy" pool=main origin=1 reason="its health checks pass"`,
		}, c.logs.take(), "what was unhealthy from the start isn't news")
	})
}

func TestChecksThatAlternateDoNotFlap(t *testing.T) {
	bubble(t, checkHome, 1, func(t *testing.T, c *clinic) {
		n := 0
		c.patients[0].set(func(*http.Request) (*http.Response, error) {
			n++
			return answerWith(200+n%2*300, ""), nil // 500, 200, 500 …
		})
		c.refresh()
		for range 3 {
			c.after(time.Second)
		}
		c.logs.take()
		was := c.states()
		for range 300 {
			require.Equal(t, was, c.after(time.Second))
		}
		assert.Empty(t, c.logs.take())
	})
}

func TestHungCheckTimesOutAndDelaysNoOther(t *testing.T) {
	const n = 1000
	bubble(t, checkHome, n, func(t *testing.T, c *clinic) {
		for i := range n / 2 {
			c.patients[i].set(hangs)
		}
		c.refresh()
		states := c.after(time.Minute)
		for i, s := range states {
			want := up
			if i < n/2 {
				want = sick
			}
			require.Equal(t, want, s)
		}
		for i, p := range c.patients {
			require.Equal(t, 1, p.peak, "never two at once")
			if i >= n/2 {
				require.GreaterOrEqual(t, len(p.take()), 11)
			}
		}
		assert.Contains(t, c.logs.take()[0], `reason="no answer within 2s"`)
	})
}

func TestChecksAreSpread(t *testing.T) {
	const n = 1000
	bubble(t, checkHome, n, func(t *testing.T, c *clinic) {
		var mu sync.Mutex
		begun := map[time.Duration]int{}
		start := time.Now()
		for _, p := range c.patients {
			p.set(func(*http.Request) (*http.Response, error) {
				mu.Lock()
				begun[time.Since(start).Truncate(100*time.Millisecond)]++
				mu.Unlock()
				return answerWith(200, ""), nil
			})
		}
		c.refresh()
		c.after(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		for at, count := range begun {
			assert.Less(t, count, 300, "at %v", at)
		}
		late := begun[55*time.Second] + begun[55500*time.Millisecond]
		assert.NotZero(t, late, "after a minute they are spread over the whole interval")
	})
}

func TestCheckSlowerThanItsIntervalIsFollowedByAPause(t *testing.T) {
	cfg := checkHome
	cfg.check.Interval, cfg.check.Timeout = time.Second, 10*time.Second
	bubble(t, cfg, 1, func(t *testing.T, c *clinic) {
		var ended time.Time
		var pauses []time.Duration
		c.patients[0].set(func(*http.Request) (*http.Response, error) {
			if !ended.IsZero() {
				pauses = append(pauses, time.Since(ended))
			}
			time.Sleep(5 * time.Second)
			ended = time.Now()
			return answerWith(200, ""), nil
		})
		c.refresh()
		c.after(time.Minute)
		c.stop()
		assert.Len(t, pauses, 11)
		assert.GreaterOrEqual(t, slices.Min(pauses), 90*time.Millisecond)
		assert.LessOrEqual(t, slices.Max(pauses), 110*time.Millisecond)
	})
}

// Coming back asks for a check at once; the one under way must end first.
func TestComingBackDuringACheckBeginsTheNextRightAfterIt(t *testing.T) {
	cfg := warmChecked
	cfg.check.Interval, cfg.check.FastInterval = time.Minute, time.Minute
	cfg.check.Timeout = 50 * time.Second
	bubble(t, cfg, 1, func(t *testing.T, c *clinic) {
		c.patients[0].set(func(*http.Request) (*http.Response, error) {
			time.Sleep(40 * time.Second)
			return answerWith(200, ""), nil
		})
		c.refresh()
		began := time.Now()
		for len(c.patients[0].take()) == 0 {
			c.after(100 * time.Millisecond)
		}
		require.Less(t, time.Since(began), time.Minute+time.Second)
		for range 3 {
			for _, c.beds[0].inRotation = range []bool{false, true} {
				c.refresh()
			}
			c.after(time.Second)
		}
		assert.Empty(t, c.patients[0].take(), "it is still under way")
		c.patients[0].set(nil)
		c.after(38 * time.Second)
		assert.Contains(t, c.patients[0].take(), "GET a.test/healthz")
	})
}

func TestRemovedOriginsCheckIsCancelledAndIgnored(t *testing.T) {
	bubble(t, checkHome, 2, func(t *testing.T, c *clinic) {
		var ended error
		c.patients[1].set(func(r *http.Request) (*http.Response, error) {
			_, err := hangs(r)
			ended = context.Cause(r.Context())
			return nil, err
		})
		c.refresh()
		c.after(1100 * time.Millisecond)
		removed := c.conds[1]
		c.beds = c.beds[:1]
		c.refresh()
		synctest.Wait()
		assert.ErrorIs(t, ended, context.Canceled)
		c.patients[1].take()
		assert.Equal(t, []State{up}, c.after(time.Minute))
		s, _ := removed.state(c.now())
		assert.Equal(t, up, s)
		assert.Empty(t, c.patients[1].take())
		assert.Empty(t, c.logs.take())

		p := c.add("later")
		p.set(always(500))
		c.refresh()
		assert.Equal(t, []State{up, sick}, c.after(time.Second))
	})
}

// Reloading often must neither restart the checks nor forget their results.
func TestUpdatesDoNotDisturbChecks(t *testing.T) {
	bubble(t, checkHome, 1, func(t *testing.T, c *clinic) {
		c.refresh()
		c.after(time.Second)
		c.patients[0].set(always(500))
		c.patients[0].take()
		for range 100 {
			c.after(100 * time.Millisecond)
			c.refresh()
		}
		assert.Equal(t, []State{sick}, c.states())
		assert.LessOrEqual(t, len(c.patients[0].take()), 5)
	})
}

func TestChecksSwitchedOnAndOffByUpdate(t *testing.T) {
	bubble(t, healthConfig{}, 1, func(t *testing.T, c *clinic) {
		c.patients[0].set(always(500))
		c.refresh()
		assert.Equal(t, []State{up}, c.after(time.Minute))
		assert.Empty(t, c.patients[0].take())
		c.cfg.check.Path = "/"
		c.refresh()
		assert.Equal(t, []State{up}, c.after(1100*time.Millisecond), "it was in use: one result doesn't decide")
		assert.Equal(t, []State{sick}, c.after(2200*time.Millisecond))
		c.cfg.check.Path = ""
		c.refresh()
		assert.Equal(t, []State{up}, c.states())
		c.patients[0].take()
		assert.Equal(t, []State{up}, c.after(time.Minute))
		assert.Empty(t, c.patients[0].take())
	})
}

func TestCloseCancelsChecksAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClinic(t, checkHome, 3)
		for _, p := range c.patients {
			p.set(hangs)
		}
		c.refresh()
		c.after(1100 * time.Millisecond)
		c.stop()
		for _, p := range c.patients {
			assert.Zero(t, p.running)
		}
		c.refresh()
		for _, p := range c.patients {
			p.take()
		}
		c.after(time.Minute)
		for _, p := range c.patients {
			assert.Empty(t, p.take(), "nothing begins after Close")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := newClinic(t, checkHome, 1)
		stubborn := make(chan struct{})
		c.patients[0].set(func(*http.Request) (*http.Response, error) { <-stubborn; return nil, errors.New("late") })
		c.refresh()
		c.after(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		assert.ErrorIs(t, c.close(ctx), context.DeadlineExceeded)
		close(stubborn)
		c.stop()
		assert.Equal(t, []State{up}, c.states(), "its result is ignored")
	})
}

func TestJitterIsATenthAtMost(t *testing.T) {
	const d = 5 * time.Second
	var all []time.Duration
	for seed := range uint64(10_000) {
		j := jittered(seed, d)
		assert.Equal(t, j, jittered(seed, d))
		assert.True(t, j >= d*9/10 && j <= d*11/10)
		all = append(all, j)
	}
	slices.Sort(all)
	assert.InDelta(t, float64(d), float64(all[5000]), float64(20*time.Millisecond))
	assert.Less(t, all[100], d*91/100)
	assert.Greater(t, all[9900], d*109/100)
	assert.Equal(t, time.Duration(1), jittered(1, 1))
}
