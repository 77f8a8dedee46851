package admission

import "time"

// Reason says why a request was admitted or refused.
type Reason uint8

// The reasons.
const (
	Admitted        Reason = iota // it may go on
	LimitFull                     // the global ceiling leaves no room for its class, and it can't queue
	RouteFull                     // its route's ceiling leaves no room, and it can't queue
	QueueFull                     // as many requests wait as may
	TenantQueueFull               // as many requests of its tenant wait as may, or it gave its place to another tenant's
	QueueTimeout                  // it waited as long as it may
	QueueOverdue                  // the queue stands, and newer requests were served first
	ClientGone                    // its context ended first

	// Those of an Overload.
	UnknownHost   // overload, and nobody configured its host
	ShareExceeded // overload, and its tenant has its share in flight
	PartlyShed    // overload is ending, and it isn't of the part that is let in
	TenantsShed   // overload is such that all tenants' requests are shed
	OperatorShed  // even the operator's requests are too many
	ProbesFull    // overload, and as many probes are in flight as are reserved for
	lastReason
)

var reasonNames = [lastReason]string{
	"admitted", "limit-full", "route-full", "queue-full", "tenant-queue-full",
	"queue-timeout", "queue-overdue", "client-gone",
	"unknown-host", "share-exceeded", "partly-shed", "tenants-shed", "operator-shed", "probes-full",
}

// String returns the reason in lower case with hyphens, as in "queue-full".
func (r Reason) String() string {
	if r >= lastReason {
		return "unknown"
	}
	return reasonNames[r]
}

// Decision is the answer to a request for a permit.
type Decision struct {
	Reason Reason
	// Wait is how long the request was queued; 0 if it wasn't.
	Wait time.Duration
	// RetryAfter is when a refused client should come again: whole seconds from
	// 1 s to [MaxRetryAfter], longer the more is refused. It is the same for all
	// clients of a moment; spread it before sending it, or they come back
	// together. 0 if the request was admitted or its client is gone.
	RetryAfter time.Duration
}

// OK reports whether the request was admitted.
func (d Decision) OK() bool { return d.Reason == Admitted }

// Err returns nil for an admitted request, else a *[ShedError]. It allocates.
func (d Decision) Err() error {
	if d.OK() {
		return nil
	}
	return &ShedError{d.Reason, d.RetryAfter}
}
