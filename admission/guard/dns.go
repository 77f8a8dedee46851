package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Resolver looks names up. A *[net.Resolver] is one. Its methods must end when
// their context does, and may be called by several goroutines.
type Resolver interface {
	LookupAddr(ctx context.Context, addr string) (names []string, err error)
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// The names of an address are whatever its owner wrote, so few are looked at.
const (
	maxNames    = 64 // that are compared with the domains
	maxForwards = 4  // that are looked up in turn
)

// confirm returns the domains, of those given, that an address belongs to by
// forward-confirmed reverse DNS: one of its names is in the domain, and that name
// has the address. An error means that it couldn't be found out.
func confirm(ctx context.Context, r Resolver, addr netip.Addr, domains []string) (found sources, err error) {
	defer func() {
		if p := recover(); p != nil {
			found, err = 0, fmt.Errorf("guard: the resolver panicked: %v", p)
		}
	}()
	names, err := r.LookupAddr(ctx, addr.String())
	if len(names) == 0 && err != nil {
		return 0, unlessAbsent(err)
	}
	network := "ip4"
	if addr.Is6() {
		network = "ip6"
	}
	var failed error
	forwards := 0
	for _, name := range names[:min(len(names), maxNames)] {
		name, ok := hostName(name)
		in := inDomains(name, domains) &^ found
		if !ok || in == 0 {
			continue
		}
		if forwards++; forwards > maxForwards {
			break
		}
		// The dot keeps the resolver from trying the name in this machine's domains.
		addrs, err := r.LookupNetIP(ctx, network, name+".")
		if err != nil {
			failed = errors.Join(failed, unlessAbsent(err))
			continue
		}
		for _, a := range addrs {
			if a.Unmap().WithZone("") == addr {
				found |= in
			}
		}
	}
	if found != 0 {
		return found, nil
	}
	return 0, failed
}

// unlessAbsent returns nil for the error that says that there's no such name.
func unlessAbsent(err error) error {
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return nil
	}
	return err
}

// hostName returns a name from the DNS in lower case and without the dot at its
// end. It reports false if that isn't the name of a host.
func hostName(s string) (string, bool) {
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > 253 {
		return "", false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 {
			return "", false
		}
		for i := 0; i < len(label); i++ {
			switch c := lower(label[i]); {
			case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
			default:
				return "", false
			}
		}
	}
	return lowerASCII(s), true
}

// inDomains returns the domains that a name is, or is below.
func inDomains(name string, domains []string) sources {
	var in sources
	for i, d := range domains {
		if rest, ok := strings.CutSuffix(name, d); ok && (rest == "" || rest[len(rest)-1] == '.') {
			in |= 1 << i
		}
	}
	return in
}
