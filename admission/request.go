package admission

// Class is how important a request is. It must come from code that the operator
// trusts, never from a header, a cookie or a user agent as such: a client would
// otherwise choose its own.
type Class uint8

// The classes. A request waits for those of more important classes, and can't
// take what is reserved for them.
const (
	Normal     Class = iota // most requests
	Critical                // such as a checkout: goes first
	Background              // such as a refresh of what is stale: goes last
)

// String returns the class in lower case.
func (c Class) String() string {
	switch c {
	case Normal:
		return "normal"
	case Critical:
		return "critical"
	case Background:
		return "background"
	}
	return "unknown"
}

// Outranks reports whether c is more important than d.
func (c Class) Outranks(d Class) bool { return c.rank() < d.rank() }

const classes = 3

// rank orders the classes, 0 being the most important. Classes that don't exist
// are like Background: a mistake gains nothing.
func (c Class) rank() int {
	switch c {
	case Critical:
		return 0
	case Normal:
		return 1
	}
	return 2
}

// RouteID is a route of [Options]: i+1 stands for Routes[i]. 0, and any that
// doesn't exist, is no route: only the global ceiling counts.
type RouteID int

// MaxWeight is the highest weight of a tenant.
const MaxWeight = 1000

// Request says what wants to be admitted. The zero value is a normal request of
// no route and no tenant that costs 1.
type Request struct {
	Route RouteID
	Class Class
	// Tenant is who shares fairly with others: while requests wait, each tenant
	// is given permits in proportion to its weight, however many requests it has
	// queued. Requests without a tenant count as one tenant together. It is
	// looked at only when a request queues.
	Tenant string
	// Weight is the tenant's, from 1 to [MaxWeight] and cut to that. 0 means 1.
	Weight int
	// Cost is how much of the ceilings the request takes. 0, or less, means the
	// route's Cost. It is cut to what the class can get of the route when
	// nothing else runs, so a request that costs too much runs alone instead of
	// never: see [Permit.Cost].
	Cost int
}
