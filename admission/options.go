package admission

import (
	"errors"
	"fmt"
	"time"
)

// The defaults of [Options].
const (
	DefaultLimit        = 1024
	DefaultQueueTimeout = time.Second
)

const (
	maxLimit        = 1 << 20
	maxRoutes       = 1024
	maxQueueTimeout = time.Hour
)

// Options configures a [Limiter]. The zero value admits 1,024 requests at once
// and queues 512 of each class for up to a second.
type Options struct {
	// Limit is the ceiling of all that is admitted at once, in units of cost, up
	// to 1,048,576. 0 means [DefaultLimit].
	Limit int
	// ReserveCritical is the part of Limit that only critical requests can take,
	// ReserveNormal the part that background requests can't. What is reserved and
	// not in use stands idle. 0 means none. Their sum must be below Limit.
	ReserveCritical, ReserveNormal int

	// Queue is how many requests of each class may wait, those of all routes
	// together. 0 means half of Limit, at least 1; negative means none.
	Queue int
	// TenantQueue is how many requests of one tenant and class may wait, however
	// much of the queue is free; those without a tenant are bounded by Queue only.
	// 0 means no such bound: a tenant, and those without one together, may use what
	// nobody else does. Either way, when the queue is full, or that of a route, a
	// request takes the place of the newest one of the tenant that has most of it, at
	// least two more than its own, which is refused with [TenantQueueFull].
	TenantQueue int
	// QueueTimeout is how long a request waits at most; up to an hour. If its
	// context has a deadline, it waits no longer than a quarter of the time left,
	// so that the rest is there for the work. 0 means [DefaultQueueTimeout].
	QueueTimeout time.Duration
	// StandingAfter is how long a queue may go without being empty before it
	// counts as standing. A standing queue isn't a burst but overload: of each
	// tenant's requests the newest is served first, since the clients of the old
	// ones are the likeliest to have given up. 0 means a quarter of QueueTimeout;
	// negative means never, so it stays first come, first served.
	StandingAfter time.Duration
	// StandingTimeout is how old a request in a standing queue may be when a
	// newer one of its tenant is served; older ones are refused then. 0 means a
	// tenth of QueueTimeout.
	StandingTimeout time.Duration

	// Adaptive lets the ceiling follow what the origin can take, below Limit. Nil
	// means that it is always Limit.
	Adaptive *Adaptive

	// Routes have ceilings of their own, below the global one; up to 1,024.
	Routes []Route
}

// Route is a part of the traffic with a ceiling of its own.
type Route struct {
	// Name is for messages and [Stats]; not empty and not used twice.
	Name string
	// Limit is the ceiling of the route, in units of cost. 0 means none besides
	// the global one.
	Limit int
	// Cost is what a request costs that doesn't say so itself. 0 means 1.
	Cost int
	// Queue is how many of the route's requests of each class may wait; they also
	// count against Options.Queue. 0 means Options.Queue; negative means none.
	Queue int
	// QueueTimeout, StandingAfter and StandingTimeout are as in [Options]. If
	// QueueTimeout is set, zeros of the others refer to it; 0 takes all three from
	// Options where they aren't set here.
	QueueTimeout, StandingAfter, StandingTimeout time.Duration
}

// waiting is how a route's requests may wait, resolved.
type waiting struct {
	queue             int // 0: not at all
	timeout           time.Duration
	standingAfter     time.Duration // negative: never
	standingTimeout   time.Duration
	limit, defaultFee int64
}

// resolved is Options with its defaults filled in and checked.
type resolved struct {
	limit       int64
	reserve     [classes]int64 // by rank
	queue       int
	tenantQueue int       // 0: shared
	adaptive    *adapting // nil: fixed
	names       []string
	routes      []waiting // by RouteID
}

// checker collects what is wrong with some options.
type checker []error

func (c *checker) bad(field string, value any, reason string) {
	*c = append(*c, &ConfigError{field, value, reason})
}

// between checks that v is in a range, and reports whether it is.
func (c *checker) between(field string, v, low, high int, cure string) bool {
	if v < low || v > high {
		c.bad(field, v, fmt.Sprintf("must be between %d and %d; %s", low, high, cure))
		return false
	}
	return true
}

// resolve fills in the defaults, or reports all problems at once.
func (o Options) resolve() (resolved, error) {
	var c checker
	if o.Limit == 0 {
		o.Limit = DefaultLimit
	}
	fine := c.between("Limit", o.Limit, 1, maxLimit, "leave it 0 for 1024")
	fine = c.between("ReserveCritical", o.ReserveCritical, 0, maxLimit, "leave it 0 for no reserve") && fine
	fine = c.between("ReserveNormal", o.ReserveNormal, 0, maxLimit, "leave it 0 for no reserve") && fine
	if sum := o.ReserveCritical + o.ReserveNormal; fine && sum >= o.Limit {
		c.bad("ReserveCritical + ReserveNormal", sum, fmt.Sprintf("must be below Limit (%d), or background requests could never run; raise Limit or lower a reserve", o.Limit))
	}
	global := o.global(&c)
	if o.TenantQueue == 0 {
		// Tenants share the queue.
	} else if global.queue == 0 {
		c.bad("TenantQueue", o.TenantQueue, "has no effect, since Queue is off; leave it 0, or let Queue be 0 or more")
	} else {
		c.between("TenantQueue", o.TenantQueue, 1, global.queue, "leave it 0 to let a tenant use what others don't")
	}
	if len(o.Routes) > maxRoutes {
		c.bad("Routes", len(o.Routes), "must be 1024 at most; put routes with the same limits into one")
	}
	r := resolved{
		limit:       int64(o.Limit),
		reserve:     [classes]int64{int64(o.ReserveCritical), int64(o.ReserveNormal)},
		queue:       global.queue,
		tenantQueue: o.TenantQueue,
		names:       []string{""},
		routes:      []waiting{global},
	}
	if o.Adaptive != nil && fine {
		r.adaptive = o.Adaptive.resolve(&c, o)
	}
	seen := map[string]bool{}
	for i, route := range o.Routes {
		at := fmt.Sprintf("Routes[%d].", i)
		if route.Name == "" {
			c.bad(at+"Name", route.Name, "must not be empty; give each route a name")
		} else if seen[route.Name] {
			c.bad(at+"Name", route.Name, "is used twice; give each route its own name")
		}
		seen[route.Name] = true
		r.names = append(r.names, route.Name)
		r.routes = append(r.routes, route.resolve(&c, at, o, global))
	}
	return r, errors.Join(c...)
}

// global resolves how requests of no route wait.
func (o Options) global(c *checker) waiting {
	w := waiting{queue: o.Queue, limit: int64(o.Limit), defaultFee: 1}
	switch {
	case o.Queue == 0:
		w.queue = max(o.Limit/2, 1)
	case o.Queue < 0:
		w.queue = 0
		if o.QueueTimeout > 0 {
			c.bad("QueueTimeout", o.QueueTimeout, "has no effect, since Queue is off; leave it 0, or let Queue be 0 or more")
		}
		c.pointless("", "Queue", o.StandingAfter, o.StandingTimeout)
	case o.Queue > maxLimit:
		c.bad("Queue", o.Queue, "must be 1048576 at most; leave it 0 for half of Limit")
	}
	w.times(c, "", o.QueueTimeout, o.StandingAfter, o.StandingTimeout)
	return w
}

// pointless reports what is said about a standing queue where there is none.
func (c *checker) pointless(at, queue string, after, timeout time.Duration) {
	if after > 0 {
		c.bad(at+"StandingAfter", after, "has no effect, since "+queue+" is off; leave it 0, or let Queue be 0 or more")
	}
	if timeout > 0 {
		c.bad(at+"StandingTimeout", timeout, "has no effect, since "+queue+" is off; leave it 0, or let Queue be 0 or more")
	}
}

// resolve fills in what the route doesn't say from the global settings.
func (r Route) resolve(c *checker, at string, o Options, global waiting) waiting {
	w := global
	if r.Limit < 0 {
		c.bad(at+"Limit", r.Limit, "must not be negative; leave it 0 for the global one")
	} else if r.Limit > o.Limit {
		c.bad(at+"Limit", r.Limit, fmt.Sprintf("is above the global Limit (%d) and could never be reached; lower it, or raise Options.Limit", o.Limit))
	} else if r.Limit > 0 {
		w.limit = int64(r.Limit)
	}
	if r.Cost < 0 {
		c.bad(at+"Cost", r.Cost, "must not be negative; leave it 0 for 1")
	} else if int64(r.Cost) > w.limit {
		c.bad(at+"Cost", r.Cost, fmt.Sprintf("is above the route's ceiling (%d); lower it, or raise the ceiling", w.limit))
	} else {
		w.defaultFee = int64(max(r.Cost, 1))
	}
	switch {
	case r.Queue < 0:
		w.queue = 0
		if r.QueueTimeout > 0 {
			c.bad(at+"QueueTimeout", r.QueueTimeout, "has no effect, since the route's Queue is off; leave it 0, or let Queue be 0 or more")
		}
		c.pointless(at, "the route's Queue", r.StandingAfter, r.StandingTimeout)
	case r.Queue > global.queue:
		c.bad(at+"Queue", r.Queue, fmt.Sprintf("is above what Options.Queue lets wait in all (%d); lower it, or raise Options.Queue", global.queue))
	case r.Queue > 0:
		w.queue = r.Queue
	}
	after, timeout := r.StandingAfter, r.StandingTimeout
	if r.QueueTimeout == 0 {
		if after == 0 {
			after = o.StandingAfter
		}
		if timeout == 0 {
			timeout = o.StandingTimeout
		}
		r.QueueTimeout = o.QueueTimeout
		if r.QueueTimeout < 0 {
			return w // told once, for Options
		}
	}
	w.times(c, at, r.QueueTimeout, after, timeout)
	return w
}

// times checks and sets how long a request may wait.
func (w *waiting) times(c *checker, at string, timeout, after, standing time.Duration) {
	if timeout == 0 {
		timeout = DefaultQueueTimeout
	}
	if timeout < 0 || timeout > maxQueueTimeout {
		c.bad(at+"QueueTimeout", timeout, "a queue needs a deadline, up to an hour; leave it 0 for 1s, or make Queue negative to have none")
	}
	if after == 0 {
		after = timeout / 4
	}
	if standing == 0 {
		standing = timeout / 10
	}
	if standing < 0 || standing > timeout && timeout > 0 {
		c.bad(at+"StandingTimeout", standing, fmt.Sprintf("must be between 0 and QueueTimeout (%v); leave it 0 for a tenth of that", timeout))
	}
	w.timeout, w.standingAfter, w.standingTimeout = timeout, after, standing
}
