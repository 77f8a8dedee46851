package admission

import (
	"net/netip"
	"time"
)

// DefaultAddresses is how many addresses are told apart by default.
const DefaultAddresses = 65536

// Addresses keeps a bucket for each client address: an IPv4 address, or the /64
// of an IPv6 one, since one client has all of it. IPv4 addresses written as IPv6
// are the same as IPv4.
//
// It remembers a bounded number of them and forgets only full buckets, which
// changes nothing. When it finds none to forget, addresses that are new share one
// bucket of the same rate: a flood of addresses never lets more through.
type Addresses struct {
	set    *Buckets
	sample Bucket // what a new bucket is like
	shared Bucket
	max    int
	byAddr map[netip.Addr]int
	slots  []addressSlot
	hand   int
}

type addressSlot struct {
	addr   netip.Addr
	bucket Bucket
}

// Addresses makes a table of buckets for up to limit addresses, each with the
// parent; 0 means [DefaultAddresses], and at most 16,777,216. An address takes
// about 150 bytes once it was seen. It refuses what [Buckets.Bucket] does.
func (s *Buckets) Addresses(r Rate, limit int, parent *Bucket) (*Addresses, error) {
	b, err := s.Bucket(r, parent)
	if err != nil {
		return nil, err
	}
	if limit == 0 {
		limit = DefaultAddresses
	}
	if limit < 1 || limit > 1<<24 {
		return nil, &ConfigError{"limit", limit, "must be between 1 and 16777216; leave it 0 for 65536"}
	}
	return &Addresses{set: s, sample: *b, shared: *b, max: limit, byAddr: map[netip.Addr]int{}}, nil
}

// Take debits the address's bucket, its parents and the others, as
// [Buckets.Take] does. All must be of the table's set. At most seven others.
func (a *Addresses) Take(addr netip.Addr, cost int, others ...*Bucket) (ok bool, wait time.Duration) {
	ok, _, wait = a.Debit(addr, cost, others...)
	return ok, wait
}

// Debit is [Addresses.Take] that also says which of the parents and others
// refused: the one that takes longest to have enough. It is nil if ok, and if it
// was the address's own bucket.
func (a *Addresses) Debit(addr netip.Addr, cost int, others ...*Bucket) (ok bool, refused *Bucket, wait time.Duration) {
	var all [8]*Bucket
	if len(others) >= len(all) {
		return false, nil, time.Second
	}
	n := copy(all[1:], others)
	now := a.set.now()
	a.set.mu.Lock()
	defer a.set.mu.Unlock()
	all[0] = a.bucket(now, network(addr))
	ok, refused, wait = a.set.take(now, cost, all[:n+1]...)
	if refused == all[0] {
		refused = nil // its slot may soon be another address's
	}
	return ok, refused, wait
}

// Len returns how many addresses are remembered.
func (a *Addresses) Len() int {
	a.set.mu.Lock()
	defer a.set.mu.Unlock()
	return len(a.slots)
}

// network returns what an address is counted by.
func network(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		p, _ := addr.Prefix(64) // it has 128 bits
		return p.Addr()
	}
	return addr
}

// bucket finds the bucket of an address or makes one. It looks at a few slots at
// most, so a flood of new addresses costs no more than others.
func (a *Addresses) bucket(now int64, addr netip.Addr) *Bucket {
	if i, ok := a.byAddr[addr]; ok {
		return &a.slots[i].bucket
	}
	if len(a.slots) < a.max {
		a.byAddr[addr] = len(a.slots)
		a.slots = append(a.slots, addressSlot{addr, a.sample})
		return &a.slots[len(a.slots)-1].bucket
	}
	for range min(8, len(a.slots)) {
		i := a.hand
		a.hand = (a.hand + 1) % len(a.slots)
		if s := &a.slots[i]; s.bucket.filled <= now {
			delete(a.byAddr, s.addr)
			a.byAddr[addr] = i
			*s = addressSlot{addr, a.sample}
			return &s.bucket
		}
	}
	return &a.shared
}
