package lb

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
