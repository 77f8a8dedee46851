package lb

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// retryAfter is how long an origin asks to be left alone (RFC 9110 §10.2.3); 0 if
// it doesn't say, or nonsense. No more than an hour.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseUint(value, 10, 32)
		if err != nil || seconds > 3600 {
			return time.Hour
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), time.Hour)
}
