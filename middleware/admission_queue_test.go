package middleware

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/trace"
)

// In the queue the more important goes first, and then who came first. What clients
// write in their headers says nothing.
func TestQueueOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := newWorks(time.Second)
		opts := patient(admission.Options{Limit: 1, Queue: 10, TenantQueue: 10, QueueTimeout: time.Minute, StandingAfter: -1})
		opts.Admission.Priority = func(r *http.Request) admission.Class {
			if strings.HasPrefix(r.URL.Path, "/checkout") {
				return admission.Critical
			}
			return admission.Normal
		}
		r := newRig(t, opts, o)
		held := holdOne(t, r, "/held")
		var calls []*call
		for _, path := range []string{"/1", "/2", "/checkout/1", "/3", "/checkout/2"} {
			calls = append(calls, r.lead(path, "Priority", "u=0", "X-Priority", "critical", "Cookie", "class=critical", "User-Agent", "checkout", "Authorization", "Basic YTpi"))
		}
		require.Equal(t, 5, r.waiting())
		s := r.mw.AdmissionStats().Limiter
		require.Equal(t, 2, s.Classes[admission.Critical].Waiting)
		require.Equal(t, 3, s.Classes[admission.Normal].Waiting)
		o.free()
		held.whole(t, 200, "/held")
		for _, c := range calls {
			<-c.done
			require.Equal(t, 200, c.status)
		}
		require.Equal(t, []string{"/held", "/checkout/1", "/checkout/2", "/1", "/2", "/3"}, o.order)
		require.Equal(t, trace.Admission{Queued: 4 * time.Second, Permits: 1, Verdict: "admitted", Reason: "admitted"}, r.record().Admission)
	})
}

// A refused request gets what is stored where that may be used in place of an error,
// and else a refusal.
func TestRefusedGetStaleOrShed(t *testing.T) {
	for name, c := range map[string]struct {
		control, method, header, value string
		stale                          bool
	}{
		"stale-if-error":                         {control: "max-age=10, stale-if-error=600", stale: true},
		"HEAD":                                   {control: "max-age=10, stale-if-error=600", method: "HEAD", stale: true},
		"a range of it":                          {control: "max-age=10, stale-if-error=600", header: "Range", value: "bytes=1-1", stale: true},
		"too stale":                              {control: "max-age=10, stale-if-error=60"},
		"nothing said":                           {control: "max-age=10"},
		"must-revalidate":                        {control: "max-age=10, must-revalidate, stale-if-error=600"},
		"fresh, but to be checked":               {control: "max-age=600", header: "Cache-Control", value: "no-cache", stale: true},
		"no-store asked":                         {control: "max-age=10, stale-if-error=600", header: "Cache-Control", value: "no-store", stale: true},
		"one client's own":                       {control: "max-age=10, stale-if-error=600", header: "Cookie", value: "a=b"},
		"past the cache, whatever there is":      {control: "max-age=600", header: "Authorization", value: "Basic YTpi"},
		"a method that nothing stored could end": {control: "max-age=600", method: "POST"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, limited(admission.Options{Limit: 1, Queue: -1}), text("abc", c.control))
				first := s.get("/")
				require.Equal(t, 200, first.status)
				p, d := s.mw.governor.limiter.TryAcquire(admission.Request{})
				require.True(t, d.OK())
				defer p.Release()
				after(100 * time.Second)
				if c.method == "" {
					c.method = "GET"
				}
				var header []string
				if c.header != "" {
					header = []string{c.header, c.value}
				}
				r := s.do(c.method, "/", header...)
				s.asked(1)
				require.Equal(t, trace.Admission{Verdict: "refused", Reason: "limit-full"}, r.record.Admission)
				require.Equal(t, trace.ForwardNone, r.record.ForwardReason)
				require.Empty(t, r.record.Cache.NotStored)
				if !c.stale {
					require.Equal(t, 503, r.status)
					require.Equal(t, trace.Shed, r.record.Cache.Status)
					require.Equal(t, "admission refused the request: limit-full", r.record.Cache.Reason)
					require.NotEmpty(t, r.header.Get("Retry-After"))
					return
				}
				require.Equal(t, trace.StaleError, r.record.Cache.Status)
				require.Contains(t, r.record.Cache.Reason, "admission refused the request: limit-full; ")
				require.Empty(t, r.header.Get("Retry-After"))
				require.Equal(t, "100", r.header.Get("Age"))
				require.Contains(t, r.header.Get("Cache-Status"), "weir;hit;ttl=")
			})
		})
	}
}

// A leader that is refused takes those who wait for it along: each answers for itself,
// and none of them asks for a permit of its own.
func TestRefusedLeaderAndItsWaiters(t *testing.T) {
	for _, stale := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			o := newWorks(0)
			opts := limited(admission.Options{Limit: 1, QueueTimeout: 5 * time.Second})
			if stale {
				opts.Default.StaleIfError = time.Hour
			}
			r := newRig(t, opts, o)
			if stale {
				r.get("/a", 200, "/a")
				time.Sleep(2 * time.Minute)
			}
			held := holdOne(t, r, "/held")
			before := r.tries()
			began := time.Now()
			calls := append([]*call{r.lead("/a")}, r.many(200, "/a")...)
			settle()
			require.Equal(t, 1, r.waiting())
			for _, c := range calls {
				if stale {
					require.Equal(t, "STALE-ERROR", c.whole(t, 200, "/a"))
				} else {
					c.shed(t, 503)
				}
			}
			require.Equal(t, 5*time.Second, time.Since(began))
			require.Equal(t, before+1, r.tries())
			settle()
			for _, rec := range r.records[len(r.records)-201:] {
				require.Equal(t, trace.Admission{Queued: 5 * time.Second, Verdict: "refused", Reason: "queue-timeout"}, rec.Admission)
			}
			o.free()
			held.whole(t, 200, "/held")
			require.Contains(t, []string{"MISS", "EXPIRED"}, r.get("/a", 200, "/a"))
		})
	}
}

// A client that leaves a queue leaves it at once; a fetch stays in it as long as
// somebody waits for it.
func TestClientsLeaveTheQueue(t *testing.T) {
	for name, start := range map[string]func(r *rig) *call{
		"a fetch":        func(r *rig) *call { return r.lead("/a") },
		"past the cache": func(r *rig) *call { c := r.startPost("/a"); settle(); return c },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				o := newWorks(0)
				r := newRig(t, patient(admission.Options{Limit: 1, QueueTimeout: time.Minute}), o)
				held := holdOne(t, r, "/held")
				c := start(r)
				require.Equal(t, 1, r.waiting())
				time.Sleep(time.Second)
				c.leave()
				require.Zero(t, r.waiting())
				require.Equal(t, trace.ClientGone, r.record().Outcome)
				if name != "a fetch" {
					require.Equal(t, trace.Admission{Queued: time.Second, Verdict: "refused", Reason: "client-gone"}, r.record().Admission)
				}
				o.free()
				held.whole(t, 200, "/held")
				settle()
				require.Zero(t, o.count("/a"))
			})
		})
	}
	bubble(t, func(t *testing.T) {
		o := newWorks(0)
		r := newRig(t, patient(admission.Options{Limit: 1, QueueTimeout: time.Minute}), o)
		held := holdOne(t, r, "/held")
		leader := r.lead("/a")
		waiter := r.lead("/a")
		leader.leave()
		require.Equal(t, 1, r.waiting(), "somebody waits for the fetch")
		o.free()
		held.whole(t, 200, "/held")
		require.Equal(t, "COLLAPSED", waiter.whole(t, 200, "/a"))
		require.Equal(t, 1, o.count("/a"))
	})
}

// Whoever has waited too long for another's fetch goes alone, past the same ceiling.
func TestReleasedWaitersGoThroughAdmission(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := newWorks(0)
		opts := limited(admission.Options{Limit: 3, Queue: -1})
		opts.WaitTimeout = time.Second
		r := newRig(t, opts, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/slow" {
				time.Sleep(30 * time.Second)
			}
			o.ServeHTTP(w, req)
		}))
		o.took = 0
		calls := r.many(50, "/slow")
		status := map[int]int{}
		for _, c := range calls {
			<-c.done
			require.NoError(t, c.err)
			status[c.status]++
		}
		require.Equal(t, map[int]int{200: 3, 503: 47}, status)
		require.Equal(t, uint64(3), r.mw.AdmissionStats().Limiter.Admitted)
	})
}

// A refresh in the background takes only room that nobody else wants, and never
// queues; the stale response is served all the same.
func TestRefreshesNeverQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := newWorks(0)
		opts := limited(admission.Options{Limit: 2, ReserveNormal: 1})
		opts.Default.StaleWhileRevalidate = time.Hour
		opts.Default.Admission.Class = admission.Critical // of its visitors
		r := newRig(t, opts, o)
		r.get("/a", 200, "/a")
		time.Sleep(2 * time.Minute)
		held := holdOne(t, r, "/held")
		tries := r.tries()
		for range 20 {
			require.Equal(t, "STALE", r.get("/a", 200, "/a"))
			require.Equal(t, trace.Admission{}, r.record().Admission)
		}
		settle()
		require.Zero(t, r.waiting())
		require.Equal(t, 1, o.count("/a"))
		require.Equal(t, tries+1, r.tries(), "a refusal is remembered for a while")
		o.free()
		held.whole(t, 200, "/held")
		time.Sleep(refusedRefresh)
		require.Equal(t, "STALE", r.get("/a", 200, "/a"))
		settle()
		require.Equal(t, 2, o.count("/a"))
		require.Zero(t, r.inUse())
		require.Equal(t, "HIT", r.get("/a", 200, "/a"))
	})
}

// The time in the queue isn't the origin's: it counts neither for the deadline of the
// head nor for what was purged before the request was sent.
func TestQueuedTimeIsNotTheOrigins(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := newWorks(0)
		opts := patient(admission.Options{Limit: 1, QueueTimeout: time.Hour})
		opts.FetchTimeout = 5 * time.Second
		r := newRig(t, opts, o)
		held := holdOne(t, r, "/held")
		c := r.lead("/a")
		time.Sleep(50 * time.Second)
		_, err := r.mw.Purge(t.Context(), purge.Selector{Kind: purge.Everything})
		require.NoError(t, err)
		o.free()
		held.whole(t, 200, "/held")
		require.Equal(t, "MISS", c.whole(t, 200, "/a"))
		settle()
		require.Equal(t, "HIT", r.get("/a", 200, "/a"), "it was sent after the purge")
		require.Equal(t, "0", r.start("/a").header0(t, "Age"))
	})
}

// header0 waits for the answer and returns a field of it.
func (c *call) header0(t *testing.T, name string) string {
	t.Helper()
	<-c.done
	require.NoError(t, c.err)
	return c.header.Get(name)
}

// Closing doesn't wait for what is still in the queue.
func TestCloseEndsTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := newWorks(0)
		mw, err := New(patient(admission.Options{Limit: 1, QueueTimeout: time.Hour}))
		require.NoError(t, err)
		h := mw.Wrap(o)
		p, _ := mw.governor.limiter.TryAcquire(admission.Request{})
		w := recorder()
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.ServeHTTP(w, request("GET", "/a"))
		}()
		settle()
		require.Equal(t, 1, mw.AdmissionStats().Limiter.Waiting)
		require.NoError(t, mw.Close(context.Background()))
		<-done
		require.Equal(t, 502, w.Code)
		require.Zero(t, mw.AdmissionStats().Limiter.Waiting)
		p.Release()
	})
}

// A zone is a tenant: one that floods the queue doesn't keep another from its turn.
func TestZonesTakeTurns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		opts := patient(admission.Options{Limit: 1, Queue: 100, TenantQueue: 50, QueueTimeout: time.Hour, StandingAfter: -1})
		opts.Admission.Weights = map[string]int{"calm": 2}
		mw, err := New(opts)
		require.NoError(t, err)
		defer func() { require.NoError(t, mw.Close(context.Background())) }()
		var mu sync.Mutex
		var order []string
		zone := func(name string) http.Handler {
			return mw.WrapZone(name, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				time.Sleep(time.Second)
			}))
		}
		flood, calm := zone("flood"), zone("calm")
		p, _ := mw.governor.limiter.TryAcquire(admission.Request{})
		for range 30 {
			go flood.ServeHTTP(recorder(), request("POST", "/"))
		}
		settle()
		for range 4 {
			go calm.ServeHTTP(recorder(), request("POST", "/"))
		}
		settle()
		p.Release()
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		last := 0
		for i, name := range order {
			if name == "calm" {
				last = i
			}
		}
		require.Len(t, order, 34)
		require.LessOrEqual(t, last, 7)
	})
}
