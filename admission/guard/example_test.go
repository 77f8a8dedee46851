package guard_test

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/admission/guard"
)

func Example() {
	g, err := guard.New(guard.Options{
		Policy: guard.Policy{
			Version: 1, Expires: time.Now().Add(24 * time.Hour),
			Global:  admission.Rate{PerSecond: 1000},
			Unknown: admission.Rate{PerSecond: 100},
			Address: admission.Rate{PerSecond: 5},
			Providers: []guard.Provider{
				{Name: "crawler", Rate: admission.Rate{PerSecond: 200}, Classes: []guard.Class{{Name: "search"}}},
			},
			Routes:     []guard.Route{{Name: "search", Cost: 10}},
			Work:       guard.Work{Global: 32, Unknown: 8, Local: 32},
			Operations: 4, ContextAgeMS: 10_000,
		},
		Routes: []string{"search"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	verifier, err := guard.NewVerifier(guard.VerifierOptions{Sources: []guard.Source{{
		Identity: guard.Identity{Provider: "crawler", Class: "search"},
		Prefixes: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer verifier.Close(context.Background())

	for _, addr := range []string{"203.0.113.7", "198.51.100.7"} {
		addr := netip.MustParseAddr(addr)
		id, proof := verifier.Identify(addr, "some user agent")
		request := guard.Request{Identity: id, Addr: addr}
		fmt.Println(id, proof, g.Admit(request, "").Reason)

		ctx := g.WithRequest(context.Background(), request)
		for range 2 {
			fmt.Println(guard.Do(ctx, "search", func(context.Context) error { return nil }))
		}
	}
	// Output:
	// crawler/search by-range admitted
	// <nil>
	// <nil>
	// unknown unclaimed admitted
	// guard: search refused: rate-address
	// guard: search refused: rate-address
}
