package guard

import (
	"context"
	"net/netip"
	"time"
)

// failedMark stands in a verdict for "it couldn't be found out".
const failedMark = ^sources(0)

// enqueue has an address looked up in the background. Called with v.mu held.
func (v *Verifier) enqueue(addr netip.Addr, look look) Proof {
	if _, ok := v.pending[addr]; ok {
		return Pending
	}
	budget, room := v.networks, v.o.LookupQueue
	if look == lookRefused {
		budget, room = v.refused, (room+1)/2
	}
	ok := !v.closed && len(v.queue) < room
	if ok {
		ok, _ = budget.Take(networkOf(addr), 1)
	}
	if !ok {
		if look == lookAdmitted {
			v.stats.Dropped++
		}
		return Unavailable
	}
	v.pending[addr] = struct{}{}
	v.queue = append(v.queue, addr)
	if v.running < v.o.Lookups {
		v.running++
		go v.work()
	}
	return Pending
}

// networkOf is whose budget of lookups an address uses.
func networkOf(addr netip.Addr) netip.Addr {
	n := 24
	if addr.Is6() {
		n = 48
	}
	p, _ := addr.Prefix(n) // it has as many bits
	return p.Addr()
}

// work looks addresses up until none waits.
func (v *Verifier) work() {
	for {
		v.mu.Lock()
		if len(v.queue) == 0 {
			v.running--
			if v.closed && v.running == 0 {
				close(v.idle)
			}
			v.mu.Unlock()
			return
		}
		addr := v.queue[0]
		v.queue = v.queue[1:]
		v.stats.Lookups++
		v.mu.Unlock()

		known := v.known.Load()
		ctx, cancel := context.WithTimeout(v.context, v.o.LookupTimeout)
		domains, err := confirm(ctx, v.o.Resolver, addr, known.domains)
		cancel()
		v.learn(known, addr, domains, err)
	}
}

// learn keeps what was found out about an address.
func (v *Verifier) learn(from *recognition, addr netip.Addr, domains sources, err error) {
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.pending, addr)
	if !sameDomains(from, v.known.Load()) || v.closed && err != nil {
		return // it was asked about other names, or broken off
	}
	n := verdict{addr: addr, domains: domains}
	switch {
	case err != nil:
		v.stats.Failed++
		if had := v.verified.get(addr); had != nil && now.Before(had.ends) {
			had.again = now.Add(v.o.FailedFor) // it holds until its own end
			return
		}
		n.domains, n.ends = failedMark, now.Add(v.o.FailedFor)
	case domains != 0:
		v.stats.Verified++
		v.others.drop(addr)
		n.again, n.ends = now.Add(v.o.VerifiedFor*3/4), now.Add(v.o.VerifiedFor)
		v.verified.put(n)
		return
	default:
		v.stats.Denied++
		n.ends = now.Add(v.o.DeniedFor)
	}
	v.verified.drop(addr)
	v.others.put(n)
}

func sameDomains(a, b *recognition) bool {
	if len(a.domains) != len(b.domains) {
		return false
	}
	for i := range a.domains {
		if a.domains[i] != b.domains[i] {
			return false
		}
	}
	return true
}
