package lb

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
