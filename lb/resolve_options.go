package lb

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/weirhttp/weir/internal/field"
	"github.com/weirhttp/weir/internal/rfc9110"
)

// retryRules is Retry resolved.
type retryRules struct {
	attempts, percent, floor, bodyBytes int
	statuses                            []int
	unsent                              bool
}

// poolConfig is Pool resolved, without what changes at run time.
type poolConfig struct {
	Pool
	bound   int
	retry   retryRules
	origins []originConfig
	hosts   []string // exact names that it serves
}

// originConfig is Origin resolved.
type originConfig struct {
	Origin
	key       string // its identity across updates
	admin     State  // StateHealthy if nothing is said
	limit     int32
	transport TransportOptions // with Scheme and ServerName, without Host
	host      string           // what is sent as Host, "" for the visitor's
	target    target
}

// config is Options resolved.
type config struct {
	pools []poolConfig
	hosts map[string][]int // to indices of pools; nil: all for every host
	opts  Options
}

// resolve checks the options and fills in the defaults, or reports all problems.
func (o Options) resolve() (*config, []error) {
	var p problems
	cfg := &config{opts: o}
	if len(o.Pools) == 0 {
		p.bad("Pools", 0, "there must be one; give it a name and an origin")
	}
	if len(o.Pools) > maxPools {
		p.bad("Pools", len(o.Pools), fmt.Sprintf("must be %d at most; use several balancers", maxPools))
		return nil, p.list
	}
	byName := map[string]int{}
	for i, pool := range o.Pools {
		place := fmt.Sprintf("Pools[%d].", i)
		if _, used := byName[pool.Name]; pool.Name == "" || used {
			p.bad(place+"Name", fmt.Sprintf("%q", pool.Name), "must not be empty nor used twice; give each pool its own name")
		}
		byName[pool.Name] = i
		pc, errs := pool.resolve(place)
		cfg.pools = append(cfg.pools, pc)
		p.list = append(p.list, errs...)
	}
	cfg.resolveHosts(&p, byName)
	return cfg, p.list
}

// resolveHosts replaces names of pools by indices, and tells pools their hosts.
func (cfg *config) resolveHosts(p *problems, byName map[string]int) {
	if cfg.opts.Hosts == nil {
		return
	}
	cfg.hosts = map[string][]int{}
	for _, host := range slices.Sorted(maps.Keys(cfg.opts.Hosts)) {
		field := fmt.Sprintf("Hosts[%q]", host)
		name := strings.ToLower(strings.TrimSuffix(host, "."))
		bare := strings.TrimPrefix(name, "*.")
		if host != "*" && (bare == "" || strings.ContainsAny(bare, "*:/ ")) {
			p.bad(field, host, `write a name without port, "*.example.com" or "*"`)
		}
		if _, used := cfg.hosts[name]; used {
			p.bad(field, host, "is there twice, but for upper case and dots at the end; keep one")
		}
		names := cfg.opts.Hosts[host]
		if len(names) == 0 {
			p.bad(field, names, "names no pool; name one, or leave the host out")
		}
		cfg.hosts[name] = []int{}
		for _, n := range names {
			i, ok := byName[n]
			if !ok || slices.Contains(cfg.hosts[name], i) {
				p.bad(field, n, "must be the name of one of Pools, each once")
				continue
			}
			cfg.hosts[name] = append(cfg.hosts[name], i)
			if bare == name && name != "*" {
				cfg.pools[i].hosts = append(cfg.pools[i].hosts, name)
			}
		}
	}
}

// resolve checks one pool; place is such as "Pools[0].".
func (pool Pool) resolve(place string) (poolConfig, []error) {
	p := problems{place: place}
	setDefault(&pool.Policy, RoundRobin)
	if !pool.Policy.known() {
		p.bad("Policy", pool.Policy, `must be one that Policies returns; leave it empty for "round-robin"`)
	}
	setDefault(&pool.MinimumHealthy, DefaultMinimumHealthy)
	setDefault(&pool.MaxConnections, DefaultMaxConnections)
	pc := poolConfig{Pool: pool}
	pool.checkHash(&p, &pc)
	if pool.MinimumHealthy < 0 || pool.MinimumHealthy > max(len(pool.Origins), 1) {
		p.bad("MinimumHealthy", pool.MinimumHealthy, fmt.Sprintf("must be from 1 to the number of origins (%d); leave it 0 for 1", len(pool.Origins)))
	}
	if pool.MaxConnections > maxConnections {
		p.bad("MaxConnections", pool.MaxConnections, "must be 1048576 at most; let it be negative for any number")
	}
	pc.retry = pool.Retry.resolve(&p)
	errs := slices.Concat(pool.Health.validate(place+"Health."), pool.Ejection.validate(place+"Ejection."),
		pool.Breaker.validate(place+"Breaker."), pool.WarmUp.validate(place+"WarmUp."), validateSlowStart(pool.SlowStart, place+"SlowStart"))
	if n := len(pool.Origins); n == 0 || n > maxOrigins {
		p.bad("Origins", n, fmt.Sprintf("must be from 1 to %d", maxOrigins))
	}
	if _, err := pool.Transport.resolve(place + "Transport."); err != nil {
		errs = append(errs, err)
	} else if len(pool.Origins) <= maxOrigins {
		pc.resolveOrigins(&p)
	}
	return pc, append(p.list, errs...)
}

// checkHash checks what hash policies need.
func (pool Pool) checkHash(p *problems, pc *poolConfig) {
	named := pool.Policy == HashHeader || pool.Policy == HashCookie
	if named != (pool.HashName != "") {
		p.bad("HashName", fmt.Sprintf("%q", pool.HashName), `is for "hash-header" and "hash-cookie", which need it: the name of the field or cookie`)
	}
	if named && pool.HashName != "" && !field.IsToken(pool.HashName) {
		p.bad("HashName", fmt.Sprintf("%q", pool.HashName), "can't be the name of a field or cookie; write one without spaces, colons and the like")
	}
	if pool.Policy == HashHeader {
		pc.HashName = http.CanonicalHeaderKey(pool.HashName)
		if rfc9110.IsHopByHop(pc.HashName) || pc.HashName == "Content-Length" {
			p.bad("HashName", fmt.Sprintf("%q", pool.HashName), "isn't in the header of a request that is passed on, so origins would be chosen at random; name a field that is, or Host")
		}
	}
	switch {
	case pool.HashBound != 0 && !pool.Policy.hashes():
		p.bad("HashBound", pool.HashBound, "has no effect, since Policy is no hash; leave it 0")
	case pool.HashBound == 0 && pool.Policy.hashes() && !named:
		pc.bound = DefaultHashBound
	case pool.HashBound > 0:
		pc.bound = pool.HashBound
		p.between("HashBound", pool.HashBound, minHashBound, maxHashBound, "leave it 0 for the default, or let it be negative for none")
	}
}

// resolve checks Pool.Retry.
func (r Retry) resolve(p *problems) retryRules {
	if r.Attempts > DefaultRetryAttempts {
		p.bad("Retry.Attempts", r.Attempts, "must be 3 at most; leave it 0 for 3, or 1 for no repetition")
	}
	if r.Percent > 100 {
		p.bad("Retry.Percent", r.Percent, "must be 100 at most; leave it 0 for 20")
	}
	if r.Floor > 1000 {
		p.bad("Retry.Floor", r.Floor, "must be 1000 at most; leave it 0 for 3")
	}
	if r.BodyBytes > maxRetryBody {
		p.bad("Retry.BodyBytes", r.BodyBytes, "must be 16777216 at most; leave it 0 for 65536")
	}
	for i, s := range r.Statuses {
		if s < 500 || s > 599 {
			p.bad(fmt.Sprintf("Retry.Statuses[%d]", i), s, "must be from 500 to 599, since other answers are the origin's considered ones; leave Statuses nil for 502, 503 and 504")
		}
	}
	setDefault(&r.Attempts, DefaultRetryAttempts)
	setDefault(&r.Percent, DefaultRetryPercent)
	setDefault(&r.Floor, DefaultRetryFloor)
	setDefault(&r.BodyBytes, DefaultRetryBody)
	if r.Statuses == nil {
		r.Statuses = defaultStatuses
	}
	return retryRules{
		attempts: max(r.Attempts, 1), percent: max(r.Percent, 0), floor: max(r.Floor, 0), bodyBytes: max(r.BodyBytes, 0),
		statuses: slices.Clone(r.Statuses), unsent: r.Unsent,
	}
}

// resolveOrigins checks the origins.
func (pc *poolConfig) resolveOrigins(p *problems) {
	ids, servers := map[string]bool{}, map[string]bool{} // servers: whether the ID is their own
	for i, o := range pc.Pool.Origins {
		at := fmt.Sprintf("Origins[%d].", i)
		ownID := o.ID != ""
		setDefault(&o.ID, o.Address)
		again := ids[o.ID]
		if again {
			p.bad(at+"ID", fmt.Sprintf("%q", o.ID), "is used twice in the pool; give each origin its own, or leave it empty and the addresses different")
		}
		ids[o.ID] = true
		p.between(at+"Weight", o.Weight, 0, MaxWeight, "leave it 0 for 1, or set Drained for an origin that should get nothing")
		if o.Weight > 1 && (pc.Policy == RoundRobin || pc.Policy == Failover) {
			p.bad(at+"Weight", o.Weight, fmt.Sprintf("has no effect, since %q treats all alike; leave it 0, or use another Policy, such as %q", pc.Policy, WeightedRoundRobin))
		}
		if o.MaxConnections > maxConnections {
			p.bad(at+"MaxConnections", o.MaxConnections, "must be 1048576 at most; let it be negative for any number")
		}
		oc := pc.resolveOrigin(p, at, o)
		pc.origins = append(pc.origins, oc)
		if oc.key == "" {
			continue // its address is wrong
		}
		server := oc.Scheme + "://" + oc.target.authority()
		own, twice := servers[server]
		if twice && !again && !(own && ownID) {
			p.bad(at+"Address", fmt.Sprintf("%q", o.Address), "is the same server as another origin of the pool, in another spelling; keep one, or give each an ID if that is meant")
		}
		servers[server] = ownID && (own || !twice)
	}
}

func (pc *poolConfig) resolveOrigin(p *problems, at string, o Origin) originConfig {
	setDefault(&o.Weight, 1)
	setDefault(&o.MaxConnections, pc.MaxConnections)
	oc := originConfig{Origin: o, transport: pc.Transport, host: pc.Transport.Host, limit: int32(min(o.MaxConnections, maxConnections))}
	if o.MaxConnections < 0 {
		oc.limit = 1<<31 - 1
	}
	switch {
	case o.Disabled:
		oc.admin = StateDisabled
	case o.Maintenance:
		oc.admin = StateMaintenance
	case o.Drained:
		oc.admin = StateDrained
	}
	if o.HostHeader != "" {
		oc.host = o.HostHeader
		if !validHost(o.HostHeader) {
			p.bad(at+"HostHeader", o.HostHeader, "write a host name, with a port if need be")
		}
	}
	oc.transport.Host = "" // the balancer sends it
	if o.Scheme != "" {
		oc.transport.Scheme = o.Scheme
	}
	if o.ServerName != "" {
		oc.transport.ServerName = o.ServerName
	}
	resolved, err := oc.transport.resolve(p.place + at)
	if err != nil {
		p.list = append(p.list, err)
		return oc
	}
	if oc.target, err = parseTarget(o.Address, resolved.Scheme); err != nil {
		p.bad(at+"Address", fmt.Sprintf("%q", o.Address), err.Error())
		return oc
	}
	oc.Scheme = resolved.Scheme
	oc.key = o.ID
	if o.ID != o.Address {
		oc.key += " at " + o.Address
	}
	if oc.Scheme != "https" {
		oc.key += " by " + oc.Scheme
	}
	return oc
}

// healthConfig is what the pool's health wants to know.
func (pc *poolConfig) healthConfig(o Options) healthConfig {
	return healthConfig{
		check: pc.Health, ejection: pc.Ejection, breaker: pc.Breaker, warmUp: pc.WarmUp, slowStart: pc.SlowStart,
		pool: pc.Name, hosts: pc.hosts, log: o.Log,
	}
}
