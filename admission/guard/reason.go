package guard

import (
	"errors"
	"math"
	"time"
)

// Reason says why a request or an operation was admitted or refused.
type Reason uint8

// The reasons.
const (
	Admitted         Reason = iota // it may go on
	RateGlobal                     // the global rate is used up
	RateUnknown                    // that of all unknown clients is
	RateAddress                    // that of its address is
	RateProvider                   // that of its provider is
	RateClass                      // that of its class is
	RateRoute                      // that of the route is
	RateRouteUnknown               // that of the route for all unknown clients is
	WorkGlobal                     // as many operations run as may
	WorkUnknown                    // as many run for unknown clients as may
	WorkProvider                   // as many run for its provider as may
	WorkLocal                      // as many run in this process as may
	Operations                     // the request has started as many operations as it may
	ContextAge                     // the request is too old to start an operation
	NoRoute                        // the policy has no route of that name
	lastReason
)

var reasonNames = [lastReason]string{
	"admitted", "rate-global", "rate-unknown", "rate-address", "rate-provider", "rate-class", "rate-route",
	"rate-route-unknown",
	"work-global", "work-unknown", "work-provider", "work-local", "operations", "context-age", "no-route",
}

// String returns the reason in lower case with hyphens, as in "rate-address".
func (r Reason) String() string {
	if r >= lastReason {
		return "unknown"
	}
	return reasonNames[r]
}

// Rate reports whether a rate refused: HTTP says 429 then, and 503 to the others.
func (r Reason) Rate() bool { return RateGlobal <= r && r <= RateRouteUnknown }

// MaxRetryAfter is the longest time that a refused client is told to stay away.
const MaxRetryAfter = time.Hour

// Decision is the answer to a request.
type Decision struct {
	Reason Reason
	// Wait is how long it takes until all budgets have enough, if nobody else
	// comes; 0 unless a rate refused.
	Wait time.Duration
	// RetryAfter is when the client should come again: whole seconds from 1 s to
	// [MaxRetryAfter], or 0 if it was admitted or coming again doesn't help.
	RetryAfter time.Duration
	// As is who the request counted as.
	As Identity
	// Version is that of the policy that decided, Expired whether it had ended.
	Version uint64
	Expired bool
}

// OK reports whether the request was admitted.
func (d Decision) OK() bool { return d.Reason == Admitted }

// Err returns nil if the request was admitted, else a *[RefusedError] about what
// was to be done. It allocates.
func (d Decision) Err(what string) error {
	if d.OK() {
		return nil
	}
	return &RefusedError{What: what, Reason: d.Reason, RetryAfter: d.RetryAfter}
}

// refuse sets why, and when to come again.
func (d *Decision) refuse(r Reason, wait time.Duration) {
	d.Reason, d.Wait = r, wait
	switch {
	case r.Rate():
		seconds := math.Ceil(wait.Seconds())
		d.RetryAfter = min(time.Duration(max(seconds, 1))*time.Second, MaxRetryAfter)
	case WorkGlobal <= r && r <= WorkLocal:
		d.RetryAfter = time.Second
	}
}

// ErrRefused is what every [RefusedError] matches with errors.Is.
var ErrRefused = errors.New("guard: refused")

// RefusedError is a refusal as an error.
type RefusedError struct {
	What       string // the route or operation; may be empty
	Reason     Reason
	RetryAfter time.Duration // see [Decision]
}

// Error names what was refused and why.
func (e *RefusedError) Error() string {
	if e.What == "" {
		return "guard: refused: " + e.Reason.String()
	}
	return "guard: " + e.What + " refused: " + e.Reason.String()
}

// Is reports whether target is [ErrRefused].
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }
