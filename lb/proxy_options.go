package lb

import (
	"errors"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"

	"github.com/weirhttp/weir/internal/forwarded"
)

// The defaults of [ProxyOptions].
const (
	DefaultVia     = "weir"
	DefaultUpgrade = "websocket"
)

// ProxyOptions configures [NewProxy]. Only Transport has to be set.
type ProxyOptions struct {
	// Transport sends the requests; required. It must not change them, and its
	// responses belong to the proxy.
	Transport http.RoundTripper

	// TrustedPeers are the addresses of proxies before this one. What they say
	// in X-Forwarded-For, -Host, -Proto and Forwarded is taken over. From
	// everyone else these, all other X-Forwarded fields and X-Real-Ip are
	// dropped. None by default.
	TrustedPeers []netip.Prefix
	// SendForwarded also sends the Forwarded field (RFC 7239). Without it, only
	// the one of a trusted peer is passed on and added to.
	SendForwarded bool
	// Via is the pseudonym in the requests' Via field (RFC 9110 §7.6.3). "" means
	// [DefaultVia].
	Via string

	// Protect names fields that handlers before the proxy set on the request,
	// such as X-User. A client can have fields removed by naming them in its
	// Connection field; these stay, as do those of HTTP itself. Fields that some
	// origins take for one of these, such as X_User, are dropped.
	Protect []string
	// Upgrades are the protocols that may take over a connection, in any case. Of
	// other requests for an upgrade, that wish is dropped. nil means
	// [DefaultUpgrade] only; an empty slice means none.
	Upgrades []string

	// ErrorHandler answers when there is no response; nil means [ProxyError]. It
	// isn't called when the client is gone.
	ErrorHandler func(http.ResponseWriter, *http.Request, error)
}

func (o ProxyOptions) resolve() (ProxyOptions, error) {
	var errs []error
	bad := func(field string, value any, reason string) {
		errs = append(errs, &ConfigError{"ProxyOptions." + field, value, reason})
	}
	if o.Transport == nil {
		bad("Transport", nil, "a proxy needs one; a Balancer is one")
	}
	o.TrustedPeers = slices.Clone(o.TrustedPeers)
	for i, p := range o.TrustedPeers {
		plain, ok := forwarded.PlainPrefix(p)
		switch {
		case ok:
			o.TrustedPeers[i] = plain
		case !p.IsValid():
			bad("TrustedPeers", p, "not a prefix; use netip.MustParsePrefix")
		default:
			bad("TrustedPeers", p, "more than IPv4 mapped into IPv6; write what is IPv4 as 10.0.0.0/8")
		}
	}
	o.Via = orDefault(o.Via, DefaultVia)
	if !isToken(o.Via) && !validHost(o.Via) {
		bad("Via", o.Via, "write a single word or a host name")
	}
	o.Protect = slices.Clone(o.Protect)
	for i, name := range o.Protect {
		if !isToken(name) {
			bad("Protect", name, "not the name of a field")
		}
		o.Protect[i] = textproto.CanonicalMIMEHeaderKey(name)
	}
	if o.Upgrades == nil {
		o.Upgrades = []string{DefaultUpgrade}
	}
	o.Upgrades = slices.Clone(o.Upgrades)
	for _, name := range o.Upgrades {
		if !isToken(name) {
			bad("Upgrades", name, "not the name of a protocol")
		}
	}
	if o.ErrorHandler == nil {
		o.ErrorHandler = ProxyError
	}
	return o, errors.Join(errs...)
}

// isToken reports whether s is a token of RFC 9110 §5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}
