package lb

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// site is an origin with a real socket that counts what it gets.
type site struct {
	*httptest.Server
	mu   sync.Mutex
	seen map[string]int // by method
	ids  map[string]int // by X-Request
	now  atomic.Int32   // in flight
	peak atomic.Int32
	h    atomic.Pointer[http.HandlerFunc]
}

func newSite(t testing.TB, h http.HandlerFunc) *site {
	s := &site{seen: map[string]int{}, ids: map[string]int{}}
	s.handle(h)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.Config.ErrorLog = noLog
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func (s *site) handle(h http.HandlerFunc) { s.h.Store(&h) }

func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.seen[r.Method]++
	s.ids[r.Header.Get("X-Request")]++
	s.mu.Unlock()
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for p := s.peak.Load(); n > p && !s.peak.CompareAndSwap(p, n); p = s.peak.Load() {
	}
	(*s.h.Load())(w, r)
}

func (s *site) count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[method]
}

func (s *site) address() string { return s.Listener.Addr().String() }

// saying answers with a status and a text.
func saying(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(status)
		io.WriteString(w, text)
	}
}

// deadAddress is where nobody listens.
func deadAddress(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// plainPool is a pool of HTTP origins named a, b, c... that are never ejected.
func plainPool(name string, addresses ...string) Pool {
	p := Pool{Name: name, Transport: TransportOptions{Scheme: "http"}, Ejection: Ejection{Off: true}, Policy: Failover}
	for i, a := range addresses {
		p.Origins = append(p.Origins, Origin{ID: name + string(rune('a'+i)), Address: a})
	}
	return p
}

func newBalancer(t testing.TB, o Options) *Balancer {
	t.Helper()
	b, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.Close(context.Background())) })
	return b
}

// answer is what a client sees.
type answer struct {
	status int
	body   string
	err    error
	trail  Record
}

func ask(t testing.TB, rt http.RoundTripper, method, url, body string, opts ...func(*http.Request)) answer {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = struct{ io.Reader }{strings.NewReader(body)} // without GetBody, as from a server
	}
	ctx, trail := WithTrail(context.Background())
	req, err := http.NewRequestWithContext(ctx, method, url, r)
	require.NoError(t, err)
	if body != "" {
		req.ContentLength = int64(len(body))
	}
	for _, o := range opts {
		o(req)
	}
	res, err := rt.RoundTrip(req)
	if err != nil {
		return answer{err: err, trail: trail.Record()}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, string(text), err, trail.Record()}
}

// origins tells the reasons of all origins, by ID.
func (r Record) origins() map[string]string {
	out := map[string]string{}
	for _, o := range r.Origins {
		out[o.Origin] = o.String()
	}
	return out
}

// attempts tells the attempts as text.
func (r Record) attempts() []string {
	var out []string
	for _, a := range r.Attempts {
		what := a.Failure.String()
		if a.Status != 0 {
			what = http.StatusText(a.Status)
		}
		out = append(out, a.Origin+": "+what+"; "+a.Next)
	}
	return out
}

// Every skipped origin has its own reason in the trail.
func TestTrailNamesEveryReason(t *testing.T) {
	ok := newSite(t, saying(200, "hello"))
	p := plainPool("p", ok.address(), "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4", "127.0.0.1:5", ok.address(), ok.address())
	p.Origins[0].Disabled = true
	p.Origins[1].Maintenance = true
	p.Origins[2].Drained = true
	b := newBalancer(t, Options{Pools: []Pool{p}})
	g := b.view.Load().all[0]
	publish := func(i int, f facts) { g.servers[i].cond.facts.Store(&f) }
	publish(3, facts{gen: 1, base: StateUnhealthy})
	publish(4, facts{gen: 1, ejectedUntil: 1 << 60})
	publish(5, facts{gen: 1, circuit: circuitOpen, circuitFree: 1 << 60})
	g.servers[6].entry.load.inFlight.Store(DefaultMaxConnections)
	a := ask(t, b, "GET", "http://shop.test/", "")
	require.NoError(t, a.err)
	assert.Equal(t, "hello", a.body)
	assert.Equal(t, map[string]string{
		"pa": "disabled", "pb": "in maintenance", "pc": "drained (zero weight)", "pd": "unhealthy", "pe": "ejected",
		"pf": "circuit open", "pg": "at capacity", "ph": "used",
	}, a.trail.origins())
	assert.Equal(t, []string{"ph: OK; "}, a.trail.attempts())
	assert.Equal(t, []PoolStep{{"p", 2, 1}}, a.trail.Pools)
	assert.True(t, a.trail.Done)
	assert.Equal(t, ok.address(), a.trail.Attempts[0].Remote)
	publish(6, facts{gen: 1, base: StateWarmingUp})
	g.servers[6].entry.load.inFlight.Store(0)
	g.stale.Store(true)
	a = ask(t, b, "GET", "http://shop.test/", "")
	assert.Equal(t, "warming up", a.trail.origins()["pg"])
}

func TestFailedAttemptGoesToTheNextOrigin(t *testing.T) {
	ok := newSite(t, saying(200, "second"))
	b := newBalancer(t, Options{Pools: []Pool{plainPool("p", deadAddress(t), ok.address())}})
	for _, m := range []string{"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"} {
		a := ask(t, b, m, "http://shop.test/", "")
		require.NoError(t, a.err, m)
		assert.Equal(t, 200, a.status)
		assert.Equal(t, []string{"pa: connection refused; next origin", "pb: OK; "}, a.trail.attempts(), m)
		b.view.Load().all[0].shared.budget = budget{}
	}
	for _, m := range []string{"POST", "PATCH", "CONNECT", "QUERY"} {
		a := ask(t, b, m, "http://shop.test/", "", func(r *http.Request) { r.Header.Set("Idempotency-Key", "1") })
		require.Error(t, a.err, m)
		assert.Equal(t, FailureDial, FailureOf(a.err))
		assert.Equal(t, []string{"pa: connection refused; none: the method is never repeated"}, a.trail.attempts(), m)
	}
	assert.Equal(t, 0, ok.count("POST")+ok.count("PATCH"))
}

// With Unsent, a POST whose connection was refused goes on with its whole body.
func TestUnsentPostGoesOn(t *testing.T) {
	var got string
	ok := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = string(b)
	})
	p := plainPool("p", deadAddress(t), ok.address())
	p.Retry.Unsent = true
	b := newBalancer(t, Options{Pools: []Pool{p}})
	body := strings.Repeat("0123456789abcdef", 68<<6)
	a := ask(t, b, "POST", "http://shop.test/", body)
	require.NoError(t, a.err)
	assert.Equal(t, body, got)
	assert.Equal(t, 1, ok.count("POST"))
}

// A body that was sent is sent again if it fits, and else the failure is told.
func TestBodyIsSentAgain(t *testing.T) {
	var got string
	cutting := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	})
	ok := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = string(b)
	})
	p := plainPool("p", cutting.address(), ok.address())
	p.Retry.BodyBytes = 1000
	b := newBalancer(t, Options{Pools: []Pool{p}})
	for _, n := range []int{1, 999, 1000} {
		body := strings.Repeat("x", n)
		a := ask(t, b, "PUT", "http://shop.test/", body)
		require.NoError(t, a.err, n)
		assert.Equal(t, body, got)
		b.view.Load().all[0].shared.budget = budget{}
	}
	for _, length := range []int64{1001, -1} {
		a := ask(t, b, "PUT", "http://shop.test/", strings.Repeat("x", 1001), func(r *http.Request) { r.ContentLength = length })
		require.Error(t, a.err)
		assert.Equal(t, []string{"pa: connection lost before the response; none: the body can't be sent again"}, a.trail.attempts())
	}
	assert.Equal(t, 5, cutting.count("PUT"))
	assert.Equal(t, 3, ok.count("PUT"))
}

// 502, 503 and 504 are failed attempts; the last answer is passed on honestly.
func TestFailingAnswers(t *testing.T) {
	first := newSite(t, saying(503, "first is busy"))
	second := newSite(t, saying(200, "second"))
	b := newBalancer(t, Options{Pools: []Pool{plainPool("p", first.address(), second.address())}})
	a := ask(t, b, "GET", "http://shop.test/", "")
	assert.Equal(t, "second", a.body)
	assert.Equal(t, []string{"pa: Service Unavailable; next origin", "pb: OK; "}, a.trail.attempts())

	second.handle(saying(502, "second is broken"))
	a = ask(t, b, "GET", "http://shop.test/", "")
	assert.Equal(t, answer{502, "second is broken", nil, a.trail}, a)
	assert.Equal(t, []string{"pa: Service Unavailable; next origin", "pb: Bad Gateway; none: no other origin"}, a.trail.attempts())

	// Nothing better came: the answer that was held is passed on.
	second.handle(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	a = ask(t, b, "GET", "http://shop.test/", "")
	assert.Equal(t, answer{503, "first is busy", nil, a.trail}, a)
	assert.Equal(t, "pa", a.trail.Origin)

	// A 500 is the page's own, and a POST's 503 is passed on.
	first.handle(saying(500, "oops"))
	a = ask(t, b, "GET", "http://shop.test/", "")
	assert.Equal(t, answer{500, "oops", nil, a.trail}, a)
	first.handle(saying(503, `{"error":1}`))
	a = ask(t, b, "POST", "http://shop.test/", "x")
	assert.Equal(t, answer{503, `{"error":1}`, nil, a.trail}, a)
	assert.Equal(t, 1, first.count("POST"))
	assert.Equal(t, 0, second.count("POST"))
	for _, s := range b.view.Load().all[0].servers {
		assert.Zero(t, s.entry.load.inFlight.Load())
	}
}

// A pool that fails as a whole gets a fifth more requests, not three times as many.
func TestRetryBudgetStopsStorms(t *testing.T) {
	sites := []*site{newSite(t, saying(503, "")), newSite(t, saying(503, "")), newSite(t, saying(503, ""))}
	p := plainPool("p", sites[0].address(), sites[1].address(), sites[2].address())
	p.Policy = RoundRobin
	b := newBalancer(t, Options{Pools: []Pool{p}})
	const n = 1000
	denied := 0
	for range n {
		a := ask(t, b, "GET", "http://shop.test/", "")
		assert.Equal(t, 503, a.status)
		if last := a.trail.Attempts[len(a.trail.Attempts)-1].Next; last == noneBudget {
			denied++
		}
	}
	total := sites[0].count("GET") + sites[1].count("GET") + sites[2].count("GET")
	// The floor is for each ten seconds, of which a slow machine needs several.
	assert.LessOrEqual(t, total, n+n/5+10*DefaultRetryFloor)
	assert.Greater(t, total, n+n/10)
	assert.Positive(t, denied)
}

func TestAttemptsAreThreeAtMost(t *testing.T) {
	var sites []*site
	var addresses []string
	for range 5 {
		s := newSite(t, saying(502, ""))
		sites, addresses = append(sites, s), append(addresses, s.address())
	}
	b := newBalancer(t, Options{Pools: []Pool{plainPool("p", addresses...)}})
	a := ask(t, b, "GET", "http://shop.test/", "")
	assert.Equal(t, []string{"pa: Bad Gateway; next origin", "pb: Bad Gateway; next origin", "pc: Bad Gateway; none: no attempts left"}, a.trail.attempts())
	total := 0
	for _, s := range sites {
		assert.LessOrEqual(t, s.count("GET"), 1)
		total += s.count("GET")
	}
	assert.Equal(t, 3, total)
}

// Below its minimum a pool is passed over; with nothing eligible anywhere, sick
// origins are tried, and warming ones last.
func TestPoolsAndPanic(t *testing.T) {
	one, two := newSite(t, saying(200, "one")), newSite(t, saying(200, "two"))
	p, q := plainPool("p", one.address(), one.address()), plainPool("q", two.address())
	p.MinimumHealthy = 2
	p.Transport.IdleConnections, q.Transport.IdleConnections = -1, -1
	b := newBalancer(t, Options{Pools: []Pool{p, q}})
	first, second := b.view.Load().all[0], b.view.Load().all[1]
	set := func(s *server, f facts) {
		f.gen, f.plain = 1, f.base == StateHealthy
		s.cond.facts.Store(&f)
		for _, g := range b.view.Load().all {
			g.stale.Store(true)
		}
	}
	get := func() answer { return ask(t, b, "GET", "http://shop.test/", "") }
	assert.Equal(t, "one", get().body)

	set(first.servers[0], facts{base: StateUnhealthy})
	a := get()
	assert.Equal(t, "two", a.body)
	assert.Equal(t, []PoolStep{{"p", 1, 2}, {"q", 1, 1}}, a.trail.Pools)
	assert.Equal(t, map[string]string{"pa": "unhealthy", "pb": "not reached", "qa": "used"}, a.trail.origins())

	set(second.servers[0], facts{base: StateUnhealthy})
	a = get()
	assert.Equal(t, "one", a.body, "an eligible origin is better than its pool's minimum")
	assert.Equal(t, map[string]string{"pa": "unhealthy", "pb": "used", "qa": "unhealthy"}, a.trail.origins())
	assert.False(t, a.trail.Panic)

	set(first.servers[1], facts{base: StateWarmingUp})
	a = get()
	assert.Equal(t, "one", a.body)
	assert.True(t, a.trail.Panic)
	assert.Equal(t, map[string]string{"pa": "used although unhealthy", "pb": "warming up", "qa": "unhealthy"}, a.trail.origins())
	one.Listener.Close()
	two.Listener.Close()
	a = get()
	require.Error(t, a.err)
	assert.Equal(t, []string{
		"pa: connection refused; next origin", "qa: connection refused; next origin", "pb: connection refused; none: no attempts left",
	}, a.trail.attempts(), "warming origins come last")

	q.Origins[0].Maintenance = true
	require.NoError(t, b.Update(Options{Pools: []Pool{p, q}, DisablePanic: true}))
	set(first.servers[0], facts{base: StateUnhealthy})
	set(first.servers[1], facts{base: StateWarmingUp})
	a = get()
	assert.Equal(t, &NoOriginError{Host: "shop.test"}, a.err)
	assert.ErrorIs(t, a.err, ErrNoOrigin)
	assert.Equal(t, map[string]string{"pa": "unhealthy", "pb": "warming up", "qa": "in maintenance"}, a.trail.origins())
}

// What the operator took out gets nothing, not even in panic.
func TestPanicObeysTheOperator(t *testing.T) {
	s := newSite(t, saying(200, ""))
	p := plainPool("p", s.address(), s.address(), s.address())
	p.Origins[0].Disabled, p.Origins[1].Maintenance, p.Origins[2].Drained = true, true, true
	b := newBalancer(t, Options{Pools: []Pool{p}})
	a := ask(t, b, "GET", "http://shop.test/", "")
	assert.Equal(t, &NoOriginError{Host: "shop.test"}, a.err)
	assert.Zero(t, s.count("GET"))
}

func TestHostsChooseTheirPools(t *testing.T) {
	p, q, r := newSite(t, saying(200, "p")), newSite(t, saying(200, "q")), newSite(t, saying(200, "r"))
	o := Options{
		Pools: []Pool{plainPool("p", p.address()), plainPool("q", q.address()), plainPool("r", r.address())},
		Hosts: map[string][]string{"shop.test": {"p", "q"}, "*.Shop.test": {"q"}, "*.eu.shop.test": {"r"}},
	}
	b := newBalancer(t, o)
	for host, want := range map[string]string{
		"shop.test": "p", "SHOP.test:8080": "p", "shop.test.": "p", "www.shop.test": "q", "a.b.shop.test": "q", "x.eu.shop.test": "r", "eu.shop.test": "q",
	} {
		assert.Equal(t, want, ask(t, b, "GET", "http://"+host+"/", "").body, host)
	}
	a := ask(t, b, "GET", "http://other.test/", "")
	assert.Equal(t, &NoOriginError{Host: "other.test", UnknownHost: true}, a.err)
	o.Hosts["*"] = []string{"r"}
	require.NoError(t, b.Update(o))
	assert.Equal(t, "r", ask(t, b, "GET", "http://other.test/", "").body)
	assert.Equal(t, "r", ask(t, b, "GET", "http://[2001:db8::1]:80/", "").body)
}

// A pool whose origins all failed is followed by the next, unless told otherwise.
func TestNextPoolAfterFailures(t *testing.T) {
	backup := newSite(t, saying(200, "backup"))
	o := Options{Pools: []Pool{plainPool("p", deadAddress(t)), plainPool("q", backup.address())}}
	b := newBalancer(t, o)
	a := ask(t, b, "GET", "http://shop.test/", "")
	assert.Equal(t, "backup", a.body)
	assert.Equal(t, "q", a.trail.Pool)
	o.StayInPool = true
	require.NoError(t, b.Update(o))
	a = ask(t, b, "GET", "http://shop.test/", "")
	assert.Equal(t, []string{"pa: connection refused; none: no other origin"}, a.trail.attempts())
}

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

// A request is unanswered if no attempt got a response; one that was passed on after
// another origin refused is an answer.
func TestUnanswered(t *testing.T) {
	sick, dead := newSite(t, saying(503, "sick")).address(), deadAddress(t)
	for _, c := range []struct {
		name      string
		addresses []string
		want      bool
		origin    string
	}{
		{"an error, then a refusal", []string{sick, dead}, false, "pa"},
		{"a refusal, then an error", []string{dead, sick}, false, "pb"},
		{"refusals only", []string{dead, dead}, true, "pb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := plainPool("p", c.addresses...)
			a := ask(t, newBalancer(t, Options{Pools: []Pool{p}}), "GET", "http://shop.test/", "")
			assert.Equal(t, c.want, a.trail.Unanswered(), "%v", a.trail.attempts())
			assert.Equal(t, c.want, a.err != nil)
			assert.Equal(t, c.origin, a.trail.Origin)
		})
	}
	assert.False(t, (&Record{}).Unanswered(), "no balancer saw it")
}
