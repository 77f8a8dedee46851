package lb

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
