package lb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// patient is an origin as checks and warm-ups see it.
type patient struct {
	mu      sync.Mutex
	start   time.Time
	answer  func(*http.Request) (*http.Response, error) // nil: 200
	asked   []string                                    // seconds and what was asked
	running int
	peak    int
}

func newPatient() *patient { return &patient{start: time.Now()} }

func (p *patient) set(answer func(*http.Request) (*http.Response, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

func (p *patient) send(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	answer := p.answer
	p.asked = append(p.asked, fmt.Sprintf("%s %s%s", r.Method, r.Host, r.URL.RequestURI()))
	p.running++
	p.peak = max(p.peak, p.running)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.running--
		p.mu.Unlock()
	}()
	if answer == nil {
		return answerWith(200, "fine"), nil
	}
	return answer(r)
}

// take returns what was asked since the last call.
func (p *patient) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.asked
	p.asked = nil
	return asked
}

func answerWith(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

func always(status int) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return answerWith(status, "page"), nil }
}

func hangs(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// clinic is a pool in a bubble, with time that runs by itself.
type clinic struct {
	*ward
	t        *testing.T
	patients []*patient
}

func newClinic(t *testing.T, cfg healthConfig, n int) *clinic {
	c := &clinic{ward: &ward{logs: &logLines{}}, t: t}
	cfg.pool, cfg.log = "main", c.logs.logger()
	c.cfg = cfg
	c.health = newHealth(newClock())
	c.health.seed = 1
	for i := range n {
		c.add(fmt.Sprint(i))
	}
	return c
}

func (c *clinic) add(id string) *patient {
	p := newPatient()
	c.patients = append(c.patients, p)
	c.beds = append(c.beds, member{id: id, inRotation: true, base: &url.URL{Scheme: "http", Host: id + ".test:80"}, send: p.send})
	return p
}

func (c *clinic) states() []State {
	c.ward.time = c.health.now()
	return c.ward.states()
}

// after waits and returns the states then.
func (c *clinic) after(d time.Duration) []State {
	time.Sleep(d)
	synctest.Wait()
	return c.states()
}

func (c *clinic) stop() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(c.t, c.close(ctx))
}

func bubble(t *testing.T, cfg healthConfig, n int, f func(t *testing.T, c *clinic)) {
	synctest.Test(t, func(t *testing.T) {
		c := newClinic(t, cfg, n)
		f(t, c)
		c.stop()
	})
}

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

// body hangs or breaks after some text.
type body struct {
	io.Reader
	closed *bool
}

func (b body) Close() error { *b.closed = true; return nil }

type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, "aaaaaaaaaaaaaaaa"), nil }

type breaks struct{ before string }

func (b *breaks) Read(p []byte) (int, error) {
	n := copy(p, b.before)
	b.before = b.before[n:]
	if n == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	return n, nil
}

func TestCheckJudgesStatusAndBody(t *testing.T) {
	for _, tt := range []struct {
		name   string
		check  HealthCheck
		status int
		body   io.Reader
		want   string
	}{
		{"200", HealthCheck{}, 200, strings.NewReader("x"), ""},
		{"204", HealthCheck{}, 204, strings.NewReader(""), ""},
		{"a redirect passes", HealthCheck{}, 302, strings.NewReader(""), ""},
		{"404", HealthCheck{}, 404, strings.NewReader(""), "status 404"},
		{"199", HealthCheck{}, 199, strings.NewReader(""), "status 199"},
		{"one status", HealthCheck{Status: []StatusRange{{First: 401}}}, 401, strings.NewReader(""), ""},
		{"only that", HealthCheck{Status: []StatusRange{{First: 401}}}, 200, strings.NewReader(""), "status 200"},
		{"several ranges", HealthCheck{Status: []StatusRange{{200, 204}, {401, 403}}}, 402, strings.NewReader(""), ""},
		{"between ranges", HealthCheck{Status: []StatusRange{{200, 204}, {401, 403}}}, 301, strings.NewReader(""), "status 301"},
		{"text found", HealthCheck{Body: "fine"}, 200, strings.NewReader("all is fine here"), ""},
		{"text missing", HealthCheck{Body: "fine"}, 200, strings.NewReader("all is lost"), "the expected text isn't in the body"},
		{"text within the bound", HealthCheck{Body: "fine"}, 200, strings.NewReader(strings.Repeat("a", 64<<10-4) + "fine"), ""},
		{"text beyond the bound", HealthCheck{Body: "fine"}, 200, strings.NewReader(strings.Repeat("a", 64<<10-3) + "fine"), "the expected text isn't in the body"},
		{"endless body", HealthCheck{}, 200, endless{}, ""},
		{"endless body with text", HealthCheck{Body: "b"}, 200, endless{}, "the expected text isn't in the body"},
		{"endless error page", HealthCheck{}, 500, endless{}, "status 500"},
		{"broken body", HealthCheck{}, 200, &breaks{"fi"}, "body: unexpected EOF"},
		{"broken before the text", HealthCheck{Body: "fine"}, 200, &breaks{"fi"}, "body: unexpected EOF"},
		{"broken after the text", HealthCheck{Body: "fine"}, 200, &breaks{"fine"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			closed := false
			got := tt.check.withDefaults().judge(&http.Response{StatusCode: tt.status, Body: body{tt.body, &closed}})
			assert.Equal(t, tt.want, got)
			assert.True(t, closed)
		})
	}
}

func TestCheckRequest(t *testing.T) {
	m := member{base: &url.URL{Scheme: "https", Host: "[2001:db8::1]:443"}}
	fixed := m
	fixed.host = "origin.internal"
	hosts := []string{"www.example.com", "example.com"}
	for _, tt := range []struct {
		check HealthCheck
		m     member
		hosts []string
		want  string
	}{
		{HealthCheck{Path: "/"}, m, nil, "GET https://[2001:db8::1]:443/ as [2001:db8::1]:443"},
		{HealthCheck{Path: "/a%2Fb?c=d"}, m, hosts, "GET https://[2001:db8::1]:443/a%2Fb?c=d as www.example.com"},
		{HealthCheck{Path: "/"}, fixed, hosts, "GET https://[2001:db8::1]:443/ as origin.internal"},
		{HealthCheck{Path: "/", Host: "check.me", Method: "HEAD", Port: 9000}, fixed, hosts, "HEAD https://[2001:db8::1]:9000/ as check.me"},
		{HealthCheck{Path: "//evil.test/x"}, m, hosts, "GET https://[2001:db8::1]:443//evil.test/x as www.example.com"},
	} {
		req, err := tt.check.withDefaults().request(context.Background(), tt.m, tt.hosts)
		require.NoError(t, err)
		assert.Equal(t, tt.want, req.Method+" "+req.URL.String()+" as "+req.Host)
		assert.Equal(t, http.Header{"User-Agent": {"weir"}}, req.Header)
	}
	req, err := HealthCheck{Path: "/", Header: http.Header{"User-Agent": {"me"}, "X-Forwarded-Proto": {"https"}}}.withDefaults().
		request(context.Background(), m, nil)
	require.NoError(t, err)
	assert.Equal(t, http.Header{"User-Agent": {"me"}, "X-Forwarded-Proto": {"https"}}, req.Header)
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
