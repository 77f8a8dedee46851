package lb

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
