package middleware

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/trace"
)

// limited are options with a limiter.
func limited(o admission.Options) Options {
	return Options{Admission: AdmissionOptions{Limiter: &o}}
}

// patient are options with a limiter, whose waiters wait for longer than its queue.
func patient(o admission.Options) Options {
	opts := limited(o)
	opts.WaitTimeout = o.QueueTimeout + time.Second
	return opts
}

// works is an origin that counts what it does at once. Each request works until its
// time is over; one for a path beginning with /held works until free is called.
type works struct {
	took time.Duration
	free func()

	mu      sync.Mutex
	now     int
	peak    int
	order   []string
	release chan struct{}
}

func newWorks(took time.Duration) *works {
	o := &works{took: took, release: make(chan struct{})}
	o.free = sync.OnceFunc(func() { close(o.release) })
	return o
}

func (o *works) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	o.now++
	o.peak = max(o.peak, o.now)
	o.order = append(o.order, r.URL.Path)
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		o.now--
		o.mu.Unlock()
	}()
	goodFor60(w.Header())
	if len(r.URL.Path) >= 5 && r.URL.Path[:5] == "/held" {
		_ = http.NewResponseController(w).Flush() // the head comes at once
		<-o.release
	} else {
		time.Sleep(o.took)
	}
	_, _ = io.WriteString(w, r.URL.Path)
}

func (o *works) count(path string) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.order {
		if p == path {
			n++
		}
	}
	return n
}

// holdOne takes a permit until the origin is freed.
func holdOne(t *testing.T, r *rig, path string) *call {
	t.Helper()
	before := r.inUse()
	c := r.lead(path)
	require.Equal(t, before+1, r.inUse())
	return c
}

func (r *rig) inUse() int   { return r.mw.AdmissionStats().Limiter.InUse }
func (r *rig) waiting() int { return r.mw.AdmissionStats().Limiter.Waiting }

// tries is how often the limiter was asked.
func (r *rig) tries() (n uint64) {
	s := r.mw.AdmissionStats().Limiter
	n = s.Admitted
	for _, k := range s.Refused {
		n += k
	}
	return n
}

// record is that of the last request to have ended.
func (r *rig) record() *trace.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	require.NotEmpty(r.t, r.records)
	return r.records[len(r.records)-1]
}

// startPost is start for a POST without a body.
func (r *rig) startPost(path string, header ...string) *call {
	ctx, cancel := context.WithCancel(context.Background())
	c := &call{cancel: cancel, done: make(chan struct{})}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+path, nil)
	require.NoError(r.t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	go func() {
		defer close(c.done)
		defer cancel()
		c.run(r.client, req)
	}()
	return c
}

// shed checks a refusal.
func (c *call) shed(t *testing.T, status int) {
	t.Helper()
	require.Equal(t, "SHED", c.whole(t, status, http.StatusText(status)+"\n"))
	require.GreaterOrEqual(t, atoi(c.header.Get("Retry-After")), 1)
	require.Equal(t, "no-store", c.header.Get("Cache-Control"))
	require.Equal(t, "weir", c.header.Get("Cache-Status"))
}

// settle lets everything that can go on do so.
func settle() { synctest.Wait() }
