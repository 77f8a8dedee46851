package lb

// State is how an origin stands: whether it may be given requests, and if not,
// the first of the reasons that keep it out.
type State uint8

// The states, in the order in which they are looked for: of an origin that is in
// maintenance and unhealthy, the former is told.
const (
	StateHealthy     State = iota // it may be given requests
	StateDisabled                 // out as if it weren't configured
	StateMaintenance              // out for a while
	StateDrained                  // no new requests
	StateUnhealthy                // active health checks fail
	StateEjected                  // visitors' requests failed more than those of other origins
	StateCircuitOpen              // visitors' requests failed; its circuit breaker lets none through now
	StateWarmingUp                // it is well, but its warm-up isn't done
	StateAtCapacity               // it has as many requests in flight as it may
	lastState
)

var stateNames = [lastState]string{
	"healthy", "disabled", "in maintenance", "drained (zero weight)", "unhealthy",
	"ejected", "circuit open", "warming up", "at capacity",
}

// String returns the state as logs and pages show it.
func (s State) String() string {
	if s >= lastState {
		return "unknown"
	}
	return stateNames[s]
}
