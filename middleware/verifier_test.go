package middleware

import (
	"context"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/admission/guard"
)

// bigsNames is a resolver for which all addresses are a crawler's of big.example. It
// counts.
type bigsNames struct{ asked atomic.Int64 }

func (n *bigsNames) LookupAddr(context.Context, string) ([]string, error) {
	n.asked.Add(1)
	return []string{"crawler.big.example."}, nil
}

func (n *bigsNames) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("20.0.0.1")}, nil
}

// A crawler that comes again and again is looked up before what is known about it ends,
// so that it's never unknown in between.
func TestAKnownCrawlerStaysKnown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		names := &bigsNames{}
		v, err := guard.NewVerifier(guard.VerifierOptions{
			Resolver: names, VerifiedFor: 4 * time.Hour,
			Sources: []guard.Source{{
				Identity: guard.Identity{Provider: "big", Class: "search"}, Agents: []string{"bigbot"}, Domains: []string{"big.example"},
			}},
		})
		require.NoError(t, err)
		defer func() { require.NoError(t, v.Close(context.Background())) }()
		g := newGuard(t, func(p *guard.Policy) {
			p.Expires = time.Now().Add(1000 * time.Hour)
			p.Providers = []guard.Provider{{Name: "big", Rate: p.Global, Classes: []guard.Class{{Name: "search"}}}}
		})
		s := newSite(t, Options{Admission: AdmissionOptions{Verifier: v, Guard: g}}, public("abc"))
		visit := func() {
			require.Equal(t, 200, s.get("/", "Peer", "20.0.0.1", "User-Agent", "bigbot").status)
			settle()
		}
		visit()
		for hour := range 24 {
			visit()
			require.Equal(t, int64(1+hour/3), names.asked.Load(), hour)
			_, proof := v.Recall(netip.MustParseAddr("20.0.0.1"), "bigbot")
			require.Equal(t, guard.ByName, proof)
			time.Sleep(time.Hour)
		}
	})
}

// The time that a request has waited for its permit counts in its age.
func TestAnOperationsRequestIsAsOldAsItIs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGuard(t, func(p *guard.Policy) {
			p.ContextAgeMS = 1500
			p.Routes = []guard.Route{{Name: "search"}}
		})
		o := limited(admission.Options{Limit: 1, Queue: 8, QueueTimeout: 8 * time.Second})
		o.Admission.Guard = g
		results := make(chan error, 2)
		mw, err := New(o)
		require.NoError(t, err)
		defer func() { require.NoError(t, mw.Close(context.Background())) }()
		h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			results <- guard.Do(r.Context(), "search", func(context.Context) error { return nil })
			time.Sleep(2 * time.Second)
		}))
		for range 2 {
			go h.ServeHTTP(recorder(), request("POST", "/"))
			settle()
		}
		require.NoError(t, <-results)
		require.ErrorIs(t, <-results, guard.ErrRefused)
		time.Sleep(3 * time.Second)
	})
}
