package middleware

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/lb"
	"github.com/weirhttp/weir/trace"
)

// poolRig is the cache in front of a pool of origins.
type poolRig struct {
	t       *testing.T
	h       http.Handler
	records chan *trace.Record
}

func newPoolRig(t *testing.T, o Options, pool lb.Pool, p lb.ProxyOptions) *poolRig {
	t.Helper()
	pool.Name, pool.Transport.Scheme = "shop", "http"
	b, err := lb.New(lb.Options{Pools: []lb.Pool{pool}})
	require.NoError(t, err)
	p.Transport = b
	proxy, err := lb.NewProxy(p)
	require.NoError(t, err)
	rig := &poolRig{t: t, records: make(chan *trace.Record, 10)}
	o.Logger = quietLog()
	o.Hook = func(r *trace.Record) { rig.records <- r.Clone() }
	mw, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, mw.Close(context.Background()))
		assert.NoError(t, b.Close(context.Background()))
	})
	rig.h = mw.Wrap(proxy)
	return rig
}

func (r *poolRig) do(method, target string, header ...string) (*httptest.ResponseRecorder, *trace.Record) {
	w := recorder()
	r.h.ServeHTTP(w, request(method, target, header...))
	return w, <-r.records
}

// namedOrigin answers with its name.
func namedOrigin(t *testing.T, id, control string) (lb.Origin, *httptest.Server) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", control)
		fmt.Fprint(w, id)
	}))
	t.Cleanup(srv.Close)
	return lb.Origin{ID: id, Address: srv.Listener.Addr().String()}, srv
}

// trailOf is a record's origins without the times, which must make sense.
func trailOf(t *testing.T, r *trace.Record) trace.Origin {
	o := r.Clone().Origin
	if len(o.Skipped) == 0 {
		o.Skipped = nil // pooled records keep room
	}
	if len(o.Attempts) == 0 {
		o.Attempts = nil
	}
	for i := range o.Attempts {
		a := &o.Attempts[i]
		assert.GreaterOrEqual(t, a.Start, time.Duration(0))
		assert.LessOrEqual(t, a.HeadAfter, r.Duration)
		assert.Equal(t, a.Status != 0, a.HeadAfter > 0)
		assert.Equal(t, a.Status == 0, a.Err != "")
		a.Start, a.HeadAfter, a.Duration = 0, 0, 0
		if a.Err != "" {
			a.Err = "failed"
		}
	}
	return o
}

// Of every origin the record says whether it was asked, and why not; of a fetch, of what
// is handed on, and nothing of a hit.
func TestRecordNamesTheOrigins(t *testing.T) {
	a, gone := namedOrigin(t, "a", "")
	gone.Close()
	b, _ := namedOrigin(t, "b", "public, max-age=60")
	c, _ := namedOrigin(t, "c", "")
	c.Maintenance = true
	rig := newPoolRig(t, Options{Debug: func(*http.Request) bool { return true }},
		lb.Pool{Origins: []lb.Origin{a, b, c}, Policy: lb.Failover, Ejection: lb.Ejection{Off: true}}, lb.ProxyOptions{})
	whole := trace.Origin{
		Pool: "shop", Policy: "failover", Chosen: "b",
		Skipped:  []trace.Skip{{Name: "shop/c", Reason: "in maintenance"}},
		Attempts: []trace.Attempt{{Origin: "shop/a", Err: "failed"}, {Origin: "shop/b", Status: 200}},
	}
	for _, path := range []string{"/", "/other?x=1"} {
		w, rec := rig.do("GET", path)
		require.Equal(t, "b", w.Body.String())
		require.Equal(t, whole, trailOf(t, rec))
		require.Contains(t, w.Header().Get(trace.HeaderCacheOrigin), `pool=shop policy=failover skipped="shop/c: in maintenance" tried="shop/a: `)
		require.Contains(t, w.Header().Get(trace.HeaderCacheOrigin), `tried="shop/b: 200" chosen=b`)
	}
	w, rec := rig.do("GET", "/")
	require.Equal(t, "HIT", w.Header().Get("Weir-Cache-Status"))
	require.Equal(t, trace.Origin{}, trailOf(t, rec))
	w, rec = rig.do("HEAD", "/third")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, whole, trailOf(t, rec))
	// A POST is never sent twice.
	w, rec = rig.do("POST", "/")
	require.Equal(t, http.StatusBadGateway, w.Code)
	require.Equal(t, trace.Origin{
		Pool: "shop", Policy: "failover", Skipped: whole.Skipped, Attempts: whole.Attempts[:1],
	}, trailOf(t, rec))
}

// Noting the origins, which debugging does at the head and at the end, makes nothing but the
// names.
func TestNotingOriginsAllocatesTheNamesOnly(t *testing.T) {
	origin, _ := namedOrigin(t, "a", "no-store")
	b, err := lb.New(lb.Options{Pools: []lb.Pool{{
		Name: "shop", Origins: []lb.Origin{origin}, Transport: lb.TransportOptions{Scheme: "http"},
	}}})
	require.NoError(t, err)
	defer b.Close(context.Background())
	ctx, trail := lb.WithTrail(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", "http://shop.test/", nil)
	require.NoError(t, err)
	res, err := b.RoundTrip(req)
	require.NoError(t, err)
	res.Body.Close()
	x := &exchange{trail: trail, rec: &trace.Record{}}
	x.noteOrigins()
	require.Equal(t, "a", x.rec.Origin.Chosen)
	require.Len(t, x.rec.Origin.Attempts, 1)
	testnet.Allocs(t, 1, x.noteOrigins)
	testnet.Allocs(t, 0, func() { unanswered(trail) })
}

// No origin answers: a stale response stands in as it does where the origin can't be
// reached, whoever answers for the balancer. What isn't stored is an honest error.
func TestPoolThatFailsGivesStale(t *testing.T) {
	for name, p := range map[string]lb.ProxyOptions{"the proxy's answer": {}, "ProxyErrorHandler": {ErrorHandler: ProxyErrorHandler}} {
		t.Run(name, func(t *testing.T) {
			a, srv := namedOrigin(t, "a", "public, max-age=0")
			rig := newPoolRig(t, Options{Default: Route{StoreStale: true}}, lb.Pool{Origins: []lb.Origin{a}}, p)
			rig.do("GET", "/")
			srv.Close()
			w, rec := rig.do("GET", "/")
			require.Equal(t, "a", w.Body.String())
			require.Equal(t, trace.StaleError, rec.Cache.Status)
			require.Equal(t, "", rec.Origin.Chosen)
			require.NotEmpty(t, rec.Origin.Attempts) // twice if the kept connection was tried first
			w, _ = rig.do("HEAD", "/", "Cache-Control", "max-age=0")
			require.Equal(t, "STALE-ERROR", w.Header().Get("Weir-Cache-Status"))
			w, _ = rig.do("GET", "/other")
			require.Equal(t, http.StatusBadGateway, w.Code)
		})
	}
}

// An origin's own error isn't one that can't be reached: without stale-if-error it's
// passed on, also when another origin gave no answer after it.
func TestAnswerOfAnyOriginIsPassedOn(t *testing.T) {
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	for name, others := range map[string][]lb.Origin{
		"alone": nil, "the next one refuses": {{ID: "b", Address: dead.Listener.Addr().String()}},
	} {
		t.Run(name, func(t *testing.T) {
			down := false
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Cache-Control", "public, max-age=0")
				if down {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
				fmt.Fprint(w, "page")
			}))
			t.Cleanup(srv.Close)
			origins := append([]lb.Origin{{ID: "a", Address: srv.Listener.Addr().String()}}, others...)
			rig := newPoolRig(t, Options{Default: Route{StoreStale: true}},
				lb.Pool{Policy: lb.Failover, Origins: origins}, lb.ProxyOptions{ErrorHandler: ProxyErrorHandler})
			rig.do("GET", "/")
			down = true
			w, rec := rig.do("GET", "/")
			require.Equal(t, http.StatusServiceUnavailable, w.Code)
			require.Equal(t, "a", rec.Origin.Chosen)
			require.Len(t, rec.Origin.Attempts, len(origins))
		})
	}
}

// A pool without a free place is a 503 that says when to come again, on a fetch and
// past it.
func TestPoolAtCapacity(t *testing.T) {
	gate := closedUntilEnd(t)
	entered := make(chan struct{}, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		gate.Wait(r.Context())
	}))
	t.Cleanup(srv.Close)
	rig := newPoolRig(t, Options{}, lb.Pool{
		Origins: []lb.Origin{{ID: "a", Address: srv.Listener.Addr().String(), MaxConnections: 1}},
	}, lb.ProxyOptions{ErrorHandler: ProxyErrorHandler})
	done := make(chan struct{})
	go func() { defer close(done); rig.h.ServeHTTP(recorder(), request("POST", "/")) }()
	<-entered
	for _, method := range []string{"GET", "POST"} {
		w, rec := rig.do(method, "/x")
		require.Equal(t, http.StatusServiceUnavailable, w.Code, method)
		require.NotEmpty(t, w.Header().Get("Retry-After"), method)
		require.Equal(t, []trace.Skip{{Name: "shop/a", Reason: "at capacity"}}, rec.Origin.Skipped)
	}
	gate.Open()
	<-done
}

// The balancer places a request by its cache key, and a client by the address that a
// trusted proxy tells; neither by what a stranger says.
func TestBalancerGoesByKeyAndClient(t *testing.T) {
	var origins []lb.Origin
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		o, _ := namedOrigin(t, id, "no-store")
		origins = append(origins, o)
	}
	keyed := newPoolRig(t, Options{}, lb.Pool{Origins: origins, Policy: lb.HashKey}, lb.ProxyOptions{})
	seen := map[string]bool{}
	for i := range 40 {
		first, _ := keyed.do("GET", fmt.Sprint("/", i))
		again, _ := keyed.do("GET", fmt.Sprint("/", i), "Accept", "text/html")
		require.Equal(t, first.Body.String(), again.Body.String())
		seen[first.Body.String()] = true
	}
	require.Len(t, seen, 5)

	o := trustedNet
	clients := newPoolRig(t, o, lb.Pool{Origins: origins, Policy: lb.HashClient}, lb.ProxyOptions{})
	by := func(peer string, i int) string {
		w, _ := clients.do("GET", "/", "Peer", peer, "X-Forwarded-For", fmt.Sprintf("203.0.%d.7", i))
		return w.Body.String()
	}
	trusted, stranger := map[string]bool{}, map[string]bool{}
	for i := range 40 {
		trusted[by("10.1.2.3", i)] = true
		stranger[by("192.0.2.9", i)] = true
	}
	require.Len(t, trusted, 5)
	require.Len(t, stranger, 1)
}
