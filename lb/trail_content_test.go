package lb

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A record is the caller's, and what others can lengthen is bounded in it.
func TestRecordIsACopyOfBoundedSize(t *testing.T) {
	p := plainPool("p", "192.0.2.1:80")
	p.Transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New(strings.Repeat("long ", 1000))
	}
	b := newBalancer(t, Options{Pools: []Pool{p}})
	ctx, trail := WithTrail(background)
	_, err := b.RoundTrip(newRequest(t, "GET", "").WithContext(ctx))
	assert.Error(t, err)
	mine := trail.Record()
	pool, origin, attempt := mine.Pools[0], mine.Origins[0], mine.Attempts[0]
	assert.Less(t, len(attempt.Error), 400)
	mine.Pools[0], mine.Origins[0], mine.Attempts[0] = PoolStep{}, OriginStep{}, AttemptStep{}
	now := trail.Record()
	assert.Equal(t, []any{pool, origin, attempt}, []any{now.Pools[0], now.Origins[0], now.Attempts[0]})
}

// A key whose first origin has more than its share goes to the next, and the trail says
// why.
func TestTrailNamesTheOriginAboveItsShare(t *testing.T) {
	a, b := newSite(t, saying(200, "ok")), newSite(t, saying(200, "ok"))
	p := plainPool("p", a.address(), b.address())
	p.Policy = HashPath
	bal := newBalancer(t, Options{Pools: []Pool{p}})
	first := ask(t, bal, "GET", "http://x.test/", "").trail.Origin
	for _, s := range bal.view.Load().all[0].servers {
		if s.id == first {
			s.entry.load.inFlight.Add(100)
			defer s.entry.load.inFlight.Add(-100)
		}
	}
	want := map[string]string{"pa": "used", "pb": "used", first: "above its share"}
	assert.Equal(t, want, ask(t, bal, "GET", "http://x.test/", "").trail.origins())
}

// A request that is planned anew, since an update took its connections away, say, leaves
// the notes of one that began there later alone.
func TestLaterRequestKeepsTheTrail(t *testing.T) {
	trail := &Trail{}
	first, second := notes{trail: trail}, notes{trail: trail}
	var seen []string
	for _, n := range []struct {
		*notes
		host string
	}{{&first, "first"}, {&first, "first again"}, {&second, "second"}, {&first, "first once more"}} {
		n.planned(n.host, &plan{})
		seen = append(seen, trail.Record().Host)
	}
	assert.Equal(t, []string{"first", "first again", "second", "second"}, seen)
}
