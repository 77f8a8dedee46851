package guard

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/internal/testnet"
)

func TestMain(m *testing.M) { testnet.MainCheck(m) }

var background = context.Background()

// now is when the tests' policies are read.
var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func rate(perSecond, burst float64) admission.Rate {
	return admission.Rate{PerSecond: perSecond, Burst: burst}
}

// policy is a good one. Known clients: big/search, big/images and small/only.
func policy() Policy {
	return Policy{
		Version: 1, Expires: now.Add(100 * 365 * 24 * time.Hour),
		Global: rate(100, 100), Unknown: rate(10, 20), Address: rate(2, 10),
		Providers: []Provider{
			{Name: "big", Rate: rate(50, 60), Work: 3, Classes: []Class{{Name: "search", Rate: rate(40, 50)}, {Name: "images"}}},
			{Name: "small", Rate: rate(20, 20), Classes: []Class{{Name: "only", Rate: rate(10, 20)}}},
		},
		Routes:     []Route{{Name: "search", Cost: 5, Rate: rate(30, 40)}, {Name: "page"}},
		Work:       Work{Global: 6, Unknown: 2, Local: 5},
		Operations: 4, ContextAgeMS: 1000,
	}
}

var (
	bigSearch = Identity{"big", "search"}
	bigImages = Identity{"big", "images"}
	smallOnly = Identity{"small", "only"}
)

func newGuard(t testing.TB, p Policy) *Guard {
	t.Helper()
	g, err := New(Options{Policy: p})
	require.NoError(t, err)
	return g
}

func from(id Identity) Request { return Request{Identity: id} }

func at(addr string) Request { return Request{Addr: netip.MustParseAddr(addr)} }

// million is how many made-up addresses come.
func million() int {
	if testnet.Race {
		return 100_000 // the detector makes it slow
	}
	return 1_000_000
}
