package trace

import "strconv"

// The names of the response header fields that weir sends, in canonical form.
const (
	// HeaderCacheStatus is the standard field of RFC 9211.
	HeaderCacheStatus = "Cache-Status"
	// DefaultStatusHeader holds the [Status] and nothing else, unless
	// configured to another name.
	DefaultStatusHeader = "Weir-Cache-Status"

	// The following are sent only when debugging is on for the request.

	// HeaderCacheKey holds the explained text of the cache key.
	HeaderCacheKey = "Weir-Cache-Key"
	// HeaderCacheKeyHash holds the short form of the key's hash.
	HeaderCacheKeyHash = "Weir-Cache-Key-Hash"
	// HeaderCacheReason holds one sentence that explains the status.
	HeaderCacheReason = "Weir-Cache-Reason"
	// HeaderCacheRoute holds the name of the matching route.
	HeaderCacheRoute = "Weir-Cache-Route"
	// HeaderCacheOrigin holds the origins skipped and asked
	// ([Origin.AppendTrail]).
	HeaderCacheOrigin = "Weir-Cache-Origin"
)

// MaxHeaderValue is the largest number of bytes that [HeaderValue] returns and
// that a string in [AppendCacheStatus] takes up before quoting. Proxies in
// front of weir refuse responses whose heads exceed a few KiB.
const MaxHeaderValue = 2048

const (
	upperHex = "0123456789ABCDEF"
	ellipsis = "..."
)

// HeaderValue returns s as a safe header field value. Bytes outside printable
// ASCII (so CR, LF, NUL and every other control byte, and each byte of a
// non-ASCII character) become %XX; leading and trailing spaces, which HTTP
// would strip, become %20. A longer result than [MaxHeaderValue] is cut and
// ends in "...". The result is for reading, not for decoding: a percent sign
// in s stays as it is. A value that is safe already is returned unchanged,
// without allocating.
func HeaderValue(s string) string {
	if isSafe(s) {
		return s
	}
	return string(appendSafe(make([]byte, 0, min(len(s)+16, MaxHeaderValue)), s, false))
}

// isSafe reports whether appendSafe would change nothing.
func isSafe(s string) bool {
	if len(s) > MaxHeaderValue {
		return false
	}
	if s != "" && (s[0] == ' ' || s[len(s)-1] == ' ') {
		return false
	}
	for i := range len(s) {
		if !isPrintable(s[i]) {
			return false
		}
	}
	return true
}

// appendSafe appends s as HeaderValue describes it. With quoted, it appends the
// inside of a quoted string instead: quotes and backslashes are escaped, and
// spaces at the ends need no care.
func appendSafe(dst []byte, s string, quoted bool) []byte {
	start := len(dst)
	cut := -1 // where dst ends if the rest doesn't fit
	for i := range len(s) {
		c := s[i]
		escape := quoted && (c == '"' || c == '\\')
		raw := isPrintable(c) && (quoted || c != ' ' || i > 0 && i < len(s)-1)
		n := 1
		if escape {
			n = 2
		} else if !raw {
			n = 3
		}
		used := len(dst) - start + n
		if used > MaxHeaderValue-len(ellipsis) && cut < 0 {
			cut = len(dst)
		}
		if used > MaxHeaderValue {
			return append(dst[:cut], ellipsis...)
		}
		switch {
		case escape:
			dst = append(dst, '\\', c)
		case raw:
			dst = append(dst, c)
		default:
			dst = append(dst, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return dst
}

// isPrintable reports whether c is printable ASCII, the space included.
func isPrintable(c byte) bool {
	return c >= 0x20 && c < 0x7f
}

// AppendTrail appends what happened at the origins, for people to read, as in
//
//	pool=shop policy=round-robin skipped="a: in maintenance" tried="b: 502" tried="c: 200" chosen=c
//
// and panic=yes if no origin was eligible.
//
// Parts that are empty are left out. The result may hold text from errors:
// pass it through [HeaderValue] before sending it.
func (o *Origin) AppendTrail(dst []byte) []byte {
	start := len(dst)
	part := func(name, value string) {
		if value == "" {
			return
		}
		if len(dst) > start {
			dst = append(dst, ' ')
		}
		dst = append(append(append(dst, name...), '='), value...)
	}
	part("pool", o.Pool)
	part("policy", o.Policy)
	for i := range o.Skipped {
		part("skipped", quoteTrail(o.Skipped[i].Name, o.Skipped[i].Reason))
	}
	for i := range o.Attempts {
		a := &o.Attempts[i]
		result := a.Err
		if a.Status != 0 {
			result = strconv.Itoa(a.Status)
			if a.Err != "" {
				result += " " + a.Err
			}
		}
		part("tried", quoteTrail(a.Origin, result))
	}
	part("chosen", o.Chosen)
	if o.Panic {
		part("panic", "yes")
	}
	return dst
}

func quoteTrail(name, what string) string {
	return strconv.QuoteToASCII(name + ": " + what)
}
