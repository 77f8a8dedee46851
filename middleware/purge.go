package middleware

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
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
	// functions in them do. With a journal, everything stored is purged by a New that
	// succeeds, and a log line says so, if the rules (Default but for its Admission,
	// Targets, TrustedProxies, TagFields or RulesVersion) aren't those of the process
	// before.
	RulesVersion string
	// StripTagFields keeps TagFields from what clients see.
	StripTagFields bool
	// Authorise says who may purge with the PURGE method on the listener that
	// serves visitors: [purge.FromPrefixes] for some networks, [purge.BearerToken]
	// for a token. If the peer is one of TrustedProxies, RemoteAddr is the client's
	// address with port 0, and of the fields that say that a request was forwarded only
	// those are there that the trusted proxies can't account for, so that the client may
	// have forwarded somebody else's request; or RemoteAddr is empty, if they don't say
	// who the client is. nil means nobody: then PURGE is a method like any other and the
	// wrapped handler's affair. See [Middleware.PurgeAPI] for a listener of its own.
	Authorise func(*http.Request) (who string, err error)
}

// purger is what a Middleware purges by.
type purger struct {
	list   *purge.List
	tags   *purge.TagReader
	strip  []string
	lostAt time.Time // if earlier purges aren't known: what is older doesn't count
	rules  rulesRecord
}

// newPurger purges nothing yet: see purgeIfRulesChanged.
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
	var err error
	if p.rules, err = readRules(all, m.cfg.TrustedProxies); err != nil {
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

// PurgeAPI returns the JSON interface to purging, for a listener of its own: POST
// purges, GET tells the state; see [purge.Handler]. It refuses everyone whom
// authorise doesn't admit, and everyone if it's nil. What authorise sees is as in
// [PurgeOptions].Authorise.
func (m *Middleware) PurgeAPI(authorise func(*http.Request) (who string, err error)) (http.Handler, error) {
	return m.purgeHandler(m.purges, m.authoriser(authorise), m.cfg.Purge.TagFields, m.cfg.Logger, nil)
}

// Purge invalidates what the selectors match: everything whose fetch began
// before. It takes microseconds, however much is stored; see [purge.List.Add].
// The zone of the first handler made by Wrap is "", of the n-th its number, and that
// of one made by WrapZone is its name. Applied says that the purge is in effect, not
// that anything was stored. If a zone is no handler's, the error has a
// *[purge.SelectorError] for each such selector, and nothing was purged.
func (m *Middleware) Purge(ctx context.Context, selectors ...purge.Selector) (purge.Result, error) {
	if err := m.zones.unknown(selectors); err != nil {
		return purge.Result{}, err
	}
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
