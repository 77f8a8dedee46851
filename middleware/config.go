package middleware

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/internal/field"
	"github.com/weirhttp/weir/internal/forwarded"
	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/trace"
)

// ConfigError is one thing wrong with the options.
type ConfigError struct {
	Field  string // such as "Default.TTL.Floor"
	Value  any
	Reason string // what is wrong, and what to do instead
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("middleware: %s = %v: %s", e.Field, e.Value, e.Reason)
}

// config is the resolved, immutable form of Options.
type config struct {
	Options
	statusHeader string // "" for none
	def          *route
}

// route is the resolved, immutable form of Route.
type route struct {
	name        string
	cacheOff    bool
	headMethod  bool // HEAD is answered from stored responses too
	spec        *cachekey.Spec
	policy      rfc9111.Policy
	bypass      []cookiePattern
	rangeWindow int64
	forwardsRng bool
	storePost   bool
	admission   RouteAdmission
	languages   bool // select by Content-Language
	search      bool // obey No-Vary-Search
}

// maxTimeout bounds timeouts: what is reckoned with them must not overflow.
const maxTimeout = 24 * time.Hour

// problems gathers everything wrong with the options.
type problems []error

func (p *problems) add(field string, value any, reason string) {
	*p = append(*p, &ConfigError{field, value, reason})
}

func resolve(o Options) (*config, error) {
	var bad problems
	c := &config{Options: o}
	if c.Name == "" {
		c.Name = DefaultName
	}
	if err := trace.ValidateName(c.Name); err != nil {
		bad.add("Name", c.Name, err.Error())
	}
	switch {
	case o.StatusHeader == "":
		c.statusHeader = trace.DefaultStatusHeader
	case o.StatusHeader == "-":
	case !field.IsToken(o.StatusHeader):
		bad.add("StatusHeader", o.StatusHeader, `must be a header field name, "-" for none, or empty for `+trace.DefaultStatusHeader)
	case takenHeader(http.CanonicalHeaderKey(o.StatusHeader)):
		bad.add("StatusHeader", o.StatusHeader, "means something else in HTTP; use a name of your own")
	default:
		c.statusHeader = http.CanonicalHeaderKey(o.StatusHeader)
	}
	c.TrustedProxies = slices.Clone(o.TrustedProxies)
	for i, p := range c.TrustedProxies {
		plain, ok := forwarded.PlainPrefix(p)
		switch at := fmt.Sprintf("TrustedProxies[%d]", i); {
		case ok:
			c.TrustedProxies[i] = plain
		case !p.IsValid():
			bad.add(at, p, "is no valid prefix; use netip.ParsePrefix")
		default:
			bad.add(at, p, "is more than IPv4 mapped into IPv6; write what is IPv4 as 10.0.0.0/8")
		}
	}
	duration := func(name string, v *time.Duration, def time.Duration, negative bool) {
		if *v == 0 {
			*v = def
		} else if *v < 0 && !negative {
			bad.add(name, *v, "must not be negative; leave it 0 for "+def.String())
		} else if *v > maxTimeout {
			bad.add(name, *v, fmt.Sprintf("must not be above %v; use that, or less", maxTimeout))
		}
	}
	duration("FetchTimeout", &c.FetchTimeout, DefaultFetchTimeout, true)
	duration("WaitTimeout", &c.WaitTimeout, DefaultWaitTimeout, false)
	duration("StallTimeout", &c.StallTimeout, DefaultStallTimeout, true)
	duration("BodyTimeout", &c.BodyTimeout, DefaultBodyTimeout, true)
	switch {
	case o.BodyRate == 0:
		c.BodyRate = DefaultBodyRate
	case o.BodyRate > 0 && o.BodyTimeout < 0:
		bad.add("BodyRate", o.BodyRate, "has no effect, since BodyTimeout is off; leave it 0, or let BodyTimeout be 0 or more")
	}
	duration("UnshareableFor", &c.UnshareableFor, DefaultUnshareableFor, true)
	c.def = resolveRoute("Default", &o.Default, resolveTargets(o.Targets, &bad), &bad)
	return c, errors.Join(bad...)
}

// takenHeader reports whether a field has a meaning that the status word would
// destroy.
func takenHeader(name string) bool {
	switch name {
	case "Age", "Cache-Control", "Cache-Status", "Connection", "Date", "Etag", "Expires", "Last-Modified",
		"Location", "Set-Cookie", "Trailer", "Transfer-Encoding", "Upgrade", "Vary":
		return true
	}
	return strings.HasPrefix(name, "Content-")
}

func resolveTargets(names []string, bad *problems) []string {
	if names == nil {
		return nil
	}
	targets := make([]string, 0, len(names))
	for i, n := range names {
		if !field.IsToken(n) {
			bad.add(fmt.Sprintf("Targets[%d]", i), n, "must be a header field name such as CDN-Cache-Control")
		}
		targets = append(targets, http.CanonicalHeaderKey(n))
	}
	return targets
}

func resolveRoute(at string, o *Route, targets []string, bad *problems) *route {
	r := &route{
		name: o.Name, cacheOff: o.CacheOff, forwardsRng: o.ForwardRange,
		rangeWindow: o.RangeWindow, headMethod: o.Methods == nil,
		storePost: o.StorePost, admission: o.Admission, languages: o.SelectLanguage, search: o.NoVarySearch,
	}
	if r.name == "" {
		r.name = "default"
	}
	if r.rangeWindow == 0 {
		r.rangeWindow = DefaultRangeWindow
	} else if r.rangeWindow < 0 {
		bad.add(at+".RangeWindow", o.RangeWindow, "must not be negative; set ForwardRange to hand all ranges to the origin")
	}
	resolveMethods(at, o, r, bad)
	spec, err := cachekey.New(o.Key)
	if err != nil {
		*bad = append(*bad, fmt.Errorf("middleware: %s.Key: %w", at, err))
	}
	r.spec = spec
	for i, pattern := range o.BypassCookies {
		p, ok := parseCookiePattern(pattern)
		if !ok {
			bad.add(fmt.Sprintf("%s.BypassCookies[%d]", at, i), pattern, "must be a cookie name, with at most one asterisk, at its end")
		}
		r.bypass = append(r.bypass, p)
	}
	r.policy = rfc9111.Policy{
		Targets: targets, AuthorizationByRFC: o.AuthorizationByRFC,
		IgnoreCookies: o.DangerouslyIgnoreCookies, StoreSetCookie: o.DangerouslyStoreSetCookie,
		HeuristicForAll: o.HeuristicForAll, HeuristicMax: o.HeuristicMax,
		StoreStale: o.StoreStale, ShareOnce: o.ShareOnce,
		Floor: o.TTL.Floor, Ceiling: o.TTL.Ceiling, ErrorMax: o.TTL.ErrorMax,
		StaleWhileRevalidate: o.StaleWhileRevalidate, StaleIfError: o.StaleIfError,
		StaleOnDisconnect: o.StaleOnDisconnect,
	}
	resolveTTL(at, &o.TTL, &r.policy, bad)
	resolveIgnore(&o.Ignore, &r.policy)
	if o.StaleWhileRevalidate < 0 {
		bad.add(at+".StaleWhileRevalidate", o.StaleWhileRevalidate, "must not be negative; 0 leaves it to the origin")
	}
	if o.StaleIfError < 0 {
		bad.add(at+".StaleIfError", o.StaleIfError, "must not be negative; 0 leaves it to the origin")
	}
	return r
}

func resolveMethods(at string, o *Route, r *route, bad *problems) {
	get := o.Methods == nil
	for i, m := range o.Methods {
		switch m {
		case http.MethodGet:
			get = true
		case http.MethodHead:
			r.headMethod = true
		default:
			bad.add(fmt.Sprintf("%s.Methods[%d]", at, i), m, "only GET and HEAD can be cached; other methods are always handed through")
		}
	}
	if !get {
		bad.add(at+".Methods", o.Methods, "must include GET; set CacheOff to keep the cache out of the route")
	}
}

func resolveTTL(at string, t *TTL, p *rfc9111.Policy, bad *problems) {
	for status := range t.ByStatus {
		if status < 200 || status > 599 || status == http.StatusPartialContent || status == http.StatusNotModified {
			bad.add(at+".TTL.ByStatus", status, "must be a status from 200 to 599 other than 206 and 304, which are never stored as they are")
		}
	}
	p.TTLByStatus = maps.Clone(t.ByStatus)
	for class, d := range t.ByClass {
		if class < 2 || class > 5 {
			bad.add(at+".TTL.ByClass", class, "must be 2, 3, 4 or 5, for 2xx to 5xx")
			continue
		}
		if d == 0 {
			d = -1 // the policy's 0 is "unset"
		}
		p.TTLByClass[class] = d
	}
	if t.Floor < 0 {
		bad.add(at+".TTL.Floor", t.Floor, "must not be negative; 0 means none")
	}
	if t.Ceiling < 0 {
		bad.add(at+".TTL.Ceiling", t.Ceiling, "must not be negative; 0 means none, CacheOff stores nothing")
	}
	if t.Ceiling > 0 && t.Floor > t.Ceiling {
		bad.add(at+".TTL.Floor", t.Floor, fmt.Sprintf("must not exceed TTL.Ceiling (%v)", t.Ceiling))
	}
}

func resolveIgnore(o *IgnoreDirectives, p *rfc9111.Policy) {
	set := func(on bool, flag rfc9111.RequestFlags) {
		if on {
			p.IgnoreRequest |= flag
		}
	}
	set(o.NoStore, rfc9111.RequestNoStore)
	set(o.NoCache, rfc9111.RequestNoCache)
	set(o.MaxAge, rfc9111.RequestMaxAge)
	set(o.MinFresh, rfc9111.RequestMinFresh)
	set(o.MaxStale, rfc9111.RequestMaxStale)
	set(o.OnlyIfCached, rfc9111.RequestOnlyIfCached)
}

// cookiePattern is a cookie's name, or the beginning of it.
type cookiePattern struct {
	name   string
	prefix bool
}

func parseCookiePattern(s string) (cookiePattern, bool) {
	name, prefix := strings.CutSuffix(s, "*")
	return cookiePattern{name, prefix}, name != "" && field.IsToken(strings.ReplaceAll(name, "*", " "))
}

func (p cookiePattern) matches(name string) bool {
	if p.prefix {
		return strings.HasPrefix(name, p.name)
	}
	return name == p.name
}
