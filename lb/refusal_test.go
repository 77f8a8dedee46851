package lb

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Why no other attempt follows is told, and another origin isn't asked: for a client that
// is gone, for a request whose time is over, or will be before another attempt could do
// any better than the first, and where retries are off.
func TestWhyNoOtherAttemptFollows(t *testing.T) {
	for _, tc := range []struct {
		name           string
		takes          time.Duration // the first origin, to answer 503
		leaves, within time.Duration // 0: never, any time
		retry          Retry
		want           []string
	}{
		{"client leaves", time.Minute, time.Second, 0, Retry{}, []string{"pa: canceled by the client; none: the client is gone"}},
		{"time is over", time.Minute, 0, time.Second, Retry{}, []string{"pa: deadline passed; none: the request's time is over"}},
		{"too little time", 6 * time.Second, 0, 10 * time.Second, Retry{}, []string{"pa: Service Unavailable; none: too little time is left"}},
		{"time enough", 4 * time.Second, 0, 10 * time.Second, Retry{}, []string{"pa: Service Unavailable; next origin", "pb: OK; "}},
		{"any time", 6 * time.Second, 0, 0, Retry{}, []string{"pa: Service Unavailable; next origin", "pb: OK; "}},
		{"off", 0, 0, 0, Retry{Attempts: 1}, []string{"pa: Service Unavailable; none: retries are off"}},
		{"off, by a negative number", 0, 0, 0, Retry{Attempts: -1}, []string{"pa: Service Unavailable; none: retries are off"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				n.add("10.0.0.1:80", func(w http.ResponseWriter, r *http.Request) {
					select {
					case <-time.After(tc.takes):
					case <-r.Context().Done():
					}
					w.WriteHeader(http.StatusServiceUnavailable)
				})
				other := n.add("10.0.0.2:80", saying(200, "ok"))
				p := n.pool("p", "10.0.0.1:80", "10.0.0.2:80")
				p.Policy, p.Retry = Failover, tc.retry
				b := newBalancer(t, Options{Pools: []Pool{p}})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.leaves > 0 {
					time.AfterFunc(tc.leaves, cancel)
				}
				if tc.within > 0 {
					ctx, cancel = context.WithTimeout(ctx, tc.within)
					defer cancel()
				}
				ctx, trail := WithTrail(ctx)
				res, err := b.RoundTrip(mustRequest("GET", "http://shop.test/").WithContext(ctx))
				if err == nil {
					res.Body.Close()
				}
				assert.Equal(t, tc.want, trail.Record().attempts())
				assert.Equal(t, len(tc.want)-1, other.count())
			})
		})
	}
}

// The request's body is closed, and each that it gave again, whatever becomes of the
// request.
func TestBodyIsClosedWhateverHappens(t *testing.T) {
	ok, busy := newSite(t, saying(200, "ok")), newSite(t, saying(503, "busy"))
	down := plainPool("down", ok.address())
	down.Origins[0].Maintenance = true
	b := newBalancer(t, Options{
		Pools: []Pool{plainPool("ok", ok.address()), plainPool("dead", deadAddress(t), deadAddress(t)), down, plainPool("busy", busy.address(), busy.address())},
		Hosts: map[string][]string{"ok.test": {"ok"}, "dead.test": {"dead"}, "down.test": {"down"}, "busy.test": {"busy"}},
	})
	closedOne, err := New(Options{Pools: []Pool{plainPool("ok", ok.address())}})
	require.NoError(t, err)
	require.NoError(t, closedOne.Close(t.Context()))
	for _, tc := range []struct {
		name, host string
		b          *Balancer
	}{
		{"answered", "ok.test", b}, {"answered by an error", "busy.test", b}, {"no answer", "dead.test", b},
		{"no origin", "down.test", b}, {"no pool", "other.test", b}, {"no host", "a b", b}, {"closed balancer", "ok.test", closedOne},
	} {
		for _, method := range []string{"PUT", "POST"} {
			for _, again := range []bool{false, true} {
				var closes []*atomic.Int32
				given := func(body io.ReadCloser) io.ReadCloser {
					closes = append(closes, new(atomic.Int32))
					return closedBody{body, closes[len(closes)-1]}
				}
				req := newRequest(t, method, "data")
				req.Host = tc.host
				req.Body = given(req.Body)
				if inner := req.GetBody; again {
					req.GetBody = func() (io.ReadCloser, error) {
						b, err := inner()
						return given(b), err
					}
				} else {
					req.GetBody = nil
				}
				res, err := tc.b.RoundTrip(req)
				if err == nil {
					io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
				for i, n := range closes {
					assert.Positive(t, n.Load(), "%s, %s, GetBody %v: body %d of %d", tc.name, method, again, i, len(closes))
				}
			}
		}
	}
}
