package middleware

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/admission"
)

// byField has a request's class in a field, as if it came from a verified session.
func byField(o Options) Options {
	o.Admission.Priority = func(r *http.Request) admission.Class {
		for _, c := range []admission.Class{admission.Critical, admission.Background} {
			if r.Header.Get("Class") == c.String() {
				return c
			}
		}
		return admission.Normal
	}
	return o
}

func (r *rig) leadAs(path string, c admission.Class) *call {
	return r.lead(path, "Class", c.String())
}

// A fetch that waits in the queue waits as the most important of those who want it:
// what is reserved for a checkout is there for it although somebody else came first.
func TestFetchWaitsAsTheMostImportant(t *testing.T) {
	for _, c := range []struct{ leader, joins admission.Class }{
		{admission.Normal, admission.Critical},
		{admission.Background, admission.Critical},
		{admission.Background, admission.Normal},
	} {
		t.Run(fmt.Sprint(c.leader, " and ", c.joins), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				o := newWorks(0)
				opts := admission.Options{Limit: 2, ReserveCritical: 1, Queue: 8, TenantQueue: 8, QueueTimeout: 10 * time.Second}
				hold := admission.Normal
				if c.joins == admission.Normal {
					opts.ReserveCritical, opts.ReserveNormal = 0, 1
					hold = admission.Background
				}
				r := newRig(t, byField(limited(opts)), o)
				held := r.leadAs("/held", hold)
				began := time.Now()
				leader := r.leadAs("/a", c.leader)
				same := r.leadAs("/a", c.leader)
				other := r.leadAs("/b", c.leader)
				time.Sleep(time.Second)
				require.Equal(t, 2, r.waiting())
				joined := r.leadAs("/a", c.joins)
				require.Equal(t, "COLLAPSED", joined.whole(t, 200, "/a"))
				require.Equal(t, "MISS", leader.whole(t, 200, "/a"))
				require.Equal(t, "COLLAPSED", same.whole(t, 200, "/a"))
				require.Equal(t, time.Second, time.Since(began), "at once")
				require.Equal(t, 1, o.count("/a"))
				require.Equal(t, 1, r.waiting())
				o.free()
				held.whole(t, 200, "/held")
				other.whole(t, 200, "/b")
				require.Equal(t, uint64(3), r.tries())
				settle()
				require.Zero(t, r.inUse())
			})
		})
	}
}

// Those who are as important as the leader, or less, leave its fetch where it is.
func TestFetchIsNotLowered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := newWorks(0)
		r := newRig(t, byField(limited(admission.Options{Limit: 1, Queue: 8, TenantQueue: 8, QueueTimeout: 20 * time.Second})), o)
		held := holdOne(t, r, "/held")
		calls := []*call{r.leadAs("/b", admission.Normal), r.leadAs("/a", admission.Critical)}
		for _, c := range []admission.Class{admission.Background, admission.Normal, admission.Critical} {
			calls = append(calls, r.leadAs("/a", c))
		}
		s := r.mw.AdmissionStats().Limiter
		require.Equal(t, [3]int{1, 1, 0}, [3]int{s.Classes[admission.Normal].Waiting, s.Classes[admission.Critical].Waiting, s.Classes[admission.Background].Waiting})
		o.free()
		held.whole(t, 200, "/held")
		for _, c := range calls {
			<-c.done
			require.Equal(t, 200, c.status)
		}
		require.Equal(t, []string{"/held", "/a", "/b"}, o.order)
	})
}

// A fetch that is refused takes along only those who are no more important than its
// leader. The others ask once more, together, and have all the time that they would
// have had without it.
func TestRefusalIsNotInherited(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := newWorks(0)
		r := newRig(t, byField(limited(admission.Options{Limit: 2, ReserveCritical: 1, Queue: 8, TenantQueue: 8, QueueTimeout: time.Second})), o)
		held := []*call{r.leadAs("/held/1", admission.Normal), r.leadAs("/held/2", admission.Critical)}
		require.Equal(t, 2, r.inUse())
		began := time.Now()
		var low, high []*call
		low = append(low, r.leadAs("/a", admission.Normal), r.leadAs("/a", admission.Normal), r.leadAs("/a", admission.Background))
		time.Sleep(900 * time.Millisecond)
		for range 5 {
			high = append(high, r.leadAs("/a", admission.Critical))
		}
		for _, c := range low {
			c.shed(t, 503)
		}
		require.Equal(t, time.Second, time.Since(began))
		time.Sleep(900 * time.Millisecond)
		require.Equal(t, 1, r.waiting())
		require.Equal(t, uint64(4), r.tries()+1, "one asks for all of them")
		o.free()
		for _, c := range append(high, held...) {
			<-c.done
			require.Equal(t, 200, c.status)
		}
		require.Equal(t, 1, o.count("/a"))
	})
	// Whoever comes after the refusal asks for itself.
	bubble(t, func(t *testing.T) {
		o := newWorks(0)
		r := newRig(t, byField(limited(admission.Options{Limit: 2, ReserveCritical: 1, Queue: -1})), o)
		held := r.leadAs("/held", admission.Normal)
		r.leadAs("/a", admission.Normal).shed(t, 503)
		require.Equal(t, "MISS", r.leadAs("/a", admission.Critical).whole(t, 200, "/a"))
		o.free()
		held.whole(t, 200, "/held")
	})
}

// A visitor who can't be served what is stale joins the refresh that runs already,
// which needs no place in the queue; and one that wasn't admitted keeps only further
// refreshes away, not visitors.
func TestVisitorAndRefresh(t *testing.T) {
	for _, refused := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			o := newWorks(0)
			opts := byField(limited(admission.Options{Limit: 4, ReserveNormal: 2, Queue: -1}))
			opts.Default.StaleWhileRevalidate = time.Hour
			r := newRig(t, opts, o)
			r.get("/a", 200, "/a")
			time.Sleep(2 * time.Minute)
			o.took = 5 * time.Second
			held := r.leadAs("/held", admission.Normal)
			if refused { // all but what is reserved for others
				for range 2 {
					p, d := r.mw.governor.limiter.TryAcquire(admission.Request{Class: admission.Background})
					require.True(t, d.OK())
					defer p.Release()
				}
			}
			require.Equal(t, "STALE", r.get("/a", 200, "/a"))
			settle()
			began := time.Now()
			c := r.lead("/a", "Cache-Control", "max-age=30")
			want := "COLLAPSED"
			if refused {
				want = "EXPIRED"
			}
			require.Equal(t, want, c.whole(t, 200, "/a"))
			require.Equal(t, 5*time.Second, time.Since(began))
			require.Equal(t, 2, o.count("/a"))
			o.free()
			held.whole(t, 200, "/held")
		})
	}
}
