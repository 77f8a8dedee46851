package forwarded

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Of what a request says of its way, the client's own part is left: by both fields the
// same.
func TestOwnLeavesWhatTheClientSent(t *testing.T) {
	at := netip.MustParseAddr(peer)
	for _, c := range []struct {
		name      string
		lines     []string // of X-Forwarded-For
		forwarded []string // the same in Forwarded
		client    string
		left      []string
		leftOf    []string
	}{
		{"nothing", nil, nil, peer, nil, nil},
		{"the client alone", []string{client}, []string{"for=" + client}, client, nil, nil},
		{"by two proxies", []string{client + ",10.1.1.1"}, []string{"for=" + client + ",for=10.1.1.1"}, client, nil, nil},
		{"nothing left of it", []string{" , ,\t", ",,\t" + client}, []string{"", " ," + "for=" + client}, client, nil, nil},
		{"somebody left of it", []string{"203.0.113.9, " + client}, []string{"for=203.0.113.9, for=" + client}, client, []string{"203.0.113.9"}, []string{"for=203.0.113.9"}},
		{"in other lines", []string{"a", "b", client, "10.1.1.1"}, []string{"a", "b", "for=" + client, "for=10.1.1.1"}, client, []string{"a", "b"}, []string{"a", "b"}},
		{"in both", []string{"a", "b, " + client}, []string{"a", `for="_b", for=` + client}, client, []string{"a", "b"}, []string{"a", `for="_b"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, field := range map[string]struct{ lines, left []string }{
				ForField: {c.lines, c.left}, ForwardedField: {c.forwarded, c.leftOf},
			} {
				h := http.Header{"Accept": {"x"}}
				if field.lines != nil {
					h[name] = field.lines
				}
				addr, out := Own(at, trusted, name, h)
				want := http.Header{"Accept": {"x"}}
				if len(field.left) > 0 {
					want[name] = field.left
				}
				assert.Equal(t, c.client, addr.String(), name)
				assert.Equal(t, want, out, name)
			}
		})
	}
}

func TestPlainPrefix(t *testing.T) {
	for text, want := range map[string]string{
		"10.1.2.3/8": "10.0.0.0/8", "::ffff:10.1.2.3/104": "10.0.0.0/8", "::ffff:10.1.2.3/128": "10.1.2.3/32",
		"::ffff:0.0.0.0/96": "0.0.0.0/0", "fd00::1/8": "fd00::/8", "0.0.0.0/0": "0.0.0.0/0", "::/0": "::/0",
		"::ffff:0.0.0.0/95": "",
	} {
		p, ok := PlainPrefix(netip.MustParsePrefix(text))
		assert.Equal(t, want != "", ok, text)
		if ok {
			assert.Equal(t, want, p.String(), text)
		}
	}
	_, ok := PlainPrefix(netip.Prefix{})
	assert.False(t, ok)
}

// A network of IPv4 written as IPv6 has its addresses, however it comes here.
func TestTrustedByIPv4WrittenAsIPv6(t *testing.T) {
	mapped := []netip.Prefix{{}, netip.MustParsePrefix("::ffff:10.0.0.0/104"), netip.MustParsePrefix("::ffff:0:0/90")}
	assert.True(t, Trusted(netip.MustParseAddr("10.1.2.3"), mapped))
	assert.False(t, Trusted(netip.MustParseAddr("11.1.2.3"), mapped))
	assert.Equal(t, client, Client(netip.MustParseAddr("::ffff:10.0.0.1"), mapped, []string{client}).String())
}
