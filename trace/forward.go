package trace

// Forward says why a request went to the origin: the fwd parameter of
// RFC 9211 §2.2. When several apply, the most specific one is right.
type Forward uint8

const (
	// ForwardNone is the zero value: the request didn't go forward.
	ForwardNone Forward = iota
	// ForwardBypass: the cache was configured to keep out of this request.
	ForwardBypass
	// ForwardMethod: the request's method requires it.
	ForwardMethod
	// ForwardURIMiss: nothing is stored for the URI.
	ForwardURIMiss
	// ForwardVaryMiss: responses are stored for the URI, but none whose
	// selecting header fields match.
	ForwardVaryMiss
	// ForwardMiss: nothing usable is stored; which of the two reasons above
	// applies isn't known.
	ForwardMiss
	// ForwardRequest: a usable response is stored, but the request doesn't
	// accept it (its Cache-Control, for example).
	ForwardRequest
	// ForwardStale: the stored response is stale.
	ForwardStale
	// ForwardPartial: the stored response doesn't hold all of the requested
	// ranges.
	ForwardPartial

	forwardCount
)

var forwardNames = [forwardCount]string{
	ForwardNone:     "none",
	ForwardBypass:   "bypass",
	ForwardMethod:   "method",
	ForwardURIMiss:  "uri-miss",
	ForwardVaryMiss: "vary-miss",
	ForwardMiss:     "miss",
	ForwardRequest:  "request",
	ForwardStale:    "stale",
	ForwardPartial:  "partial",
}

// String returns the reason's token in RFC 9211, such as "uri-miss", and
// "none" for ForwardNone, which has no token there. It never allocates.
func (f Forward) String() string {
	if f < forwardCount {
		return forwardNames[f]
	}
	return "invalid"
}
