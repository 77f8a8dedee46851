package lb

import "strings"

// view is one state of the options, immutable. Requests take the newest when they
// begin.
type view struct {
	all     []*group
	hosts   map[string][]*group // nil: all for every host
	panics  bool
	onePool bool
}

// groupsFor returns a host's pools in order of preference; nil if there are none.
func (v *view) groupsFor(host string) []*group {
	if v.hosts == nil {
		return v.all
	}
	if g, ok := v.hosts[host]; ok {
		return g
	}
	for rest := host; ; {
		dot := strings.IndexByte(rest, '.')
		if dot < 0 {
			return v.hosts["*"]
		}
		// "*.example.com" is the part from the dot with a star before it; the map
		// has it without, see newView.
		rest = rest[dot:]
		if g, ok := v.hosts[rest]; ok {
			return g
		}
		rest = rest[1:]
	}
}

// linkOf returns the connections of an origin, nil if there is none.
func (v *view) linkOf(pool, key string) *link {
	for _, g := range v.all {
		if g.Name != pool {
			continue
		}
		for _, s := range g.servers {
			if s.key == key {
				return s.link
			}
		}
	}
	return nil
}

// newView arranges groups for hosts. Wildcards are stored from their dot on, so
// that looking one up needs no new string.
func newView(cfg *config, groups []*group) *view {
	v := &view{all: groups, panics: !cfg.opts.DisablePanic, onePool: cfg.opts.StayInPool}
	if cfg.hosts == nil {
		return v
	}
	v.hosts = make(map[string][]*group, len(cfg.hosts))
	for name, indices := range cfg.hosts {
		list := make([]*group, len(indices))
		for i, index := range indices {
			list[i] = groups[index]
		}
		if name != "*" {
			name = strings.TrimPrefix(name, "*")
		}
		v.hosts[name] = list
	}
	return v
}
