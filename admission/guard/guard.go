package guard

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhttp/weir/admission"
)

// DefaultIPv6Prefix is how many leading bits of an IPv6 address are counted as one
// client by default.
const DefaultIPv6Prefix = 64

// Options configures a [Guard].
type Options struct {
	// Policy is the first policy; required. See [Guard.Replace] for later ones.
	Policy Policy
	// Routes are the names that the program uses with [Guard.Admit] and [Do]. A
	// policy that lacks one is refused, rather than each request of that route.
	// Nil checks nothing.
	Routes []string
	// Addresses is how many addresses of unknown clients are told apart, up to
	// 16,777,216, at about 150 bytes each. 0 means [admission.DefaultAddresses].
	// When all of them have a used budget, new ones share one.
	Addresses int
	// IPv6Prefix is how many leading bits of an IPv6 address count as one client,
	// from 32 to 64. 0 means [DefaultIPv6Prefix].
	IPv6Prefix int
}

// Guard decides by a [Policy]. Its methods may be called by many goroutines. It
// has no goroutines of its own and needs no closing.
//
// When its policy expires, the guard goes on with it, but nobody is known any more:
// all clients share the unknown budget and have one for each address, and operations
// of all are bounded as those of unknown clients. That is stricter for everybody,
// since no policy lets unknown clients do more than a known class. So a control
// plane that is gone costs known clients their privileges, and nobody the service.
type Guard struct {
	now     func() time.Time
	names   []string
	bits    int
	state   atomic.Pointer[state]
	reasons [lastReason]atomic.Uint64

	buckets   admission.Buckets
	global    *admission.Bucket
	unknown   *admission.Bucket
	addresses *admission.Addresses

	replacing sync.Mutex // held by Replace
	named     map[string]*admission.Bucket

	mu   sync.Mutex // guards all below, and the operations of requests
	work work
}

// state is a policy made ready. It doesn't change.
type state struct {
	Policy
	classes map[Identity]*class
	routes  map[string]*route
}

// class is what a known client counts against.
type class struct {
	bucket   *admission.Bucket // its own; nil: none
	provider *admission.Bucket
	work     int
	slots    *slots
}

type route struct {
	cost    int
	bucket  *admission.Bucket // nil: none
	unknown *admission.Bucket // of all unknown clients; nil: none
}

// New returns a guard, or all that is wrong with its options and policy, as
// *[admission.ConfigError] joined with errors.Join.
func New(o Options) (*Guard, error) {
	var c checker
	if o.IPv6Prefix == 0 {
		o.IPv6Prefix = DefaultIPv6Prefix
	}
	c.between("IPv6Prefix", o.IPv6Prefix, 32, 64, "leave it 0 for 64")
	if o.Addresses == 0 {
		o.Addresses = admission.DefaultAddresses
	}
	c.between("Addresses", o.Addresses, 1, 1<<24, "leave it 0 for 65536")
	g := &Guard{now: time.Now, names: append([]string(nil), o.Routes...), bits: o.IPv6Prefix, named: map[string]*admission.Bucket{}}
	p := o.Policy.clone()
	if err := errors.Join(errors.Join(c...), g.check(p)); err != nil {
		return nil, err
	}
	var err error
	if g.global, err = g.buckets.Bucket(p.Global, nil); err != nil {
		return nil, err
	}
	if g.unknown, err = g.buckets.Bucket(p.Unknown, nil); err != nil {
		return nil, err
	}
	if g.addresses, err = g.buckets.Addresses(p.Address, o.Addresses, nil); err != nil {
		return nil, err
	}
	return g, g.install(p)
}

// check validates a policy and that it has the program's routes.
func (g *Guard) check(p Policy) error {
	var c checker
	has := map[string]bool{}
	for _, r := range p.Routes {
		has[r.Name] = true
	}
	for _, name := range g.names {
		if !has[name] {
			c.bad("Routes", name, "is used by the program (Options.Routes) but isn't in the policy; add it there")
		}
	}
	return errors.Join(p.Validate(g.now()), errors.Join(c...))
}

// ErrOldPolicy is returned for a policy that isn't newer than the one in force.
var ErrOldPolicy = errors.New("guard: the policy isn't newer than the one in force")

// Replace puts another policy in force, at once and as a whole. It refuses what
// [New] refuses, and with [ErrOldPolicy] one of a lower version, or of the same
// version but with other contents; then the present one stays in force.
//
// Global, unknown and address budgets, and those of providers, classes and routes
// that had the same name, keep what they have left, at most their new burst, and
// fill at the new rate. New names start with a full budget. A name that is left out
// and comes back finds what it would have had; if its budget was full by then, it
// starts with a full one. Operations that run keep running and count.
func (g *Guard) Replace(p Policy) error {
	p = p.clone()
	if err := g.check(p); err != nil {
		return err
	}
	g.replacing.Lock()
	defer g.replacing.Unlock()
	now := g.state.Load()
	if p.Version == now.Version && equal(p, now.Policy) {
		return nil
	}
	if p.Version <= now.Version {
		return fmt.Errorf("%w: version %d, in force is %d", ErrOldPolicy, p.Version, now.Version)
	}
	return g.install(p)
}

// Policy returns the policy in force, which may have expired.
func (g *Guard) Policy() Policy { return g.state.Load().clone() }

// Stats is what a guard has done and what it has in use.
type Stats struct {
	Version   uint64 // of the policy in force
	Expired   bool
	Decisions map[Reason]uint64 // requests and operations, by reason; without zeros
	Addresses int               // how many are remembered
	Work      int               // operations that run
	Unknown   int               // of these, those of unknown clients
	Providers map[string]int    // and those of known ones; without zeros
}

// Stats returns figures of this moment.
func (g *Guard) Stats() Stats {
	st := g.state.Load()
	s := Stats{
		Version: st.Version, Expired: st.expired(g.now()), Addresses: g.addresses.Len(),
		Decisions: map[Reason]uint64{}, Providers: map[string]int{},
	}
	for r := range g.reasons {
		if n := g.reasons[r].Load(); n > 0 {
			s.Decisions[Reason(r)] = n
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s.Work, s.Unknown = g.work.all.used, g.work.unknown.used
	for name, p := range g.work.providers {
		if p.used > 0 {
			s.Providers[name] = p.used
		}
	}
	return s
}

// who returns the identity that a request counts as, and its class; nil for unknown.
func (st *state) who(id Identity, expired bool) (Identity, *class) {
	if c := st.classes[id]; c != nil && !expired {
		return id, c
	}
	return Identity{}, nil
}

// client returns what an address is counted by.
func (g *Guard) client(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if addr.Is6() && g.bits < 64 {
		p, _ := addr.Prefix(g.bits) // it has 128 bits
		return p.Addr()
	}
	return addr // admission.Addresses takes the /64
}
