package trace

// Status is the headline of a record: who produced the response, and why.
type Status uint8

// The statuses. The package documentation tells them apart.
const (
	// Undecided is the zero value: the request ended before the cache came to
	// a decision, for example because its client left.
	Undecided Status = iota
	// Hit: a stored, fresh response (RFC 9111 §4.2).
	Hit
	// Miss: from the origin, because nothing usable was stored.
	Miss
	// Expired: from the origin, which replaced a stored, stale response.
	Expired
	// Revalidated: a stored response that the origin confirmed (RFC 9111 §4.3).
	Revalidated
	// Stale: a stored, stale response that may be used as it is
	// (RFC 5861 §3, or a request's max-stale).
	Stale
	// StaleError: a stored, stale response in place of an error: the origin
	// failed, or admission refused (RFC 5861 §4).
	StaleError
	// Collapsed: the response to a request of another client that was already
	// under way (RFC 9111 §4).
	Collapsed
	// Bypass: from the origin, because the configuration or the request kept
	// the cache out of it.
	Bypass
	// Dynamic: from the origin, whose response forbids reuse.
	Dynamic
	// Shed: refused by admission, with nothing stored to fall back on.
	Shed

	statusCount
)

var statusNames = [statusCount]string{
	Undecided:   "UNDECIDED",
	Hit:         "HIT",
	Miss:        "MISS",
	Expired:     "EXPIRED",
	Revalidated: "REVALIDATED",
	Stale:       "STALE",
	StaleError:  "STALE-ERROR",
	Collapsed:   "COLLAPSED",
	Bypass:      "BYPASS",
	Dynamic:     "DYNAMIC",
	Shed:        "SHED",
}

// String returns the status as it is sent and logged, such as "STALE-ERROR".
// It never allocates.
func (s Status) String() string {
	if s < statusCount {
		return statusNames[s]
	}
	return "INVALID"
}

// ServedFromCache reports whether the response cost the origin no work for
// this client: true for Hit, Stale, StaleError and Collapsed. It is false for
// Revalidated, where the origin was asked.
func (s Status) ServedFromCache() bool {
	switch s {
	case Hit, Stale, StaleError, Collapsed:
		return true
	}
	return false
}

// Outcome says how the exchange with the client ended.
type Outcome uint8

const (
	// Complete is the zero value: the whole response was handed to the server
	// for sending.
	Complete Outcome = iota
	// ClientGone: the client left before the response was complete. That is
	// no fault of the origin.
	ClientGone
	// Aborted: weir cut the connection in mid-response, because the origin
	// broke off or what was stored turned out corrupt; a short body must not
	// look whole.
	Aborted

	outcomeCount
)

var outcomeNames = [outcomeCount]string{
	Complete:   "complete",
	ClientGone: "client gone",
	Aborted:    "aborted",
}

// String returns the outcome in words. It never allocates.
func (o Outcome) String() string {
	if o < outcomeCount {
		return outcomeNames[o]
	}
	return "invalid"
}
