package lb

import (
	"errors"
	"fmt"
)

// ErrClosed is what a closed [Balancer] answers.
var ErrClosed = errors.New("lb: balancer closed")

// ErrNoOrigin is what [NoOriginError] is, for errors.Is.
var ErrNoOrigin = errors.New("lb: no origin")

// NoOriginError says that a request could be sent to no origin. None was tried.
type NoOriginError struct {
	Host string
	// AtCapacity is set when an eligible origin had no room: later there may be.
	AtCapacity bool
	// UnknownHost is set when no pool serves the host.
	UnknownHost bool
}

// Error says why there is none.
func (e *NoOriginError) Error() string {
	why := "none is eligible"
	switch {
	case e.UnknownHost:
		why = "no pool serves it"
	case e.AtCapacity:
		why = "all are at capacity"
	}
	return fmt.Sprintf("lb: no origin for host %q: %s", e.Host, why)
}

// Is makes errors.Is(err, ErrNoOrigin) true.
func (e *NoOriginError) Is(target error) bool { return target == ErrNoOrigin }

// ConfigError is one setting that a constructor refuses.
type ConfigError struct {
	Field  string // such as "Pools[0].Origins[2].Weight"
	Value  any
	Reason string // what is wrong and what to write instead
}

// Error returns field, value and reason in one line.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("lb: %s = %v: %s", e.Field, e.Value, e.Reason)
}
