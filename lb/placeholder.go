package lb

type (
	HealthCheck struct{}
	Ejection    struct{}
	Breaker     struct{}
	WarmUp      struct{}
	SlowStart   struct{}
)
