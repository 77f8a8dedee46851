package guard

import (
	"net/netip"
	"slices"

	"github.com/weirhttp/weir/internal/forwarded"
)

// sources is a set of sources, by index.
type sources uint64

// ranges finds the sources that have an address. Prefixes either lie in each other
// or apart, so one sorted list is enough: an address is in the last prefix that
// doesn't begin after it, or in one that this one lies in, or in none.
type ranges []span

type span struct {
	prefix netip.Prefix
	in     int     // index of the next larger one that it lies in, or -1
	of     sources // whose it is, those of the larger ones with it
}

// newRanges indexes prefixes, given by source.
func newRanges(bySource [][]netip.Prefix) ranges {
	whose := map[netip.Prefix]sources{}
	for i, list := range bySource {
		for _, p := range list {
			plain, _ := forwarded.PlainPrefix(p) // the options were checked
			whose[plain] |= 1 << i
		}
	}
	r := make(ranges, 0, len(whose))
	for p, of := range whose {
		r = append(r, span{p, -1, of})
	}
	slices.SortFunc(r, func(a, b span) int {
		if c := a.prefix.Addr().Compare(b.prefix.Addr()); c != 0 {
			return c
		}
		return a.prefix.Bits() - b.prefix.Bits()
	})
	for i := range r {
		at := i - 1
		for at >= 0 && !r[at].prefix.Contains(r[i].prefix.Addr()) {
			at = r[at].in
		}
		if r[i].in = at; at >= 0 {
			r[i].of |= r[at].of
		}
	}
	return r
}

// find returns the sources that have addr, which has no zone and isn't an IPv4
// address written as IPv6. Its cost grows with the logarithm of the prefixes.
func (r ranges) find(addr netip.Addr) sources {
	i, _ := slices.BinarySearchFunc(r, addr, func(s span, a netip.Addr) int {
		if c := s.prefix.Addr().Compare(a); c != 0 {
			return c
		}
		return -1 // of several that begin here, the last
	})
	for i--; i >= 0; i = r[i].in {
		if r[i].prefix.Contains(addr) {
			return r[i].of
		}
	}
	return 0
}
