package middleware

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/admission/guard"
)

// An adaptive ceiling comes down while the origin fails, whichever way it is asked
// and however it fails, and not for what clients do.
func TestCeilingFollowsTheOrigin(t *testing.T) {
	for name, c := range map[string]struct {
		f    http.HandlerFunc
		down bool
	}{
		"good":       {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(200) }, false},
		"not found":  {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(404) }, false},
		"overloaded": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) }, true},
		"refused inside": {func(w http.ResponseWriter, r *http.Request) {
			WriteRefusal(w, r, 503, time.Second)
		}, false},
		"refused inside, wrapped": {func(w http.ResponseWriter, r *http.Request) {
			WriteRefusal(&wrapping{w}, r, 503, time.Second)
		}, false},
		"unreachable": {func(w http.ResponseWriter, r *http.Request) { ProxyErrorHandler(w, r, io.ErrUnexpectedEOF) }, true},
		"left": {func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			ProxyErrorHandler(w, r, r.Context().Err())
		}, false},
	} {
		for _, method := range []string{"GET", "POST"} {
			t.Run(name+", "+method, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					opts := limited(admission.Options{Limit: 100, Adaptive: &admission.Adaptive{Start: 50}})
					opts.UnshareableFor = -1
					r := newRig(t, opts, c.f)
					for range 200 {
						var call *call
						if method == "GET" {
							call = r.start("/", "Cache-Control", "no-store")
						} else {
							call = r.startPost("/")
						}
						time.Sleep(20 * time.Millisecond)
						call.cancel()
						<-call.done
						settle()
					}
					require.Equal(t, c.down, r.mw.AdmissionStats().Limiter.Limit < 50, "%d", r.mw.AdmissionStats().Limiter.Limit)
				})
			})
		}
	}
}

// A callback of the application that panics costs its own request and nothing else.
func TestPanickingCallbackHoldsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		opts := limited(admission.Options{Limit: 1, Queue: -1})
		opts.Admission.Overload = &admission.OverloadOptions{LagKnee: -1}
		opts.Admission.Priority = func(r *http.Request) admission.Class {
			if r.Header.Get("Priority") != "" {
				panic("priority")
			}
			return admission.Normal
		}
		opts.Admission.Sender = func(r *http.Request) admission.Sender {
			if r.Header.Get("Sender") != "" {
				panic("sender")
			}
			return admission.FromTenant
		}
		r := newRig(t, opts, newWorks(0))
		for _, name := range []string{"Priority", "Sender"} {
			r.start("/a", name, "x").broken(t)
			c := r.startPost("/a", name, "x")
			c.broken(t)
		}
		settle()
		require.Zero(t, r.inUse())
		require.Zero(t, r.mw.AdmissionStats().Overload.InFlight)
		require.Zero(t, r.mw.flights.Flights())
		r.get("/a", 200, "/a")
	})
}

// Ceilings and rates named like a zone are that zone's.
func TestZonesHaveTheirOwnLimits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		opts := limited(admission.Options{Limit: 10, Queue: -1, Routes: []admission.Route{{Name: "small", Limit: 1, Queue: -1}}})
		opts.Admission.Guard = newGuard(t, func(p *guard.Policy) {
			p.Routes = []guard.Route{{Name: "rare", Rate: admission.Rate{PerSecond: 1, Burst: 2}}}
		})
		mw, err := New(opts)
		require.NoError(t, err)
		defer func() { require.NoError(t, mw.Close(context.Background())) }()
		for zone, want := range map[string]map[int]int{
			"small": {200: 1, 503: 4}, "rare": {200: 2, 429: 3}, "other": {200: 5},
		} {
			h := mw.WrapZone(zone, newWorks(time.Second))
			codes := make(chan int, 5)
			for range cap(codes) {
				go func() {
					w := recorder()
					h.ServeHTTP(w, request("POST", "/"))
					codes <- w.Code
				}()
			}
			got := map[int]int{}
			for range cap(codes) {
				got[<-codes]++
			}
			require.Equal(t, want, got, zone)
		}
	})
}

// wrapping is what many middlewares have.
type wrapping struct{ http.ResponseWriter }

func (w *wrapping) Unwrap() http.ResponseWriter { return w.ResponseWriter }
