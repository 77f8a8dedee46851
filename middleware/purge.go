package middleware

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/trace"
)

// PurgeMethod is the request method by which the main listener purges, for peers
// that [PurgeOptions].Authorise admits.
const PurgeMethod = purge.Method

// PurgeOptions say what stored responses can be purged by, and by whom.
type PurgeOptions struct {
	// List bounds what is remembered of purges, and names the journal that makes
	// them survive a restart.
	List purge.Options
	// TagFields are the response header fields that carry tags, such as Cache-Tag
	// or Surrogate-Key. nil means none. Groups (Cache-Groups, RFC 9875) always
	// count.
	TagFields []purge.TagField
	// RulesVersion stands for what the cache can't see of its rules: what the
	// functions in them do. With a journal, everything stored is purged by New if
	// the rules (Default, Targets, TrustedProxies, TagFields or RulesVersion) aren't
	// those of the process before.
	RulesVersion string
	// StripTagFields keeps TagFields from what clients see.
	StripTagFields bool
	// Authorise says who may purge with the PURGE method on the listener that
	// serves visitors: [purge.FromPrefixes] for some networks, [purge.BearerToken]
	// for a token. nil means nobody: then PURGE is a method like any other and the
	// wrapped handler's affair. See [Middleware.PurgeAPI] for a listener of its own.
	Authorise func(*http.Request) (who string, err error)
}

// purger is what a Middleware purges by.
type purger struct {
	list   *purge.List
	tags   *purge.TagReader
	strip  []string
	lostAt time.Time // if earlier purges aren't known: what is older doesn't count
}

func newPurger(m *Middleware, all *Options) (*purger, error) {
	o, log := all.Purge, all.Logger
	if o.List.Logger == nil {
		o.List.Logger = log
	}
	if all.Store.Disk != nil && o.List.Journal == "" {
		return nil, &ConfigError{"Purge.List.Journal", "", "must name a file beside the disk's directory: " +
			"what is on disk outlives the process, and so must the purges of it"}
	}
	tags, tagErr := purge.NewTagReader(o.TagFields...)
	list, listErr := purge.New(o.List)
	if err := errors.Join(tagErr, listErr); err != nil {
		if list != nil {
			_ = list.Close(context.Background())
		}
		return nil, err
	}
	p := &purger{list: list, tags: tags}
	if list.Lost() {
		p.lostAt = time.Now()
	}
	if err := p.purgeIfRulesChanged(all); err != nil {
		return nil, errors.Join(err, list.Close(context.Background()))
	}
	if o.StripTagFields {
		p.strip = tags.Fields()
	}
	// Whatever is wrong with these options is to be heard now.
	if _, err := m.purgeHandler(p, o.Authorise, o.TagFields, log, nil); err != nil {
		return nil, errors.Join(err, list.Close(context.Background()))
	}
	return p, nil
}

func (m *Middleware) purgeHandler(p *purger, authorise func(*http.Request) (string, error), tags []purge.TagField, log *slog.Logger, zoneOf func(string) (string, bool)) (*purge.Handler, error) {
	return purge.NewHandler(purge.HandlerOptions{
		List: p.list, Authorise: authorise, TagFields: tags, Logger: log,
		Keyed: m.keyed, ZoneOf: zoneOf, KnownZone: m.zones.known,
	})
}

// purgeMethod serves the PURGE method for the handler of a zone.
func (m *Middleware) purgeMethod(zone string) (*purge.Handler, error) {
	o := &m.cfg.Purge
	authorise := func(r *http.Request) (who string, err error) {
		if v, ok := r.Context().Value(purgeVerdictKey{}).(*purgeVerdict); ok {
			return v.who, v.err
		}
		return o.Authorise(r)
	}
	return m.purgeHandler(m.purges, authorise, o.TagFields, m.cfg.Logger, func(string) (string, bool) { return zone, true })
}

// PurgeAPI returns the JSON interface to purging, for a listener of its own: POST
// purges, GET tells the state; see [purge.Handler]. It refuses everyone whom
// authorise doesn't admit, and everyone if it's nil.
func (m *Middleware) PurgeAPI(authorise func(*http.Request) (who string, err error)) (http.Handler, error) {
	return m.purgeHandler(m.purges, authorise, m.cfg.Purge.TagFields, m.cfg.Logger, nil)
}

// Purge invalidates what the selectors match: everything whose fetch began
// before. It takes microseconds, however much is stored; see [purge.List.Add].
// The zone of the first handler made by Wrap is "", of the n-th its number, and that
// of one made by WrapZone is its name. Applied says that the purge is in effect, not
// that anything was stored.
func (m *Middleware) Purge(ctx context.Context, selectors ...purge.Selector) (purge.Result, error) {
	selectors = slices.Clone(selectors)
	for i := range selectors {
		m.keyed(&selectors[i])
	}
	return m.purges.list.Add(ctx, selectors...)
}

// keyed brings the query of a selector to what the key keeps of it.
func (m *Middleware) keyed(s *purge.Selector) {
	if s.Kind != purge.ExactURL || s.Query == "" {
		return
	}
	r := &http.Request{Method: http.MethodGet, Host: s.Host, URL: &url.URL{Path: "/", RawQuery: s.Query}, Header: http.Header{}}
	s.Query = m.cfg.def.spec.KeyedQuery(r)
}

// isPurge reports whether x is a PURGE request that the cache answers itself.
func (x *exchange) isPurge() bool {
	return x.r.Method == PurgeMethod && x.h.purgeMethod != nil
}

// purgeRequest is x as those see it who decide about purges.
func (x *exchange) purgeRequest() *http.Request {
	// Responses are stored under the host that a trusted proxy names.
	x.facts = factsOf(x.r.Header)
	if x.facts&hasForwarding != 0 {
		x.barrier = forwardingOf(x.r, x.facts, x.h.cfg.TrustedProxies)
	}
	r := *x.r
	r.Host = x.target().Host
	return &r
}

// purgeVerdict is what PurgeOptions.Authorise said about a request. It's asked once:
// what it goes by may be good for one time only.
type purgeVerdict struct {
	who string
	err error
}

type purgeVerdictKey struct{}

// authorisePurge finds out whether x is a PURGE by somebody who may.
func (x *exchange) authorisePurge() bool {
	v := new(purgeVerdict)
	v.who, v.err = x.h.cfg.Purge.Authorise(x.purgeRequest())
	x.mayPurge = v
	return v.err == nil
}

// servePurge answers a PURGE request. It never reaches the wrapped handler.
func (x *exchange) servePurge() {
	x.rec.Cache.Status, x.rec.Cache.Reason, x.rec.Cache.NotStored = trace.Bypass, string(whyPurge), string(whyPurge)
	r := x.purgeRequest()
	if x.mayPurge != nil {
		r = r.WithContext(context.WithValue(r.Context(), purgeVerdictKey{}, x.mayPurge))
	}
	giveUpBody(x.w, x.r) // it means nothing here
	w := &statusWriter{ResponseWriter: x.w}
	x.h.purgeMethod.ServePurge(w, r)
	x.rec.StatusCode, x.rec.BytesSent = w.status, w.sent
}

// statusWriter notes what was answered.
type statusWriter struct {
	http.ResponseWriter
	status int
	sent   int64
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.sent += int64(n)
	return n, err
}

// subject is what purges select a response to this fetch by, and the same in the form
// in which a disk keeps it, if there is one.
func (f *fetch) subject(h http.Header) (*purge.Subject, []byte) {
	return f.subjectAfter(nil, h)
}

// purgeFacts are what purges select a response to f by.
func (f *fetch) purgeFacts(h http.Header) purge.Facts {
	facts := purge.Facts{
		Seq: f.seq, Zone: f.h.zone, Scheme: f.scheme, Host: f.host, Path: f.url.EscapedPath(),
		Query: f.route.spec.KeyedQuery(&http.Request{URL: &f.url}), Key: f.key,
	}
	f.h.purges.tags.Read(h, &facts)
	return facts
}

// subjectBeside is subject for a part that joins others: bytes that came with a tag
// are purged by it, whatever others came with. Purges from before the newest part
// were looked at already.
func (f *fetch) subjectBeside(h http.Header, had *parts) (*purge.Subject, []byte) {
	facts := f.purgeFacts(h)
	facts.Seq = max(facts.Seq, had.subject.Seq())
	s := purge.NewSubject(facts)
	s.Inherit(had.subject)
	if f.h.cfg.Store.Disk == nil {
		return s, nil
	}
	before, _, ok := parseFacts(had.facts)
	facts.Tags, facts.Groups = unite(facts.Tags, before.Tags), unite(facts.Groups, before.Groups)
	size := 0
	for _, tag := range slices.Concat(facts.Tags, facts.Groups) {
		size += len(tag)
	}
	if facts.AllTags = facts.AllTags || before.AllTags || !ok || size > purge.MaxTagTextBytes ||
		len(facts.Tags)+len(facts.Groups) > purge.MaxTags; facts.AllTags {
		facts.Tags, facts.Groups = nil, nil
	}
	return s, appendFacts(nil, &facts, f.h.purges.list.Written())
}

// unite returns the texts of a, and those of b that aren't among them. Neither is
// changed.
func unite(a, b []string) []string {
	if len(b) == 0 || slices.Equal(a, b) {
		return a
	}
	known := make(map[string]bool, len(a))
	for _, s := range a {
		known[s] = true
	}
	out := slices.Clip(a)
	for _, s := range b {
		if !known[s] {
			out = append(out, s)
		}
	}
	return out
}

// subjectAfter is subject for a response that confirms old, whose tags count on
// unless h has some: old's own may be in a field that wasn't stored.
func (f *fetch) subjectAfter(old *store.Object, h http.Header) (*purge.Subject, []byte) {
	facts := f.purgeFacts(h)
	untagged := len(facts.Tags) == 0 && len(facts.Groups) == 0 && !facts.AllTags
	if old != nil && untagged {
		if before, _, ok := parseFacts(old.Facts); ok {
			facts.Tags, facts.Groups, facts.AllTags = before.Tags, before.Groups, before.AllTags
			untagged = false
		}
	}
	s := purge.NewSubject(facts)
	if old != nil && untagged {
		if before, ok := old.Attached.(*purge.Subject); ok {
			s.Inherit(before)
		}
	}
	if f.h.cfg.Store.Disk == nil {
		return s, nil
	}
	return s, appendFacts(nil, &facts, f.h.purges.list.Written())
}

// attached are a subject and its facts as an object has them.
func attached(s *purge.Subject, facts []byte) (store.Attachment, []byte) { return s, facts }

// verdict says what purges have made of a stored response.
func (m *Middleware) verdict(o *store.Object) purge.Verdict {
	switch a := o.Attached.(type) {
	case *purge.Subject:
		return m.purges.list.Check(a)
	case *searchLink:
		return m.purges.list.Check(a.subject)
	}
	if s, ok := o.Attachment(m.purges.revive).(*purge.Subject); ok {
		return m.purges.list.Check(s)
	}
	return purge.Gone // nothing is stored without one
}

// get is the store's Get without what is purged. soft says that the object has
// been purged softly: it's stale, however fresh it was.
func (x *exchange) get(k store.Key) (o *store.Object, index *store.Index, soft bool) {
	o, index = x.h.store.Get(k)
	if o == nil {
		return nil, index, false
	}
	switch x.h.verdict(o) {
	case purge.Gone:
		x.h.store.DropPurged(o)
		return nil, nil, false
	case purge.Stale:
		return o, nil, true
	}
	return o, nil, false
}

// urlTarget is all that is stored for a URL whatever the rest of its key: where keys
// have ingredients other than the URL, an unsafe request's own say nothing about
// those of what is stored.
func (x *exchange) urlTarget(u *url.URL) purge.Target {
	r := &http.Request{Method: http.MethodGet, Host: u.Host, URL: u, Header: http.Header{}}
	t := purge.Target{Zone: x.h.zone, Host: u.Host, Path: u.EscapedPath(), Query: x.route.spec.KeyedQuery(r)}
	if t.Path == "" {
		t.Path = "/"
	}
	return t
}

// purgedBy is what the response to an unsafe request for target purges: the given URLs,
// where keys don't tell what is stored for them, and the groups that h names.
func (x *exchange) purgedBy(target *url.URL, urls []*url.URL, h http.Header) []purge.Target {
	var targets []purge.Target
	if !x.route.spec.URLOnly() || x.route.search {
		for _, u := range urls {
			targets = append(targets, x.urlTarget(u))
		}
	}
	for _, g := range rfc9111.InvalidatedGroups(x.r.Method, h) {
		targets = append(targets, purge.Target{Zone: x.h.zone, Origin: target.Scheme + "://" + target.Host, Group: g})
	}
	return targets
}

// purgeTargets purges for an unsafe request. Any visitor may send one, so it's not by
// tombstones, of which there is a limited number. That the journal can't be written
// just now doesn't keep the response from its client: the purge is in effect.
func (x *exchange) purgeTargets(targets []purge.Target) {
	res, err := x.h.purges.list.Invalidate(context.WithoutCancel(x.r.Context()), targets...)
	if err != nil {
		x.h.logger().Error("weir: an unsafe request's purge isn't durable", "err", err)
	}
	if res.Seq == x.seq+1 {
		// No other purge came since x did, and its own isn't about its own response,
		// which may be stored (Route.StorePost).
		x.seq = res.Seq
	}
}
