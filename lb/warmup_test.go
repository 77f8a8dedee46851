package lb

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	warmOnly    = healthConfig{warmUp: WarmUp{Paths: []string{"/", "/shop?all"}}, hosts: []string{"a.test", "b.test"}}
	warmChecked = healthConfig{check: HealthCheck{Path: "/healthz"}, warmUp: warmOnly.warmUp, hosts: warmOnly.hosts}
	warmAsked   = []string{"GET a.test/", "GET a.test/shop?all", "GET b.test/", "GET b.test/shop?all"}
)

// warmUps are the requests of warm-ups among those that were made.
func (p *patient) warmUps() []string {
	asked := slices.DeleteFunc(p.take(), func(s string) bool { return s == "GET a.test/healthz" })
	slices.Sort(asked)
	return asked
}

func TestWarmUpAsksForAllPathsUnderAllHostsBeforeAnyVisitor(t *testing.T) {
	bubble(t, warmOnly, 1, func(t *testing.T, c *clinic) {
		c.patients[0].set(func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return answerWith(302, "page"), nil
		})
		c.refresh()
		assert.Equal(t, []State{cold}, c.states())
		assert.Equal(t, []State{cold}, c.after(time.Second-1))
		assert.Equal(t, []State{up}, c.after(1), "four at a time")
		assert.Equal(t, warmAsked, c.patients[0].warmUps())
		assert.Equal(t, 4, c.patients[0].peak)
		assert.Equal(t, []State{up}, c.after(time.Hour))
		assert.Empty(t, c.patients[0].warmUps(), "once")
		assert.Equal(t, []string{`level=INFO msg="origin warmed up" pool=main origin=0 reason="all paths were answered"`}, c.logs.take())
	})
}

func TestWarmUpFollowsAPassedCheckOncePerRecovery(t *testing.T) {
	bubble(t, warmChecked, 1, func(t *testing.T, c *clinic) {
		c.patients[0].set(always(500))
		c.refresh()
		assert.Equal(t, []State{cold}, c.states())
		assert.Equal(t, []State{sick}, c.after(time.Minute))
		assert.Empty(t, c.patients[0].warmUps())
		for range 3 {
			c.patients[0].set(nil)
			assert.Equal(t, []State{up}, c.after(time.Minute))
			assert.Equal(t, warmAsked, c.patients[0].warmUps())
			c.patients[0].set(always(500))
			assert.Equal(t, []State{sick}, c.after(time.Minute))
			assert.Empty(t, c.patients[0].warmUps())
		}
	})
}

func TestWarmUpFailsByStatusErrorBodyAndTime(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer func(*http.Request) (*http.Response, error)
		within time.Duration
		reason string
	}{
		{"404", always(404), 1, "a.test/: status 404"},
		{"503", always(503), 1, "a.test/: status 503"},
		{"refused", func(*http.Request) (*http.Response, error) { return nil, errors.New("refused") }, 1, "a.test/: refused"},
		{"broken body", func(*http.Request) (*http.Response, error) {
			closed := false
			return &http.Response{StatusCode: 200, Body: body{&breaks{"x"}, &closed}}, nil
		}, 1, "a.test/: body: unexpected EOF"},
		{"hangs", hangs, 30 * time.Second, "not done within 30s"},
		{"slow", func(*http.Request) (*http.Response, error) {
			time.Sleep(15*time.Second + 1)
			return answerWith(200, ""), nil
		}, 30*time.Second + 2, "not done within 30s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := warmOnly
			cfg.warmUp.Concurrency = 2
			if tt.within == 1 {
				cfg.warmUp.Concurrency = 1
			}
			bubble(t, cfg, 1, func(t *testing.T, c *clinic) {
				c.patients[0].set(tt.answer)
				c.refresh()
				assert.Equal(t, []State{cold}, c.after(tt.within-1))
				assert.Equal(t, []State{cold}, c.after(1))
				assert.Equal(t, []string{fmt.Sprintf(`level=WARN msg="origin's warm-up failed" pool=main origin=0 reason=%q for=10s`, tt.reason)}, c.logs.take())
			})
		})
	}
}

func TestWarmUpReadsAnEndlessBodyUpToABound(t *testing.T) {
	bubble(t, warmOnly, 1, func(t *testing.T, c *clinic) {
		closed := 0
		c.cfg.warmUp.Concurrency = 1
		c.patients[0].set(func(*http.Request) (*http.Response, error) {
			shut := false
			closed++
			return &http.Response{StatusCode: 200, Body: body{endless{}, &shut}}, nil
		})
		c.refresh()
		assert.Equal(t, []State{up}, c.after(time.Millisecond))
		assert.Equal(t, 4, closed)
	})
}

func TestWarmUpIsTriedAgainAfterGrowingPauses(t *testing.T) {
	tries := func(cfg healthConfig) (at []time.Duration) {
		cfg.warmUp.Paths, cfg.hosts = []string{"/"}, []string{"a.test"}
		bubble(t, cfg, 1, func(t *testing.T, c *clinic) {
			start := time.Now()
			c.patients[0].set(func(r *http.Request) (*http.Response, error) {
				if r.URL.Path == "/healthz" {
					return answerWith(200, ""), nil
				}
				at = append(at, time.Since(start))
				return answerWith(503, ""), nil
			})
			c.refresh()
			assert.Equal(t, []State{cold}, c.after(20*time.Minute))
			c.patients[0].set(nil)
			assert.Equal(t, []State{up}, c.after(6*time.Minute))
		})
		return at
	}
	const s = time.Second
	assert.Equal(t, []time.Duration{0, 10 * s, 30 * s, 70 * s, 150 * s, 310 * s, 610 * s, 910 * s}, tries(warmOnly))
	checked := tries(warmChecked)
	require.GreaterOrEqual(t, len(checked), 7)
	for i, pause := range []time.Duration{10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 300 * s} {
		assert.InDelta(t, float64(pause), float64(checked[i+1]-checked[i]), float64(5500*time.Millisecond), "with the next passed check")
		assert.GreaterOrEqual(t, checked[i+1]-checked[i], pause)
	}
}

func TestWarmUpEndsWhenTheOriginTurnsSick(t *testing.T) {
	bubble(t, warmChecked, 1, func(t *testing.T, c *clinic) {
		var sickNow atomic.Bool
		var cancelled atomic.Int32
		c.patients[0].set(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/healthz" {
				return answerWith(map[bool]int{false: 200, true: 500}[sickNow.Load()], ""), nil
			}
			_, err := hangs(r)
			if context.Cause(r.Context()) == context.Canceled {
				cancelled.Add(1)
			}
			return nil, err
		})
		c.refresh()
		assert.Equal(t, []State{cold}, c.after(2*time.Second))
		sickNow.Store(true)
		assert.Equal(t, []State{sick}, c.after(10*time.Second))
		assert.EqualValues(t, 4, cancelled.Load())
		assert.Equal(t, []string{`level=WARN msg="origin unhealthy" pool=main origin=0 reason="status 500"`}, c.logs.take(), "the warm-up has no result")
		c.patients[0].set(nil)
		assert.Equal(t, []State{up}, c.after(10*time.Second))
	})
}

func TestWarmUpOfWhatComesBackFromMaintenance(t *testing.T) {
	for _, cfg := range []healthConfig{warmOnly, warmChecked} {
		bubble(t, cfg, 2, func(t *testing.T, c *clinic) {
			c.beds[1].inRotation = false
			c.refresh()
			assert.Equal(t, []State{up, cold}, c.after(time.Minute))
			assert.Empty(t, c.patients[1].warmUps(), "nothing while it is out")
			for range 2 {
				c.beds[1].inRotation = true
				c.refresh()
				assert.Equal(t, []State{up, up}, c.after(2*time.Second))
				assert.Equal(t, warmAsked, c.patients[1].warmUps())
				c.beds[1].inRotation = false
				c.refresh()
				c.after(time.Minute)
			}
		})
	}
}

func TestWarmUpIsCancelledByMaintenanceAndBegunAgain(t *testing.T) {
	bubble(t, warmOnly, 1, func(t *testing.T, c *clinic) {
		c.patients[0].set(hangs)
		c.refresh()
		c.after(time.Second)
		c.patients[0].take()
		c.beds[0].inRotation = false
		c.refresh()
		synctest.Wait()
		assert.Zero(t, c.patients[0].running)
		c.patients[0].set(nil)
		c.beds[0].inRotation = true
		c.refresh()
		assert.Equal(t, []State{up}, c.after(time.Second))
		assert.Equal(t, warmAsked, c.patients[0].warmUps())
		assert.Len(t, c.logs.take(), 1)
	})
}

// What an older warm-up found says nothing of the origin that has recovered since.
func TestLateWarmUpResultIsIgnored(t *testing.T) {
	cfg := warmChecked
	cfg.check.Fall = 1
	w := newWard(t, cfg, 1)
	c := w.conds[0]
	w.checked(c, "", w.time)
	old, _, ok := w.beginWarmUp(c, w.time)
	require.True(t, ok)
	_, _, ok = w.beginWarmUp(c, w.time)
	assert.False(t, ok, "one at a time")
	w.checked(c, "refused", w.time)
	_, _, ok = w.beginWarmUp(c, w.time)
	assert.False(t, ok, "not while it is unhealthy")
	w.checked(c, "", w.time)
	w.checked(c, "", w.time)
	w.logs.take()
	fresh, _, ok := w.beginWarmUp(c, w.time)
	require.True(t, ok)
	assert.Zero(t, w.endWarmUp(c, old, nil, false, w.time))
	assert.Zero(t, w.endWarmUp(c, old, errors.New("x"), false, w.time))
	assert.Zero(t, w.endWarmUp(c, old, nil, true, w.time))
	assert.Equal(t, []State{cold}, w.states())
	assert.Empty(t, w.logs.take())
	assert.Zero(t, w.endWarmUp(c, fresh, nil, false, w.time))
	assert.Equal(t, []State{up}, w.states())
}

func TestWarmUpUsesTheOriginsOwnHost(t *testing.T) {
	bubble(t, warmOnly, 2, func(t *testing.T, c *clinic) {
		c.beds[0].host = "origin.internal"
		c.cfg.hosts = nil
		c.refresh()
		c.after(time.Second)
		assert.Equal(t, []string{"GET origin.internal/", "GET origin.internal/shop?all"}, c.patients[0].warmUps())
		assert.Equal(t, []string{"GET 1.test:80/", "GET 1.test:80/shop?all"}, c.patients[1].warmUps())
	})
}

func TestWarmUpOfManyOriginsIsBounded(t *testing.T) {
	const n = 300
	bubble(t, warmOnly, n, func(t *testing.T, c *clinic) {
		running, peak := 0, 0
		for i, p := range c.patients {
			p.set(func(r *http.Request) (*http.Response, error) {
				c.logs.mu.Lock()
				running++
				peak = max(peak, running)
				c.logs.mu.Unlock()
				defer func() {
					c.logs.mu.Lock()
					running--
					c.logs.mu.Unlock()
				}()
				if i < 10 {
					return hangs(r)
				}
				time.Sleep(time.Second)
				return answerWith(200, ""), nil
			})
		}
		c.refresh()
		states := c.after(20 * time.Second)
		for i, s := range states {
			require.Equal(t, i < 10, s == cold, i)
		}
		assert.LessOrEqual(t, peak, 64*4)
		c.after(11 * time.Second)
	})
}

func TestSlowStartBeginsAfterTheWarmUp(t *testing.T) {
	cfg := warmOnly
	cfg.slowStart = 16 * time.Second
	bubble(t, cfg, 1, func(t *testing.T, c *clinic) {
		c.refresh()
		c.after(time.Second)
		assert.Equal(t, 16, c.share(0), "not for what is there from the start")
		c.add("new").set(func(*http.Request) (*http.Response, error) {
			time.Sleep(10 * time.Second)
			return answerWith(200, ""), nil
		})
		c.refresh()
		assert.Equal(t, []State{up, up}, c.after(10*time.Second))
		assert.Equal(t, 1, c.share(1))
		c.after(8 * time.Second)
		assert.Equal(t, 8, c.share(1))
	})
}

func TestWarmUpSwitchedOffEndsTheWait(t *testing.T) {
	bubble(t, warmOnly, 1, func(t *testing.T, c *clinic) {
		c.patients[0].set(always(500))
		c.refresh()
		assert.Equal(t, []State{cold}, c.after(time.Second))
		c.cfg.warmUp = WarmUp{}
		c.refresh()
		assert.Equal(t, []State{up}, c.states())
		c.cfg.warmUp = warmOnly.warmUp
		c.refresh()
		assert.Equal(t, []State{up}, c.after(time.Minute), "it has been in use")
	})
}
