package middleware

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/purge"
)

// What was purged softly is stale: it stands in for a failed origin, or for one that has
// no room, only where a stale response may.
func TestSoftlyPurgedStandsInAsStaleOnly(t *testing.T) {
	for _, c := range []struct {
		control string
		stands  bool
	}{
		{"public, max-age=60", false},
		{"public, max-age=60, must-revalidate", false},
		{"public, max-age=60, must-revalidate, stale-if-error=60", false},
		{"public, max-age=60, stale-if-error=60", true},
	} {
		want := func(t *testing.T, status int, word, cache string) {
			if c.stands {
				require.Equal(t, 200, status)
				require.Equal(t, "STALE-ERROR", word)
				require.Contains(t, cache, "ttl=0")
			} else {
				require.Equal(t, 503, status)
			}
		}
		t.Run("origin fails "+c.control, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{}, text("page", c.control), testnet.Text(503, "down"))
				s.get("/")
				s.purge(purge.Selector{Kind: purge.Everything, Soft: true})
				r := s.get("/")
				want(t, r.status, r.header.Get("Weir-Cache-Status"), r.header.Get("Cache-Status"))
				s.asked(2)
			})
		})
		t.Run("no room "+c.control, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				gate := closedUntilEnd(t)
				o := limited(admission.Options{Limit: 1, Queue: -1})
				s := newSite(t, o, text("page", c.control))
				s.get("/")
				s.answer(&testnet.Script{Do: func(_ http.ResponseWriter, r *http.Request) { _ = gate.Wait(r.Context()) }})
				done := make(chan struct{})
				go func() { defer close(done); s.h.ServeHTTP(recorder(), request("POST", "/held")) }()
				<-gate.Arrived()
				s.purge(purge.Selector{Kind: purge.Everything, Soft: true})
				r := s.get("/")
				want(t, r.status, r.header.Get("Weir-Cache-Status"), r.header.Get("Cache-Status"))
				gate.Open()
				<-done
			})
		})
	}
}
