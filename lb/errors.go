package lb

import "fmt"

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
