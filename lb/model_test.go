package lb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// misbehave answers in a random way.
func misbehave(r *rand.Rand) http.HandlerFunc {
	kind, wait := r.IntN(10), time.Duration(r.IntN(300))*time.Millisecond
	return func(w http.ResponseWriter, req *http.Request) {
		io.Copy(io.Discard, req.Body)
		pause(req.Context(), wait)
		switch kind {
		case 0:
			panic(http.ErrAbortHandler)
		case 1:
			w.WriteHeader(502)
		case 2:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(503)
		case 3:
			pause(req.Context(), time.Hour)
		case 4:
			w.Header().Set("Content-Length", "10")
			io.WriteString(w, "half")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		default:
			io.WriteString(w, "fine")
		}
	}
}

// Random programs: origins that misbehave, come and go; options that change;
// clients that leave. Whatever happens, what the design promises holds.
func TestInvariants(t *testing.T) {
	for seed := range uint64(25) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { invariants(t, seed) })
		})
	}
}

func invariants(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 77))
	n := newNetwork(t)
	var hosts []*host
	var addresses []string
	for i := range 6 {
		a := fmt.Sprintf("10.0.0.%d:80", i+1)
		addresses = append(addresses, a)
		hosts = append(hosts, n.add(a, misbehave(r)))
	}
	const limit = 6
	var all []*load // of every origin that ever was
	options := func() Options {
		var o Options
		for i := range 1 + r.IntN(2) {
			p := n.pool(fmt.Sprint("pool", i), addresses[3*i:3*i+3]...)
			p.Policy = Policies()[r.IntN(12)].Policy
			if p.Policy == HashHeader || p.Policy == HashCookie {
				p.HashName = "X-Request"
			}
			p.MaxConnections, p.MinimumHealthy = limit, 1+r.IntN(3)
			p.Transport.HeadTimeout = time.Second
			p.Ejection.Duration = time.Second
			if r.IntN(2) == 0 {
				p.Breaker = Breaker{Failures: 3, Open: time.Second}
			}
			if r.IntN(2) == 0 {
				p.Health = HealthCheck{Path: "/", Interval: 500 * time.Millisecond}
			}
			p.SlowStart = time.Duration(r.IntN(3)) * time.Second
			p.Origins[r.IntN(3)].Maintenance = r.IntN(3) == 0
			p.Origins[r.IntN(3)].Drained = r.IntN(3) == 0
			o.Pools = append(o.Pools, p)
		}
		return o
	}
	b := newBalancer(t, options())
	remember := func() {
		for _, g := range b.view.Load().all {
			for _, s := range g.servers {
				if !slices.Contains(all, s.entry.load) {
					all = append(all, s.entry.load)
				}
			}
		}
	}
	remember()
	var wg sync.WaitGroup
	var mu sync.Mutex
	requests, repeats := 0, 0
	for i := range 400 {
		switch r.IntN(12) {
		case 0:
			hosts[r.IntN(6)].handle(misbehave(r))
		case 1:
			require.NoError(t, b.Update(options()))
			remember()
		case 2:
			if h := hosts[r.IntN(6)]; h.running() {
				h.kill()
			} else {
				h.start()
			}
		}
		method := []string{"GET", "HEAD", "PUT", "DELETE", "POST", "PATCH"}[r.IntN(6)]
		patience := time.Duration(r.IntN(4000)) * time.Millisecond
		wg.Go(func() {
			rec := oneRequest(t, b, method, fmt.Sprint(method, " ", i), patience)
			mu.Lock()
			defer mu.Unlock()
			requests++
			for _, a := range rec.Attempts {
				if a.Next == nextOrigin && !strings.Contains(a.Error, "refused") {
					repeats++ // that an origin may have seen
				}
			}
		})
		for _, l := range all {
			require.LessOrEqual(t, l.inFlight.Load(), int32(limit))
		}
		time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
	}
	wg.Wait()
	for _, l := range all {
		assert.Zero(t, l.inFlight.Load(), "every place was given back")
	}
	seen := map[string]int{}
	for _, h := range hosts {
		for id, k := range h.ids() {
			seen[id] += k
		}
	}
	for id, k := range seen {
		switch {
		case strings.HasPrefix(id, "PO"), strings.HasPrefix(id, "PA"):
			require.LessOrEqual(t, k, 1, id)
		case id != "": // "" is health checks
			require.LessOrEqual(t, k, 3, id)
		}
	}
	// The programs take some ten seconds each, and updates don't refill the budget.
	assert.LessOrEqual(t, repeats, requests/5+4*DefaultRetryFloor+requests/20)
}

// oneRequest makes a request and checks its trail.
func oneRequest(t *testing.T, b *Balancer, method, id string, patience time.Duration) Record {
	ctx, trail := WithTrail(context.Background())
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var body io.Reader
	if strings.HasPrefix(method, "P") {
		body = struct{ io.Reader }{strings.NewReader("some data")}
	}
	req, _ := http.NewRequestWithContext(ctx, method, "http://shop.test/", body)
	req.Header.Set("X-Request", id)
	res, err := b.RoundTrip(req)
	if err == nil {
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	rec := trail.Record()
	assert.True(t, rec.Done)
	var none *NoOriginError
	if errors.As(err, &none) {
		assert.Empty(t, rec.Attempts)
	}
	var tried []string
	made := 0
	for i, a := range rec.Attempts {
		if a.Next == nextReplaced {
			continue // its transport was closed by an update: nothing was sent
		}
		made++
		if i > 0 && rec.Attempts[i-1].Next == nextFresh {
			assert.Equal(t, rec.Attempts[i-1].Origin, a.Origin)
			continue
		}
		if i > 0 && !repeatable(method) {
			assert.Equal(t, nextReplaced, rec.Attempts[i-1].Next)
		}
		assert.NotContains(t, tried, a.Origin, "%v", rec.attempts())
		tried = append(tried, a.Origin)
	}
	assert.LessOrEqual(t, made, 3)
	for _, o := range rec.Origins {
		if o.State == StateMaintenance || o.State == StateDrained || o.State == StateDisabled {
			assert.False(t, o.Used, "%v", o)
		}
	}
	return rec
}
