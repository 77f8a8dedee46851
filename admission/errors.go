package admission

import (
	"errors"
	"fmt"
	"time"
)

// ConfigError is one setting that a constructor refuses.
type ConfigError struct {
	Field  string // such as "Routes[2].Limit"
	Value  any
	Reason string // what is wrong and what to write instead
}

// Error returns field, value and reason in one line.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("admission: %s = %v: %s", e.Field, e.Value, e.Reason)
}

// ErrShed is what every [ShedError] matches with errors.Is.
var ErrShed = errors.New("admission: refused")

// ShedError is a refusal as an error, for callers that hand errors on; see
// [Decision.Err].
type ShedError struct {
	Reason     Reason
	RetryAfter time.Duration // see [Decision]
}

// Error names the reason.
func (e *ShedError) Error() string { return "admission: refused: " + e.Reason.String() }

// Is reports whether target is [ErrShed].
func (e *ShedError) Is(target error) bool { return target == ErrShed }
