package guard

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

var proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}

func TestClientAddrReadsTheNamedField(t *testing.T) {
	proxy := netip.MustParseAddr("10.0.0.1")
	for _, c := range []struct {
		f    Forwarding
		line string
		want string
	}{
		{XForwardedFor, "203.0.113.9, 198.51.100.7", "198.51.100.7"},
		{Forwarded, "for=203.0.113.9, for=198.51.100.7", "198.51.100.7"},
		{XForwardedFor, "for=198.51.100.7", "10.0.0.1"},
		{Forwarded, "198.51.100.7", "10.0.0.1"},
	} {
		assert.Equal(t, c.want, ClientAddr(proxy, proxies, c.f, []string{c.line}).String())
	}
}

// A client that makes up an address for each request, through a trusted proxy or
// without one, has the budget of its own address; and the one it names keeps its
// own.
func TestMadeUpAddressesChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, f := range []Forwarding{XForwardedFor, Forwarded} {
			for _, peer := range []string{"10.0.0.1", "198.51.100.7"} {
				g := newGuard(t, policy())
				passed := 0
				for i := range 1000 {
					made := fmt.Sprintf("192.0.2.%d", i%256)
					own := "198.51.100.7" // what the proxy appends
					if f == Forwarded {
						made, own = "for="+made, "for="+own
					}
					addr := ClientAddr(netip.MustParseAddr(peer), proxies, f, []string{made, made + ", " + own})
					if g.Admit(Request{Addr: addr}, "").OK() {
						passed++
					}
				}
				assert.Equal(t, 10, passed)
				assert.Equal(t, 1, g.Stats().Addresses)
				n, _ := drain(g, at("192.0.2.1"), "")
				assert.Equal(t, 10, n, "the victim")
			}
		}
	})
}
