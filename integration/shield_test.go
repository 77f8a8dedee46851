package integration

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// countingOrigin counts the requests for each path.
type countingOrigin struct {
	*httptest.Server
	mu    sync.Mutex
	asked map[string]int
}

func newCountingOrigin(t *testing.T) *countingOrigin {
	o := &countingOrigin{asked: map[string]int{}}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		o.asked[r.URL.Path]++
		o.mu.Unlock()
		w.Header().Set("Cache-Control", "public, max-age=600")
		fmt.Fprint(w, "page ", r.URL.Path)
	}))
	t.Cleanup(o.Close)
	return o
}

// counts returns how often each path was asked for, and forgets it.
func (o *countingOrigin) counts() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	asked := o.asked
	o.asked = map[string]int{}
	return asked
}

// layers are two caches as edges, two behind them as shields, and an origin. The
// edges place each key at one shield, the same one for both.
type layers struct {
	origin  *countingOrigin
	shields [2]*process
	edges   [2]*proxy
	client  *http.Client
}

func startLayers(t *testing.T) *layers {
	l := &layers{origin: newCountingOrigin(t), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	t.Cleanup(l.client.CloseIdleConnections)
	args := []string{"-policy", "hash-key"}
	for i := range l.shields {
		l.shields[i] = start(t, true, proxyBinary,
			"-listen", "127.0.0.1:0", "-trust", "127.0.0.1", "-origin", l.origin.URL)
		_, rest, found := strings.Cut(l.shields[i].first, "listening on ")
		require.True(t, found, "the shield said %q", l.shields[i].first)
		url, _, _ := strings.Cut(rest, ",")
		args = append(args, "-origin", url)
	}
	first := args[3] // startProxy adds -origin itself
	for i := range l.edges {
		l.edges[i] = startProxy(t, first, append([]string{args[0], args[1]}, args[4:]...)...)
	}
	return l
}

// crowd asks both edges for a path at once, as many times each.
func (l *layers) crowd(t *testing.T, times int, path string) {
	t.Helper()
	var wg sync.WaitGroup
	for _, e := range l.edges {
		for range times {
			wg.Go(func() { l.get(t, e, path) })
		}
	}
	wg.Wait()
}

// get asks an edge for a path. Edges have names of their own, but visitors ask for the
// site's.
func (l *layers) get(t *testing.T, edge *proxy, path string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, edge.url+path, nil)
	if !assert.NoError(t, err) {
		return
	}
	req.Host = "www.example.com"
	resp, err := l.client.Do(req)
	if !assert.NoError(t, err) {
		return
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	assert.NoError(t, err)
	assert.Equal(t, http.StatusOK, resp.StatusCode, path)
	assert.Equal(t, "page "+path, string(body))
}

// pages asks both edges for forty pages, one after the other: with many at once a
// shield that has more than its share would be spared (lb.Pool.HashBound).
func (l *layers) pages(t *testing.T, name string) (once map[string]int) {
	t.Helper()
	once = map[string]int{}
	for i := range 40 {
		path := fmt.Sprint("/", name, i)
		l.crowd(t, 2, path)
		once[path] = 1
	}
	return once
}

// A crowd at all edges is one request at the origin. When a shield dies its keys go to
// the other one: nobody gets an error, and the origin is asked once for each of them.
func TestShield(t *testing.T) {
	l := startLayers(t)
	l.crowd(t, 100, "/hot")
	assert.Equal(t, map[string]int{"/hot": 1}, l.origin.counts())

	once := l.pages(t, "page")
	assert.Equal(t, once, l.origin.counts())

	require.NoError(t, l.shields[0].cmd.Process.Kill())
	<-l.shields[0].ended
	once = l.pages(t, "later")
	assert.Equal(t, once, l.origin.counts())

	l.crowd(t, 100, "/hot")
	assert.Empty(t, l.origin.counts(), "the edges have it")
}
