package lb

import (
	"context"
	"errors"
	"time"
)

// outcomeKind is what a visitor's request says about the origin.
type outcomeKind uint8

const (
	noOutcome outcomeKind = iota // nothing: the visitor went away, or it was our own fault
	succeeded
	failed
)

// outcome is the end of a visitor's request. The zero value is one that says
// nothing.
type outcome struct {
	kind outcomeKind
	// aside is how long the origin wants to be left alone: Retry-After of a 503. 0
	// if it doesn't say.
	aside time.Duration
}

// outcomeOf judges an attempt: by err if there is one (of the connection, the
// head, or the body), else by the status. aside is the Retry-After of a 503.
// clientGone says that the visitor's request was cancelled, or that its body
// couldn't be read: that is never the origin's fault.
func (e Ejection) outcomeOf(status int, aside time.Duration, err error, clientGone bool) outcome {
	switch {
	case clientGone || errors.Is(err, context.Canceled):
		return outcome{}
	case err != nil:
		return outcome{kind: failed}
	case status < 500 || !e.counts(status):
		return outcome{kind: succeeded}
	case status != 503 || e.MaxRetryAfter <= 0:
		aside = 0
	}
	return outcome{failed, max(aside, 0)}
}
