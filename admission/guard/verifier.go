package guard

import (
	"context"
	"errors"
	"math/bits"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhttp/weir/admission"
)

// Proof is how an identity was found, or why none was.
type Proof uint8

// The proofs.
const (
	Unclaimed   Proof = iota // nothing says that it's anybody known
	ByRange                  // verified: its address is in a provider's range
	ByName                   // verified: by forward-confirmed reverse DNS
	Denied                   // it claims to be somebody whose names its address doesn't have
	Pending                  // it claims to be somebody, and is being looked up
	Unavailable              // it claims to be somebody, and can't be looked up now
	lastProof
)

var proofNames = [lastProof]string{"unclaimed", "by-range", "by-name", "denied", "pending", "unavailable"}

// String returns the proof in lower case with hyphens, as in "by-name".
func (p Proof) String() string {
	if p >= lastProof {
		return "unknown"
	}
	return proofNames[p]
}

// Verifier tells who a client is by its address. It never makes a request wait: an
// address whose names have to be looked up is unknown until a goroutine in the
// background has done that. What it looks up and remembers is bounded, whatever
// clients do. Its methods may be called by many goroutines. Close it.
type Verifier struct {
	o       VerifierOptions
	known   atomic.Pointer[recognition]
	context context.Context
	cancel  context.CancelFunc

	buckets  admission.Buckets
	networks *admission.Addresses
	refused  *admission.Addresses // the networks of refused requests, within their budget

	mu       sync.Mutex // guards all below
	closed   bool
	running  int                     // goroutines
	idle     chan struct{}           // closed when closed and none runs
	pending  map[netip.Addr]struct{} // waiting or being looked up
	queue    []netip.Addr
	verified verdicts
	others   verdicts
	stats    VerifierStats
}

// VerifierStats is what a verifier has done.
type VerifierStats struct {
	Lookups  uint64 // of an address, all its steps together
	Verified uint64 // lookups that confirmed somebody
	Denied   uint64 // and that didn't
	Failed   uint64 // and that couldn't tell
	Dropped  uint64 // admitted requests whose address couldn't be looked up yet
	Pending  int    // addresses that wait or are being looked up
	Stored   int    // verdicts remembered
}

// NewVerifier returns a verifier, or all that is wrong with its options, as
// *[admission.ConfigError] joined with errors.Join.
func NewVerifier(o VerifierOptions) (*Verifier, error) {
	if err := o.resolve(); err != nil {
		return nil, err
	}
	v := &Verifier{pending: map[netip.Addr]struct{}{}, idle: make(chan struct{})}
	v.verified.max, v.others.max = o.Verdicts, o.Verdicts
	var err error
	if v.networks, v.refused, err = o.newBudgets(&v.buckets); err != nil {
		return nil, err
	}
	v.known.Store(recognise(o.Sources))
	o.Sources = nil
	v.o = o
	v.context, v.cancel = context.WithCancel(context.Background())
	return v, nil
}

// Replace puts other sources in force, as when a provider publishes new ranges. It
// refuses what [NewVerifier] refuses. What was looked up is forgotten if Domains
// differ.
func (v *Verifier) Replace(list []Source) error {
	if err := checkSources(list); err != nil {
		return err
	}
	next := recognise(list)
	v.mu.Lock()
	defer v.mu.Unlock()
	if !slices.Equal(next.domains, v.known.Load().domains) {
		v.verified = verdicts{max: v.o.Verdicts}
		v.others = verdicts{max: v.o.Verdicts}
	}
	v.known.Store(next)
	return nil
}

// Identify returns who the client at an address is, and why. The user agent only
// chooses which sources to consider. It doesn't block or look anything up itself,
// and allocates only when an address has to be.
func (v *Verifier) Identify(addr netip.Addr, userAgent string) (Identity, Proof) {
	return v.identify(addr, userAgent, lookAdmitted)
}

// Recall is Identify for a request that may yet be refused: it has nothing looked up.
// If the proof is Pending or ByName, call Identify once the request is admitted, or
// Refused once it isn't, so that the address is looked up if it's time.
func (v *Verifier) Recall(addr netip.Addr, userAgent string) (Identity, Proof) {
	return v.identify(addr, userAgent, lookNever)
}

// Refused has the address of a request looked up that was refused, if it's time: a known
// client can be refused for not being known yet, for as long as unknown ones use up what
// they share. It has a small budget of its own within that of Identify, so that a flood of
// refused requests leaves the lookups to the admitted ones: see
// VerifierOptions.LookupsPerSecond.
func (v *Verifier) Refused(addr netip.Addr, userAgent string) {
	v.identify(addr, userAgent, lookRefused)
}

// Identities returns who the sources in force recognise, without doubles.
func (v *Verifier) Identities() []Identity {
	var ids []Identity
	for _, id := range v.known.Load().identities {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// look says for what an address may be looked up.
type look uint8

const (
	lookNever    look = iota
	lookAdmitted      // for a request that was admitted
	lookRefused       // for one that was refused
)

func (v *Verifier) identify(addr netip.Addr, userAgent string, look look) (Identity, Proof) {
	addr = addr.Unmap().WithZone("")
	r := v.known.Load()
	in := r.ranges.find(addr)
	var named sources
	if r.byName != 0 || in&^r.agents.all != 0 {
		named = r.agents.named(userAgent)
	}
	if in &= named | r.agents.all; in != 0 {
		return r.identities[bits.TrailingZeros64(uint64(in))], ByRange
	}
	named &= r.byName
	if named == 0 {
		return Identity{}, Unclaimed
	}
	if !addr.IsGlobalUnicast() || addr.IsPrivate() {
		return Identity{}, Denied // their names are no provider's
	}
	domains, proof := v.verdict(addr, look)
	for left := named; proof == ByName && left != 0; left &= left - 1 {
		if i := bits.TrailingZeros64(uint64(left)); r.below[i]&domains != 0 {
			return r.identities[i], ByName
		}
	}
	if proof == ByName {
		proof = Denied // it's somebody else's
	}
	return Identity{}, proof
}

// verdict returns what is known about an address, and has it looked up if it's time and
// that is wanted.
func (v *Verifier) verdict(addr netip.Addr, look look) (sources, Proof) {
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	if r := v.verified.get(addr); r != nil && now.Before(r.ends) {
		if look != lookNever && !now.Before(r.again) {
			if v.enqueue(addr, look) == Unavailable && look == lookAdmitted {
				r.again = now.Add(time.Second)
			}
		}
		return r.domains, ByName
	}
	if r := v.others.get(addr); r != nil && now.Before(r.ends) {
		if r.domains != 0 {
			return 0, Unavailable
		}
		return 0, Denied
	}
	if look == lookNever {
		return 0, Pending
	}
	return 0, v.enqueue(addr, look)
}

// Stats returns figures of this moment.
func (v *Verifier) Stats() VerifierStats {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.stats
	s.Pending = len(v.pending)
	s.Stored = len(v.verified.by) + len(v.others.by)
	return s
}

// Close ends all lookups and waits for them, or until ctx ends. Afterwards nobody
// is looked up any more; ranges and what is remembered still count.
func (v *Verifier) Close(ctx context.Context) error {
	v.mu.Lock()
	if !v.closed {
		v.closed = true
		v.queue = nil
		if v.running == 0 {
			close(v.idle)
		}
	}
	v.mu.Unlock()
	v.cancel()
	select {
	case <-v.idle:
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("guard: a lookup hasn't ended"), ctx.Err())
	}
}
