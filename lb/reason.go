package lb

// Reason says why an origin was used, skipped or left alone.
type Reason uint8

// The reasons.
const (
	// NotReached: eligible, but an origin before it in the order sufficed, or no
	// further attempt was allowed.
	NotReached Reason = iota
	Used
	Disabled
	InMaintenance
	Drained
	Unhealthy
	Ejected
	CircuitOpen
	WarmingUp
	AtCapacity
	PoolPassedOver // its pool has too few eligible origins, and another one served
	Replaced       // taken out of the configuration just now
)

var reasonNames = [...]string{
	NotReached:     "not reached",
	Used:           "used",
	Disabled:       "disabled",
	InMaintenance:  "in maintenance",
	Drained:        "drained (zero weight)",
	Unhealthy:      "unhealthy",
	Ejected:        "ejected",
	CircuitOpen:    "circuit open",
	WarmingUp:      "warming up",
	AtCapacity:     "at capacity",
	PoolPassedOver: "pool passed over",
	Replaced:       "replaced",
}

// String returns the reason as logs and pages show it.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "unknown"
}
