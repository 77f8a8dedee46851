package middleware

import (
	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
)

// maxSearchRules bounds the rules remembered for one target. Servers should have
// one; a rule that falls out costs misses.
const maxSearchRules = 4

// How a response is found by requests whose query differs only in ways that its
// No-Vary-Search field says don't matter: under the target's key without query
// there's a record of the rules seen (searchRules), and under the key that a rule
// makes of a query, or the variants of that key, a link to the newest response
// (searchLink). Both are objects without a body in the store's memory, so that its
// bounds count them and they may vanish at any time, which is a miss. The response
// itself stays one object under its own key: what removes or replaces it there
// leaves the link leading nowhere.

// searchRules are the rules of responses for one target, the newest first.
// Immutable.
type searchRules struct{ rules []cachekey.Search }

// Weight implements [store.Attachment].
func (s *searchRules) Weight() int64 {
	w := int64(48)
	for _, r := range s.rules {
		w += r.Weight()
	}
	return w
}

// searchLink leads to a stored response.
type searchLink struct {
	subject *purge.Subject // the response's
	to      store.Key
}

// Weight implements [store.Attachment]. The subject is counted with the response,
// and again here: the link may outlive it.
func (s *searchLink) Weight() int64 { return 48 + s.subject.Weight() }

// searchPlace is where a response to a request would be found by No-Vary-Search.
type searchPlace struct {
	on    bool
	base  cachekey.Key
	query string // raw
}

// searchPlace returns nothing where the route doesn't obey the field.
func (x *exchange) searchPlace(in *cachekey.Input) (p searchPlace) {
	if !x.route.search {
		return p
	}
	base, problem := x.route.spec.SearchBase(in)
	return searchPlace{problem == cachekey.NoProblem, base, in.Request.URL.RawQuery}
}

// rulesOf returns the rules remembered for a target.
func (m *Middleware) rulesOf(base cachekey.Key) []cachekey.Search {
	if o := m.store.GetMemory(store.Key(base)); o != nil {
		if s, ok := o.Attached.(*searchRules); ok {
			return s.rules
		}
	}
	return nil
}

// keepBySearch lets a response that was just stored be found by what its
// No-Vary-Search field makes the same request.
func (f *fetch) keepBySearch(o *store.Object) {
	if !f.search.on {
		return
	}
	if _, ok := o.Header.Get("No-Vary-Search"); !ok {
		return
	}
	rule := cachekey.ParseSearch(o.Header.Header()["No-Vary-Search"])
	key, ok := f.route.spec.WithSearch(f.search.base, rule, f.search.query)
	subject, _ := o.Attached.(*purge.Subject)
	if !ok || subject == nil {
		return
	}
	f.h.rememberRule(f.search.base, rule)
	link := &store.Object{
		Key: store.Key(key), Primary: store.Key(key), Status: o.Status, Header: o.Header,
		VaryNames: o.VaryNames, Selecting: o.Selecting, RequestedAt: o.RequestedAt, Life: o.Life,
		Attached: &searchLink{subject, o.Key},
	}
	if len(o.VaryNames) > 0 {
		if o.Selecting != string(f.route.spec.AppendSelecting(nil, o.VaryNames, f.asked)) {
			return // it answered f by the language that it prefers
		}
		link.Key = store.Key(f.route.spec.WithVary(key, o.VaryNames, f.asked))
	}
	f.h.store.PutMemory(link, func(there *store.Object) bool { return !f.flight.Doomed() && !supersededBy(link, there) })
}

// rememberRule makes rule the newest of its target. Two at the same time may lose
// one, until the next response has it.
func (m *Middleware) rememberRule(base cachekey.Key, rule cachekey.Search) {
	old := m.rulesOf(base)
	if len(old) > 0 && old[0] == rule {
		return
	}
	rules := append(make([]cachekey.Search, 0, maxSearchRules), rule)
	for _, r := range old {
		if r != rule && len(rules) < maxSearchRules {
			rules = append(rules, r)
		}
	}
	m.store.PutMemory(&store.Object{Key: store.Key(base), Primary: store.Key(base), Attached: &searchRules{rules}}, nil)
}

// bySearch looks for a response to another query that may answer x as it is. If
// there is one, it becomes what was found, and the verdict to serve it. All else
// is left to a fetch under x's own key.
func (x *exchange) bySearch(f *found, v *verdict) {
	p := x.searchPlace(&x.in)
	if !p.on {
		return
	}
	for _, rule := range x.h.rulesOf(p.base) {
		key, ok := x.route.spec.WithSearch(p.base, rule, p.query)
		if !ok {
			continue
		}
		other, ok := x.follow(store.Key(key))
		if !ok {
			continue
		}
		if w := x.judge(&other); w.act == serveStored {
			w.reason = whySearch
			*f, *v = other, w
			return
		}
	}
}

// follow returns what the link under a rule's key leads x to.
func (x *exchange) follow(key store.Key) (found, bool) {
	at := x.find(key)
	if at.object == nil {
		return found{}, false
	}
	link, ok := at.object.Attached.(*searchLink)
	if !ok {
		return found{}, false
	}
	o, _, soft := x.get(link.to)
	// The same header has the same rule; another may have none. And what the link
	// was selected by is what the response is selected by.
	if o == nil || o.Header != at.object.Header || len(o.VaryNames) > 0 && !x.selects(o.VaryNames, o.Selecting) || !x.mayShare(&o.Life) {
		return found{}, false
	}
	switch x.purgedHere(o) {
	case purge.Gone:
		return found{}, false
	case purge.Stale:
		soft = true
	}
	return found{object: o, soft: soft || at.soft, claim: at.claim}, true
}

// purgedHere says what the purges since o was fetched would have made of it, had it
// been the response to x's own URL.
func (x *exchange) purgedHere(o *store.Object) purge.Verdict {
	s, ok := o.Attachment(x.h.purges.revive).(*purge.Subject)
	if !ok {
		return purge.Gone
	}
	target := x.target()
	return x.h.purges.list.Check(purge.NewSubject(purge.Facts{
		Seq: s.Seq(), Zone: x.h.zone, Scheme: target.Scheme, Host: target.Host,
		Path: x.r.URL.EscapedPath(), Query: x.route.spec.KeyedQuery(x.r), Key: x.key,
	}))
}

// forgetSearch makes an unsafe request for a target also invalidate what answers
// the queries that are the same by the rules remembered. That the target itself
// isn't answered by an older response is purgedHere's affair.
func (x *exchange) forgetSearch(in *cachekey.Input) {
	p := x.searchPlace(in)
	if !p.on {
		return
	}
	for _, rule := range x.h.rulesOf(p.base) {
		if key, ok := x.route.spec.WithSearch(p.base, rule, p.query); ok {
			x.h.store.Delete(store.Key(key))
		}
	}
}
