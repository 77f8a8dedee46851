package admission

// ceilings counts what is admitted. It is plain arithmetic under the limiter's
// lock, so all ceilings are checked against the same instant, and a request
// takes its share of each or of none.
type ceilings struct {
	hard    int64 // never exceeded
	limit   int64 // not above hard; may change
	used    int64
	aside   int64          // the part of used that counts against hard only
	reserve [classes]int64 // by rank
	classes [classes]int64 // in use, by rank
	routes  []routeCount   // by RouteID; the first is for requests of no route
}

type routeCount struct {
	limit, used int64
	fee         int64 // of a request that doesn't say what it costs
}

// withheld is what a rank has to leave to more important ones: what is reserved
// for them and not in use.
func (c *ceilings) withheld(rank int) int64 {
	var n int64
	for j := range rank {
		n += max(0, c.reserve[j]-c.classes[j])
	}
	return n
}

func (c *ceilings) fitsAll(rank int, cost int64) bool {
	need := c.used + cost + c.withheld(rank)
	return need <= c.hard && (need-c.aside <= c.limit || c.excepted(rank, cost))
}

// excepted is about a ceiling that came down: what no longer fits it runs alone,
// and reserves hold although those who were admitted before may have to end first.
func (c *ceilings) excepted(rank int, cost int64) bool {
	return c.used == c.aside || c.classes[rank]+cost <= c.reserve[rank]
}

func (c *ceilings) fitsRoute(route int, cost int64) bool {
	r := &c.routes[route]
	return r.used+cost <= r.limit
}

// most is the highest cost that can ever fit.
func (c *ceilings) most(rank, route int) int64 {
	n := c.hard
	for j := range rank {
		n -= c.reserve[j]
	}
	return min(n, c.routes[route].limit)
}

// add takes cost from, or with a negative cost gives it back to, all ceilings.
func (c *ceilings) add(rank, route int, cost int64) {
	c.used += cost
	c.classes[rank] += cost
	c.routes[route].used += cost
}
