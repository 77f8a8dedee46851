package guard

import (
	"reflect"

	"github.com/weirhttp/weir/admission"
)

// install makes a valid policy ready and puts it in force.
func (g *Guard) install(p Policy) error {
	b := builder{g: g, named: map[string]*admission.Bucket{}}
	b.changes = []admission.Change{
		{Bucket: g.global, Rate: p.Global},
		{Bucket: g.unknown, Rate: p.Unknown},
		{Addresses: g.addresses, Rate: p.Address},
	}
	st := &state{Policy: p, classes: map[Identity]*class{}, routes: map[string]*route{}}
	providers := map[string]*slots{}
	for _, pr := range p.Providers {
		own := b.bucket("provider/"+pr.Name, pr.Rate)
		work := pr.Work
		if work == 0 {
			work = p.Work.Global
		}
		s := g.slotsOf(pr.Name)
		providers[pr.Name] = s
		for _, cl := range pr.Classes {
			c := &class{provider: own, work: work, slots: s}
			if cl.Rate != (admission.Rate{}) {
				c.bucket = b.bucket("class/"+pr.Name+"/"+cl.Name, cl.Rate)
			}
			st.classes[Identity{pr.Name, cl.Name}] = c
		}
	}
	for _, r := range p.Routes {
		to := &route{cost: max(r.Cost, 1)}
		if r.Rate != (admission.Rate{}) {
			to.bucket = b.bucket("route/"+r.Name, r.Rate)
		}
		if r.Unknown != (admission.Rate{}) {
			to.unknown = b.bucket("unknown/"+r.Name, r.Unknown)
		}
		st.routes[r.Name] = to
	}
	if b.err == nil {
		b.err = g.buckets.Rerate(b.changes...)
	}
	if b.err != nil {
		return b.err // not of a valid policy
	}
	b.keepRetired()
	g.named = b.named
	g.mu.Lock()
	g.work.keep(providers)
	g.state.Store(st)
	g.mu.Unlock()
	return nil
}

// equal reports whether two policies say the same.
func equal(a, b Policy) bool { return reflect.DeepEqual(a, b) }

// builder finds the buckets of a policy among those there are, or makes them.
type builder struct {
	g       *Guard
	named   map[string]*admission.Bucket
	changes []admission.Change
	err     error
}

// bucket has no parent: whoever debits it names all. So which of them is above
// which is the policy's business alone, and a name's bucket can outlive its parent's.
func (b *builder) bucket(name string, r admission.Rate) *admission.Bucket {
	have := b.g.named[name]
	if have != nil {
		b.changes = append(b.changes, admission.Change{Bucket: have, Rate: r})
	} else if made, err := b.g.buckets.Bucket(r, nil); err != nil {
		b.err = err
	} else {
		have = made
	}
	b.named[name] = have
	return have
}

// keepRetired keeps the buckets whose names aren't used now until they are full:
// forgetting a full one changes nothing.
func (b *builder) keepRetired() {
	for name, old := range b.g.named {
		if b.named[name] == nil && !b.g.buckets.Full(old) {
			b.named[name] = old
		}
	}
}
