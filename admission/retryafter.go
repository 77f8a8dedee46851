package admission

import "time"

// MaxRetryAfter is the longest time that a refused client is told to stay away.
const MaxRetryAfter = 32 * time.Second

// retryAfter is how long refused clients should stay away. It grows while many
// are refused and shrinks when few are. It looks back over as long as it
// advises, since a change can't show any earlier.
type retryAfter struct {
	value   time.Duration // 0 means 1 s
	refused int64         // since the last change
	since   int64         // of the last change
}

// sparse counts a refusal without looking at the clock, if that may be: when many
// were refused since the last change, one in eight has to look. Not ok, and
// nothing counted, otherwise.
func (r *retryAfter) sparse() (advice time.Duration, ok bool) {
	if r.refused < 8 || r.refused%8 == 7 {
		return 0, false
	}
	r.refused++
	return r.value, true
}

// refuse counts a refusal at now and returns the advice.
func (r *retryAfter) refuse(now int64) time.Duration {
	if r.value == 0 {
		r.value, r.since = time.Second, now
	}
	r.refused++
	elapsed := time.Duration(now - r.since)
	if elapsed < r.value {
		return r.value
	}
	// The bar is three refusals a second.
	switch seconds := int64(r.value / time.Second); {
	case elapsed > 2*MaxRetryAfter:
		r.value = time.Second // all of it is long ago
	case r.refused >= 3*seconds:
		r.value = min(2*r.value, MaxRetryAfter)
	case r.refused < seconds:
		r.value = max(r.value-time.Second, time.Second)
	}
	r.refused, r.since = 0, now
	return r.value
}
