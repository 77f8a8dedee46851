package guard

import (
	"net/netip"
	"time"
)

// Identity is who asks, as far as that was verified: a provider, such as the
// company of a search engine, and a class of its traffic. The zero value is
// unknown. Nothing that a client sends about itself may become an identity; see
// [Verifier].
type Identity struct {
	Provider string
	Class    string
}

// Known reports whether it names a provider.
func (i Identity) Known() bool { return i.Provider != "" }

// String returns "provider/class", or "unknown".
func (i Identity) String() string {
	if !i.Known() {
		return "unknown"
	}
	return i.Provider + "/" + i.Class
}

// Request is what a guard needs to know about a request.
type Request struct {
	// Identity is who asks. One that the policy doesn't have counts as unknown.
	Identity Identity
	// Addr is the client's address, as from [ClientAddr]. All requests without a
	// valid one share the budget of one address.
	Addr netip.Addr
	// Began is when the request arrived, by this process's clock. Zero, and any
	// time in the future, means now.
	Began time.Time
}
