package lb

type (
	HealthCheck struct{}
	Ejection    struct{}
	Breaker     struct{}
	WarmUp      struct{}
	SlowStart   struct{}
)

const fullShare = 16

type State uint8
