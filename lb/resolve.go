package lb

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// target is an origin's address taken apart.
type target struct {
	ip   netip.Addr // of an address; the zero value for a name
	name string     // of a name
	port uint16
}

// parseTarget takes an address apart: an IP address or a name, with or without a
// port. IPv6 addresses with a port stand in brackets. The default port is the
// scheme's.
func parseTarget(address, scheme string) (target, error) {
	port := uint16(443)
	if scheme == "http" {
		port = 80
	}
	host := address
	if strings.HasPrefix(address, "[") && strings.HasSuffix(address, "]") {
		host = address[1 : len(address)-1]
	}
	if ip, ok := parseIP(host); ok {
		return target{ip: ip.Unmap(), port: port}, nil
	}
	if h, p, err := net.SplitHostPort(address); err == nil {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return target{}, errors.New("the port must be between 1 and 65535")
		}
		host, port = h, uint16(n)
	}
	if ip, ok := parseIP(host); ok {
		return target{ip: ip.Unmap(), port: port}, nil
	}
	if host != address && strings.HasPrefix(address, "[") {
		host = "" // brackets are for addresses only
	}
	host = strings.TrimSuffix(host, ".")
	_, isAddress := parseIP(host) // with a dot behind it
	if isAddress || len(host) > 253 || strings.ContainsFunc(host, notInName) || slices.Contains(strings.Split(host, "."), "") {
		return target{}, errors.New("write an IP address or a name, with a port if need be, such as 10.0.0.1:8443")
	}
	return target{name: strings.ToLower(host), port: port}, nil
}

// parseIP reads an address. Go takes anything for a zone; here it is a name, so that
// the address can be read where it stands beside a port (RFC 6874 §2).
func parseIP(s string) (netip.Addr, bool) {
	ip, err := netip.ParseAddr(s)
	return ip, err == nil && !strings.ContainsFunc(ip.Zone(), notInName)
}

// notInName reports whether r can't be part of a host's name. Underscores are
// common in names of containers.
func notInName(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '.' || r == '_')
}

// validHost reports whether s can stand in a Host field: zones mean something on one
// machine only, and addresses of IPv6 need brackets.
func validHost(s string) bool {
	_, err := parseTarget(s, "https")
	return err == nil && validAuthority(s) && !strings.Contains(s, "%")
}

// host returns the name or the IP address without brackets.
func (g target) host() string {
	if g.name != "" {
		return g.name
	}
	return g.ip.WithZone("").String()
}

// authority returns host and port as they stand in an URL.
func (g target) authority() string {
	port := strconv.Itoa(int(g.port))
	if g.name != "" {
		return net.JoinHostPort(g.name, port)
	}
	return net.JoinHostPort(g.ip.String(), port)
}

// resolve returns the addresses in the order in which to try them: as the
// resolver gave them, but with the families in turn (RFC 8305 §4).
func (g target) resolve(ctx context.Context, r Resolver) ([]netip.Addr, error) {
	if g.name == "" {
		return []netip.Addr{g.ip}, nil
	}
	found, err := r.LookupNetIP(ctx, "ip", g.name)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: g.name, IsNotFound: true}
	}
	return interleave(found), nil
}

// interleave puts addresses of the two families in turn, beginning with the
// first's, and drops repeated ones.
func interleave(found []netip.Addr) []netip.Addr {
	var first, second []netip.Addr
	seen := make(map[netip.Addr]bool, len(found))
	for _, a := range found {
		a = a.Unmap()
		if seen[a] {
			continue
		}
		seen[a] = true
		if len(first) == 0 || a.Is4() == first[0].Is4() {
			first = append(first, a)
		} else {
			second = append(second, a)
		}
	}
	out := make([]netip.Addr, 0, len(first)+len(second))
	for i := range max(len(first), len(second)) {
		if i < len(first) {
			out = append(out, first[i])
		}
		if i < len(second) {
			out = append(out, second[i])
		}
	}
	return out
}
