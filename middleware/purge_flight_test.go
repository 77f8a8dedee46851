package middleware

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/purge"
)

// What was purged doesn't stand in for a failing origin, whatever it allowed.
func TestPurgedResponseNeverStandsIn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := testnet.NewGate()
		s := newSite(t, Options{}, text("old", "public, max-age=1, stale-if-error=600"))
		s.get("/")
		after(2 * time.Second)
		failing := testnet.Text(500, "broken")
		failing.Gate = gate
		s.answer(failing)
		done := s.begin("/") // has the old one as a reserve
		s.purge(purge.Selector{Kind: purge.Everything})
		gate.Open()
		require.Equal(t, "500 broken", <-done)
		r := s.get("/")
		require.Equal(t, "500 broken", fmt.Sprint(r.status, " ", r.body))
	})
}

// A purge while a response is on its way: who waited before gets it, it isn't
// stored, and who comes later doesn't join it.
func TestPurgeDuringAFill(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := testnet.NewGate()
		origin := originOf(shareable(testnet.Chunk{Data: "old "}, testnet.Chunk{Gate: gate, Data: "end"}))
		r := newRig(t, Options{}, origin)
		before := r.many(3, "/")
		synctest.Wait()
		_, err := r.mw.Purge(context.Background(), purge.Selector{Kind: purge.Host, Host: "example.com"})
		require.NoError(t, err)
		origin.Handle(testnet.AnyPath, shareable(testnet.Chunk{Data: "new"}))
		require.Equal(t, "MISS", r.get("/", 200, "new"))
		gate.Open()
		for _, c := range before {
			c.whole(t, 200, "old end")
		}
		require.Equal(t, "HIT", r.get("/", 200, "new"))
	})
}

// A purge while the origin is asked whether a response is still good: the 304
// doesn't bring it back. The leader asks again for all of it.
func TestPurgeDuringRevalidation(t *testing.T) {
	for name, control := range map[string]string{
		"in the request":    "public, max-age=1",
		"in the background": "public, max-age=1, stale-while-revalidate=60",
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newSite(t, Options{}, text("old", control, "Etag", `"1"`))
				s.get("/")
				after(2 * time.Second)
				gate := testnet.NewGate()
				same := testnet.Text(304, "", "Etag", `"1"`, "Cache-Control", control)
				same.Gate = gate
				s.answer(same, text("new", control, "Etag", `"2"`))
				done := s.begin("/")
				s.purge(purge.Selector{Kind: purge.URL, Host: "example.com", Path: "/"})
				gate.Open()
				if strings.Contains(control, "while") {
					require.Equal(t, "200 old", <-done, "it was asked for before the purge")
				} else {
					require.Equal(t, "200 new", <-done)
				}
				synctest.Wait()
				require.Empty(t, s.last().Header.Get("If-None-Match"))
				r := s.get("/")
				r.is(t, hit("new", 1, 0))
				s.asked(2)
			})
		})
	}
}

// A soft purge while a response is on its way: it's stale for whoever comes later,
// who asks the origin rather than join it, before the head and while the body comes.
func TestSoftPurgeDuringAFill(t *testing.T) {
	for _, headCame := range []bool{false, true} {
		t.Run(fmt.Sprint("after the head ", headCame), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				head, rest := testnet.NewGate(), testnet.NewGate()
				old := shareable(testnet.Chunk{Data: "old "}, testnet.Chunk{Gate: rest, Data: "end"})
				old.Gate = head
				origin := originOf(old)
				r := newRig(t, Options{}, origin)
				before := r.many(3, "/")
				synctest.Wait()
				if headCame {
					head.Open()
					synctest.Wait()
				}
				_, err := r.mw.Purge(context.Background(), purge.Selector{Kind: purge.Host, Host: "example.com", Soft: true})
				require.NoError(t, err)
				origin.Handle(testnet.AnyPath, shareable(testnet.Chunk{Data: "new"}))
				after := r.many(3, "/")
				synctest.Wait()
				head.Open()
				synctest.Wait()
				for _, c := range after {
					c.whole(t, 200, "new")
				}
				rest.Open()
				for _, c := range before {
					c.whole(t, 200, "old end")
				}
				require.Equal(t, 2, origin.Total())
			})
		})
	}
}
