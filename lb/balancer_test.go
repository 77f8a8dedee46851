package lb

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Exactly one Host is sent: the visitor's, or the configured one.
func TestHostHeader(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host+" "+r.Header.Get("Host")) })
	p := plainPool("p", s.address())
	b := newBalancer(t, Options{Pools: []Pool{p}})
	spoil := func(r *http.Request) { r.Header["Host"] = []string{"evil.test"} }
	assert.Equal(t, "shop.test ", ask(t, b, "GET", "http://shop.test/", "", spoil).body)
	p.Transport.Host = "pool.internal"
	require.NoError(t, b.Update(Options{Pools: []Pool{p}}))
	assert.Equal(t, "pool.internal ", ask(t, b, "GET", "http://shop.test/", "", spoil).body)
	p.Origins[0].HostHeader = "origin.internal"
	require.NoError(t, b.Update(Options{Pools: []Pool{p}}))
	assert.Equal(t, "origin.internal ", ask(t, b, "GET", "http://shop.test/", "", spoil).body)
}

func TestRedirectsArePassedOn(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/other", http.StatusFound) })
	b := newBalancer(t, Options{Pools: []Pool{plainPool("p", s.address())}})
	assert.Equal(t, 302, ask(t, b, "GET", "http://shop.test/", "").status)
	assert.Equal(t, 1, s.count("GET"))
}

// Never more than MaxConnections in flight at an origin, whoever comes at once.
func TestCapacityIsNeverExceeded(t *testing.T) {
	open := make(chan struct{})
	sites := make([]*site, 2)
	for i := range sites {
		sites[i] = newSite(t, func(w http.ResponseWriter, r *http.Request) {
			w.Write([]byte("head"))
			w.(http.Flusher).Flush()
			<-open
		})
	}
	p := plainPool("p", sites[0].address(), sites[1].address())
	p.MaxConnections, p.Origins[1].MaxConnections = 10, 7
	b := newBalancer(t, Options{Pools: []Pool{p}})
	var wg sync.WaitGroup
	var full atomic.Int32
	got := make(chan *http.Response, 64)
	for range 64 {
		wg.Go(func() {
			req, _ := http.NewRequest("GET", "http://shop.test/", nil)
			res, err := b.RoundTrip(req)
			if err != nil {
				var no *NoOriginError
				if errors.As(err, &no) && no.AtCapacity {
					full.Add(1)
				}
				return
			}
			got <- res
		})
	}
	wg.Wait()
	close(got)
	assert.EqualValues(t, 64-17, full.Load())
	assert.EqualValues(t, 10, sites[0].peak.Load())
	assert.EqualValues(t, 7, sites[1].peak.Load())
	// The places are kept until the bodies' end.
	a := ask(t, b, "GET", "http://shop.test/", "")
	assert.Equal(t, &NoOriginError{Host: "shop.test", AtCapacity: true}, a.err)
	assert.Equal(t, map[string]string{"pa": "at capacity", "pb": "at capacity"}, a.trail.origins())
	close(open)
	for res := range got {
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	assert.Equal(t, 200, ask(t, b, "GET", "http://shop.test/", "").status)
}
