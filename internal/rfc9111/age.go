package rfc9111

import (
	"net/http"
	"strings"
	"time"

	"github.com/weirhttp/weir/internal/field"
)

// initialAge computes corrected_initial_age (RFC 9111 §4.2.3): the age of a
// response at receivedAt. Fractions of the delay are kept. The apparent age
// counts in whole seconds, because Date does.
func initialAge(h http.Header, requestedAt, receivedAt time.Time) time.Duration {
	apparent := time.Duration(0)
	if earliest, _, ok := dates(h, receivedAt); ok {
		apparent = receivedAt.Sub(earliest).Truncate(time.Second)
	}
	delay := max(0, receivedAt.Sub(requestedAt))
	return min(max(0, apparent, ageValue(h["Age"])+delay), farFuture)
}

// ageValue reads the Age field (§5.1): of several values the first counts, and
// what isn't a number of seconds is ignored. Parameters, which Age doesn't have,
// don't make it disappear.
func ageValue(lines []string) time.Duration {
	if len(lines) == 0 {
		return 0
	}
	first, _, _ := strings.Cut(lines[0], ",")
	first, _ = field.CutParameters(first)
	v, _ := field.Seconds(field.TrimOWS(first))
	return v
}

// dates returns the earliest and the latest Date of a response, which differ
// only if there are several, when the cautious choice depends on the use. It
// reports false if there is none that can be read.
func dates(h http.Header, now time.Time) (earliest, latest time.Time, ok bool) {
	for _, line := range h["Date"] {
		t, valid := field.ParseDate(line, now)
		if !valid {
			continue
		}
		if !ok || t.Before(earliest) {
			earliest = t
		}
		if !ok || t.After(latest) {
			latest = t
		}
		ok = true
	}
	return earliest, latest, ok
}
