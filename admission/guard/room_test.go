package guard

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Where nobody is known, unknown clients may have all there is.
func TestUnknownClientsMayHaveAllWhereNobodyIsKnown(t *testing.T) {
	p := policy()
	p.Providers, p.Routes = nil, nil
	p.Unknown, p.Work = p.Global, Work{6, 6, 6}
	assert.NoError(t, p.Validate(now))
}

// However much unknown clients ask for, a valid policy leaves known ones some of each
// budget that both use.
func TestKnownClientsHaveRoomBesideAFlood(t *testing.T) {
	in(t, func(t *testing.T) {
		p := policy()
		p.Expires = time.Now().Add(time.Hour)
		p.Global, p.Unknown, p.Address = rate(51, 60), rate(50, 20), rate(50, 20)
		p.Providers = []Provider{{Name: "big", Rate: rate(50, 60), Classes: []Class{{Name: "search"}}}}
		p.Routes, p.Work = []Route{{Name: "page"}}, Work{Global: 3, Unknown: 2, Local: 3}
		g := newGuard(t, p)
		known, admitted := from(bigSearch), 0
		for i := range 60_000 { // a minute
			time.Sleep(time.Millisecond)
			g.Admit(Request{Addr: netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)})}, "page")
			if i%1000 == 999 && g.Admit(known, "page").OK() {
				admitted++
			}
		}
		assert.GreaterOrEqual(t, admitted, 30)

		time.Sleep(10 * time.Second) // until the rates allow it
		stop := make(chan struct{})
		for i := range 10 {
			ctx := g.WithRequest(background, Request{Addr: netip.AddrFrom4([4]byte{198, 19, 0, byte(i)}), Began: time.Now()})
			go func() { _ = Do(ctx, "page", func(context.Context) error { <-stop; return nil }) }()
		}
		synctest.Wait()
		require.Equal(t, 2, g.Stats().Unknown)
		known.Began = time.Now()
		assert.NoError(t, Do(g.WithRequest(background, known), "page", func(context.Context) error { return nil }))
		close(stop)
	})
}
