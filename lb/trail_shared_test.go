package lb

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// askWith asks with a context, for the path.
func askWith(ctx context.Context, b *Balancer, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", "http://x.test"+path, nil)
	if err != nil {
		return nil, err
	}
	return (&http.Client{Transport: b}).Do(req)
}

// A handler fans out with its request's context: every response can be read to its
// end, in any order, and the trail is the last request's.
func TestTrailOfRequestsThatOverlap(t *testing.T) {
	gate := testnet.NewGate()
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			http.NewResponseController(w).Flush()
			gate.Wait(r.Context())
		}
		io.WriteString(w, r.URL.Path)
	})
	b := newBalancer(t, Options{Pools: []Pool{plainPool("p", s.address())}})
	ctx, trail := WithTrail(t.Context())
	get := func(path string) *http.Response {
		res, err := askWith(ctx, b, path)
		require.NoError(t, err)
		return res
	}
	read := func(res *http.Response) string {
		defer res.Body.Close()
		s, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return string(s)
	}
	first, slow := get("/first"), get("/slow")
	assert.Equal(t, "/first", read(first))
	assert.False(t, trail.Record().Done, "the last request goes on")
	third := get("/third")
	gate.Open()
	assert.Equal(t, "/slow", read(slow))
	r := trail.Record()
	assert.Equal(t, []any{false, 1}, []any{r.Done, len(r.Attempts)})
	assert.Zero(t, r.Attempts[0].Total, "of the third")
	assert.Equal(t, "/third", read(third))
	assert.True(t, trail.Record().Done)
	assert.Zero(t, b.Status()[0].Origins[0].InFlight)
}

// Requests that fail, are repeated and are denied it share a context.
func TestTrailOfRequestsAtOnce(t *testing.T) {
	no := saying(503, "no")
	p := plainPool("p", newSite(t, no).address(), newSite(t, no).address())
	p.Retry.Floor, p.Retry.Percent = 20, 10
	b := newBalancer(t, Options{Pools: []Pool{p}})
	ctx, trail := WithTrail(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				res, err := askWith(ctx, b, "/")
				if assert.NoError(t, err) {
					io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
			}
		})
	}
	wg.Wait()
	r := trail.Record()
	assert.True(t, r.Done)
	assert.LessOrEqual(t, len(r.Attempts), 2)
	for _, o := range b.Status()[0].Origins {
		assert.Zero(t, o.InFlight)
	}
}
