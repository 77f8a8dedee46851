package lb

import (
	"context"
	"fmt"
	"slices"
)

// update is one replacement of the options. It needs Balancer.mu.
type update struct {
	b     *Balancer
	pools map[string]*shared // afterwards
	made  []*link            // by this update
}

// groups makes the new state without changing the old one.
func (u *update) groups(cfg *config) ([]*group, error) {
	u.pools = map[string]*shared{}
	groups := make([]*group, len(cfg.pools))
	for i := range cfg.pools {
		pc := &cfg.pools[i]
		s := u.b.pools[pc.Name]
		if s == nil {
			s = newShared(u.b.clock)
		}
		u.pools[pc.Name] = s
		g := &group{poolConfig: pc, shared: s}
		for j := range pc.origins {
			server, err := u.server(g, j)
			if err != nil {
				return nil, fmt.Errorf("lb: pool %q, origin %q: %w", pc.Name, pc.origins[j].ID, err)
			}
			g.servers = append(g.servers, server)
		}
		groups[i] = g
	}
	return groups, nil
}

func (u *update) server(g *group, index int) (*server, error) {
	oc := &g.origins[index]
	s := &server{id: oc.ID, key: oc.key, admin: oc.admin, limit: oc.limit, host: oc.host}
	ld := u.b.loads[place{g.Name, oc.key}]
	if ld == nil {
		ld = &load{}
	}
	s.entry = entry{load: ld, seed: digestString(oc.ID), index: uint16(index), weight: uint8(oc.Weight), share: fullShare}
	if s.link = g.shared.links[oc.key]; s.link == nil || !s.link.fits(oc, g.Health.Port) {
		var err error
		if s.link, err = newLink(oc, g.Health.Port); err != nil {
			return nil, err
		}
		u.made = append(u.made, s.link)
	}
	return s, nil
}

// undo releases what was made in vain.
func (u *update) undo() {
	for _, l := range u.made {
		l.close()
	}
}

// apply lets the new state take effect, and then ends what is no longer part of
// it.
func (u *update) apply(cfg *config, groups []*group) {
	keep := map[*link]bool{}
	var old []*link
	for _, s := range u.b.pools {
		for _, l := range s.links {
			old = append(old, l)
		}
	}
	for _, g := range groups {
		u.adopt(cfg, g, keep)
	}
	u.keepLoads(groups)
	u.b.view.Store(newView(cfg, groups))
	for name, s := range u.b.pools {
		if u.pools[name] == nil {
			u.b.ending.Go(func() { s.health.close(context.Background()) })
		}
	}
	for _, l := range old {
		if !keep[l] {
			l.close()
		}
	}
	u.b.pools = u.pools
}

// adopt tells the pool's health of its members, and notes what outlives the
// options.
func (u *update) adopt(cfg *config, g *group, keep map[*link]bool) {
	members := make([]member, len(g.servers))
	links := map[string]*link{}
	for i, s := range g.servers {
		members[i] = s.member()
		links[s.key] = s.link
		keep[s.link] = true
	}
	for i, c := range g.shared.health.update(g.healthConfig(cfg.opts), members) {
		g.servers[i].cond = c
	}
	g.shared.links = links
}

// keepLoads notes the origins' loads. An origin that is taken out and put back must
// not have room for more than its limit meanwhile.
func (u *update) keepLoads(groups []*group) {
	loads := map[place]*load{}
	for at, l := range u.b.loads {
		if l.inFlight.Load() > 0 {
			loads[at] = l
		}
	}
	// Those just taken out too: a request that began before may come to them yet.
	if v := u.b.view.Load(); v != nil {
		groups = slices.Concat(v.all, groups)
	}
	for _, g := range groups {
		for _, s := range g.servers {
			loads[place{g.Name, s.key}] = s.entry.load
		}
	}
	u.b.loads = loads
}
