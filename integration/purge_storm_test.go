package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/middleware"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/store/disk"
)

// A storm is ten thousand purges a second in calls of some dozens, half of them to
// Middleware.Purge and half to the interface that keeps to budgets.
const (
	stormRate    = 10_000 / 2 // purges a second of each half
	stormTick    = 10 * time.Millisecond
	stormCall    = 64  // purges in one call at most
	budgetRate   = 200 // so little of a storm's half that even one on a busy machine queues
	budgetBurst  = 100
	budgetQueued = 400 // drains in 2 s
)

// stormLength is 3 s, or what WEIR_STORM says, such as 1m. If that's set, the time of
// hits is a condition too.
func stormLength(t *testing.T) time.Duration {
	t.Helper()
	if s := os.Getenv("WEIR_STORM"); s != "" {
		d, err := time.ParseDuration(s)
		require.NoError(t, err)
		return d
	}
	if testing.Short() {
		return time.Second
	}
	return 3 * time.Second
}

// stormRig is a cache with disk and journal that serves two handlers, of the zones ""
// and "2", on a server of its own each.
type stormRig struct {
	t      *testing.T
	mw     *middleware.Middleware
	api    http.Handler
	origin *versioned
	client *http.Client
	url    [2]string
}

func newStormRig(t *testing.T) *stormRig {
	dir := t.TempDir()
	quiet := slog.New(slog.DiscardHandler)
	tier, err := disk.Open(disk.Options{Dir: filepath.Join(dir, "objects"), Logger: quiet})
	require.NoError(t, err)
	mw, err := middleware.New(middleware.Options{
		Store: store.Options{Disk: tier},
		Purge: middleware.PurgeOptions{
			List: purge.Options{
				Journal: filepath.Join(dir, "purges"), Rate: budgetRate, Burst: budgetBurst, MaxQueued: budgetQueued,
			},
			TagFields: []purge.TagField{{Name: "Surrogate-Key"}},
		},
		Logger: quiet,
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, mw.Close(context.Background())) })
	api, err := mw.PurgeAPI(func(*http.Request) (string, error) { return "test", nil })
	require.NoError(t, err)
	s := &stormRig{t: t, mw: mw, api: api, origin: startVersioned(t, 8), client: newClient(t)}
	for _, p := range s.origin.pages {
		p.size = 1 << 10
	}
	for i := range s.url {
		srv := httptest.NewServer(mw.WrapZone([]string{"", "2"}[i], s.origin))
		t.Cleanup(srv.Close)
		s.url[i] = srv.URL
	}
	mw.WrapZone("other", s.origin) // purges of unknown zones are refused
	return s
}

// call calls the JSON interface, and returns the status and what it says.
func (s *stormRig) call(method string, body any) (int, stormAnswer) {
	b, err := json.Marshal(body)
	if err != nil {
		s.t.Error(err)
	}
	r := httptest.NewRequest(method, "/", bytes.NewReader(b))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.api.ServeHTTP(w, r)
	var a stormAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		s.t.Error(err)
	}
	return w.Code, a
}

// stormAnswer is what the tests look at of answers, and of the state.
type stormAnswer struct {
	Applied, Queued int
	Durable         bool
	Folded          uint64
	Backlog         map[string]int
}

// submit purges within the budget, and says what became of it.
func (s *stormRig) submit(zone string, tags ...string) (int, stormAnswer) {
	selectors := []map[string]string{}
	for _, t := range tags {
		selectors = append(selectors, map[string]string{"kind": "tag", "zone": zone, "tag": t})
	}
	return s.call(http.MethodPost, map[string]any{"purge": selectors})
}

// tick calls f for each tick until stop is closed. It's a rate, nothing is awaited.
func tick(every time.Duration, stop <-chan struct{}, f func()) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			f()
		case <-stop:
			return
		}
	}
}

// atRate calls f again and again until stop is closed, with how many are due, in calls
// of some dozens: what a slow call has kept back, too.
func atRate(perSecond int, stop <-chan struct{}, f func(n int)) {
	began, done := time.Now(), 0
	tick(stormTick, stop, func() {
		for due := int(time.Since(began).Seconds()*float64(perSecond)) - done; due > 0; {
			n := min(due, stormCall)
			f(n)
			due, done = due-n, done+n
			select {
			case <-stop:
				return
			default:
			}
		}
	})
}

// storm is what has happened in one.
type storm struct{ purged, applied, queued, refused, others atomic.Int64 }

// rage purges tags that nobody has in a zone until stop is closed, while another
// zone's purges are never held up.
func (s *stormRig) rage(zone string, stop <-chan struct{}) (*storm, *sync.WaitGroup) {
	var st storm
	var made atomic.Int64
	tags := func(n int) []string {
		tags := make([]string, n)
		for i := range tags {
			tags[i] = fmt.Sprint("storm ", made.Add(1))
		}
		return tags
	}
	wg := &sync.WaitGroup{}
	wg.Go(func() {
		atRate(stormRate, stop, func(n int) {
			selectors := make([]purge.Selector, 0, n)
			for _, t := range tags(n) {
				selectors = append(selectors, purge.Selector{Kind: purge.Tag, Zone: zone, Tag: t})
			}
			res, err := s.mw.Purge(context.Background(), selectors...)
			assert.NoError(s.t, err)
			assert.True(s.t, res.Durable)
			st.purged.Add(int64(res.Applied))
		})
	})
	wg.Go(func() {
		atRate(stormRate, stop, func(n int) {
			switch status, a := s.submit(zone, tags(n)...); status {
			case http.StatusOK, http.StatusAccepted:
				st.applied.Add(int64(a.Applied))
				st.queued.Add(int64(a.Queued))
			case http.StatusTooManyRequests:
				st.refused.Add(int64(n))
			default:
				s.t.Errorf("status %d", status)
			}
		})
	})
	wg.Go(func() {
		tick(5*stormTick, stop, func() {
			status, a := s.submit("other", fmt.Sprint("other ", made.Add(1)))
			assert.Equal(s.t, []any{200, 1, 0, true}, []any{status, a.Applied, a.Queued, a.Durable}, "another zone's purge is held up")
			st.others.Add(1)
		})
	})
	return &st, wg
}

// took is how long requests took, and how many of them were hits.
type took struct {
	times []time.Duration
	hits  int
}

func (t *took) quantile(q float64) time.Duration {
	return t.times[min(len(t.times)-1, int(q*float64(len(t.times))))]
}

func (t *took) String() string {
	return fmt.Sprintf("%d requests, %.2f %% hits, p50 %v, p99 %v, p99.9 %v, max %v", len(t.times), 100*float64(t.hits)/float64(len(t.times)),
		t.quantile(0.5), t.quantile(0.99), t.quantile(0.999), t.times[len(t.times)-1])
}

// visit asks for pages for a while, one after the other, by two clients.
func (s *stormRig) visit(url string, d time.Duration) *took {
	var all took
	var mu sync.Mutex
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	for c := range 2 {
		wg.Go(func() {
			var own took
			for i := c; time.Now().Before(end); i++ {
				began := time.Now()
				status, err := s.origin.pages[i%len(s.origin.pages)].get(s.client, url)
				own.times = append(own.times, time.Since(began))
				if !assert.NoError(s.t, err) || !assert.NotEmpty(s.t, status) {
					break
				}
				if status == "HIT" {
					own.hits++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all.times, all.hits = append(all.times, own.times...), all.hits+own.hits
		})
	}
	wg.Wait()
	slices.Sort(all.times)
	return &all
}

// warm asks until all is a hit.
func (s *stormRig) warm(url string) {
	for _, p := range s.origin.pages {
		eventually(s.t, "it's a hit", func() bool {
			status, err := p.get(s.client, url)
			require.NoError(s.t, err)
			return status == "HIT"
		})
	}
}

// Ten thousand purges a second in one zone: those of another zone are all applied at
// once, hits stay hits (in another zone than the storm's) and right, and what queues
// for its budget has all been applied soon afterwards.
func TestPurgeStorm(t *testing.T) {
	for name, zone := range map[string]string{"in another zone": "2", "in the same zone": ""} {
		t.Run(name, func(t *testing.T) {
			s := newStormRig(t)
			length := stormLength(t)
			s.warm(s.url[0])
			s.warm(s.url[1])
			calm := s.visit(s.url[0], min(length, time.Second))
			began, stop := time.Now(), make(chan struct{})
			st, wg := s.rage(zone, stop)
			changing := &sync.WaitGroup{}
			if zone == "" { // pages that really change, too
				changing.Go(func() { tick(5*stormTick, stop, func() { s.change(s.origin.pages[st.others.Load()%8]) }) })
			}
			during := s.visit(s.url[0], length)
			close(stop)
			wg.Wait()
			changing.Wait()
			_, state := s.call(http.MethodGet, nil)
			t.Logf("calm:   %v", calm)
			t.Logf("during: %v", during)
			t.Logf("%d purges applied by Purge, %d at once by Submit, %d queued, %d refused, %d of another zone; backlog at the end %v, %d folded",
				st.purged.Load(), st.applied.Load(), st.queued.Load(), st.refused.Load(), st.others.Load(), state.Backlog, state.Folded)
			// A call may overdraw the budget.
			spent := st.applied.Load() + st.queued.Load() - int64(state.Backlog[zone])
			assert.LessOrEqual(t, spent, int64(budgetBurst+stormCall+budgetRate*time.Since(began).Seconds()), "the zone's budget")
			if zone != "" {
				assert.Equal(t, len(during.times), during.hits, "hits in another zone than the storm's")
			}
			assert.NotZero(t, st.purged.Load())
			assert.NotZero(t, st.queued.Load())
			assert.NotZero(t, st.others.Load())
			if os.Getenv("WEIR_STORM") != "" { // a figure, for a machine that does nothing else
				assert.LessOrEqual(t, during.quantile(0.99), 2*max(calm.quantile(0.99), time.Millisecond))
			}
			s.drains(zone)
		})
	}
}

// change changes a page and purges it by its URL.
func (s *stormRig) change(p *versionedPage) {
	version := p.version.Add(1)
	_, err := s.mw.Purge(context.Background(), purge.Selector{Kind: purge.URL, Host: versionedHost, Path: p.path})
	assert.NoError(s.t, err)
	p.raise(version)
}

// drains has a page purged behind all that queues, and waits until it's new and the
// queue empty.
func (s *stormRig) drains(zone string) {
	s.t.Helper()
	url := s.url[0]
	if zone != "" {
		url = s.url[1]
	}
	s.warm(url)
	for _, p := range s.origin.pages {
		p.version.Add(1)
	}
	eventually(s.t, "there's room in the queue", func() bool {
		status, _ := s.submit(zone, "all")
		return status == http.StatusOK || status == http.StatusAccepted
	})
	eventually(s.t, "the queue is empty", func() bool {
		_, state := s.call(http.MethodGet, nil)
		return len(state.Backlog) == 0
	})
	for _, p := range s.origin.pages {
		p.raise(p.version.Load())
		status, err := p.get(s.client, url)
		assert.NoError(s.t, err)
		assert.NotEmpty(s.t, status)
	}
}
