package lb

import (
	"fmt"
	"time"
)

// fullShare is the share of an origin that isn't in slow start. Shares are in
// sixteenths.
const fullShare = 16

const maxSlowStart = time.Hour

// slowShare is the share of an origin whose slow start began at from and takes
// length: it grows evenly from 1 to fullShare. A length of 0 is no slow start.
func slowShare(from, length, now time.Duration) int {
	passed := now - from
	switch {
	case length <= 0 || passed >= length:
		return fullShare
	case passed <= 0:
		return 1
	}
	return 1 + int((fullShare-1)*passed/length)
}

// validateSlowStart checks Pool.SlowStart.
func validateSlowStart(d time.Duration, field string) []error {
	if d < 0 || d > maxSlowStart {
		return []error{&ConfigError{field, d, fmt.Sprintf("must be between 0 and %v; leave it 0 for no slow start", maxSlowStart)}}
	}
	return nil
}
