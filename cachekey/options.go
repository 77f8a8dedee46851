package cachekey

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Options say what a [Spec] keys. The zero value is the safe default: scheme,
// host, method class, path and the whole query.
type Options struct {
	// Query says which query parameters are keyed. The zero value keys all.
	Query Query
	// KeepQueryOrder keeps parameters in the order sent, so that "?a=1&b=2" and
	// "?b=2&a=1" differ. By default they are sorted by name unless a name comes
	// twice. It means nothing without keyed parameters and is refused there.
	KeepQueryOrder bool
	// OnUnknown says what becomes of a parameter that [Include] doesn't name:
	// dropped from the key (the default), or the whole request is uncacheable.
	// Only with Include.
	OnUnknown OnUnknown

	// Headers are the keyed request header fields, in any case and order. An
	// absent field and an empty one give different keys; repeated lines count in
	// number and order.
	Headers []string
	// Cookies are the keyed cookies. Names are compared exactly; an absent cookie
	// and an empty one differ; several of one name count in number and order.
	Cookies []string
	// DropOtherCookies says that all cookies but those in Cookies are unkeyed
	// inputs that don't matter: [Spec.Reduce] removes them from the request that
	// fills the cache, and "Vary: Cookie" then looks at no others either. By
	// default cookies outside Cookies aren't keyed and are left alone in the
	// request, so whoever stores the response has to rule them out.
	DropOtherCookies bool

	// Normalize gives, by field name in any case, how the value of a keyed or
	// selecting header field is reduced before it is compared. Without an entry
	// the raw value counts. Reduce replaces the field in the request that fills
	// the cache by what the normalised value stands for.
	Normalize map[string]Normalizer

	// CompareAsLists compares selecting header fields without an entry in Normalize
	// as lists: how they are divided into lines and the white space around commas
	// don't count, which RFC 9111 §4.1 allows where a field's syntax does. By
	// default they are compared as sent.
	CompareAsLists bool

	// KeepUnkeyedInputs sends the request that fills the cache as the visitor
	// sent it: [Spec.Reduce] then changes nothing. Whatever the key leaves out
	// can then shape what other visitors get. As a small defence, an unknown
	// parameter whose name is percent-encoded is kept in the key, because its
	// decoded name may be one that Include lists.
	KeepUnkeyedInputs bool
}

// QueryMode says how [Query.Names] are read.
type QueryMode uint8

// The query modes.
const (
	QueryAll     QueryMode = iota // every parameter is keyed; no names
	QueryNone                     // no parameter is keyed; no names
	QueryInclude                  // only the named parameters are keyed
	QueryExclude                  // all but the named parameters are keyed
)

// Query says which parameters are keyed. The zero value keys all of them. Names
// are compared raw, as browsers send them: to name "tags[]", list "tags%5B%5D"
// too.
type Query struct {
	Mode  QueryMode
	Names []string
}

// All keys every parameter, like the zero [Query].
func All() Query { return Query{} }

// None keys no parameter: all of them are one response.
func None() Query { return Query{Mode: QueryNone} }

// Include keys the named parameters only; see [Options.OnUnknown] for the rest.
func Include(names ...string) Query { return Query{Mode: QueryInclude, Names: names} }

// Exclude keys all but the named parameters; see [CommonTrackingParams].
func Exclude(names ...string) Query { return Query{Mode: QueryExclude, Names: names} }

// OnUnknown says what becomes of a parameter that [Include] doesn't name.
type OnUnknown uint8

// What becomes of unknown parameters.
const (
	Drop   OnUnknown = iota // it isn't keyed, and the fill goes without it
	Bypass                  // the request gets no key: [UnknownParameter]
)

// ConfigError is one setting that [New] refuses.
type ConfigError struct {
	Field  string // path of the setting, such as "Query.Names[2]"
	Value  any    // what it was set to
	Reason string // why it is refused and what to write instead
}

// Error returns field, value and reason in one line.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("cachekey: %s: %#v: %s", e.Field, e.Value, e.Reason)
}

// problems collects all errors of one Options.
type problems []error

func (p *problems) add(field string, value any, reason string) {
	*p = append(*p, &ConfigError{Field: field, Value: value, Reason: reason})
}

// New checks the options as a whole and returns the Spec, or all errors at once,
// joined, each a *[ConfigError]. Later changes to the slices and maps in o have no
// effect. Repeated names are one name.
func New(o Options) (*Spec, error) {
	var bad problems
	s := &Spec{
		query:            resolveQuery(o, &bad),
		cookies:          resolveCookies(o, &bad),
		dropOtherCookies: o.DropOtherCookies,
		lists:            o.CompareAsLists,
		keepUnkeyed:      o.KeepUnkeyedInputs,
	}
	s.normalize = resolveNormalize(o, &bad)
	s.headers = resolveHeaders(o, s.normalize, &bad)
	if o.DropOtherCookies && o.KeepUnkeyedInputs {
		bad.add("DropOtherCookies", true, "KeepUnkeyedInputs keeps what this would remove: set one of them")
	}
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	return s, nil
}

// Default returns the Spec of the zero [Options].
func Default() *Spec { return &Spec{} }

func resolveQuery(o Options, bad *problems) queryRule {
	q := o.Query
	if q.Mode > QueryExclude {
		bad.add("Query.Mode", q.Mode, "unknown mode: use QueryAll, QueryNone, QueryInclude or QueryExclude")
	}
	named := q.Mode == QueryInclude || q.Mode == QueryExclude
	if named && len(q.Names) == 0 {
		bad.add("Query.Names", q.Names, "Include and Exclude need names: use None or All instead")
	}
	if !named && len(q.Names) > 0 {
		bad.add("Query.Names", q.Names, "names are read with QueryInclude and QueryExclude only")
	}
	for i, name := range q.Names {
		if reason := badParameter(name); reason != "" {
			bad.add(fmt.Sprintf("Query.Names[%d]", i), name, reason)
		}
	}
	if o.KeepQueryOrder && q.Mode == QueryNone {
		bad.add("KeepQueryOrder", true, "no parameter is keyed, so there is no order to keep")
	}
	if o.OnUnknown > Bypass {
		bad.add("OnUnknown", o.OnUnknown, "unknown action: use Drop or Bypass")
	}
	if o.OnUnknown == Bypass && q.Mode != QueryInclude {
		bad.add("OnUnknown", o.OnUnknown, "only Include leaves parameters unknown")
	}
	return queryRule{
		mode: q.Mode, names: newNameSet(q.Names), keepOrder: o.KeepQueryOrder,
		bypass: o.OnUnknown == Bypass, stays: o.KeepUnkeyedInputs,
	}
}

func badParameter(name string) string {
	if name == "" {
		return "a parameter needs a name"
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c == '&' || c == '=' || c == '#':
			return "a parameter's name as sent can't contain & = #: write it percent-encoded"
		case c <= ' ' || c >= 0x7f:
			return "names are compared as sent: write it percent-encoded, as browsers do"
		}
	}
	return ""
}

func resolveCookies(o Options, bad *problems) []string {
	for i, name := range o.Cookies {
		if name == "" || strings.ContainsFunc(name, func(c rune) bool {
			return c <= ' ' || c == ';' || c == '=' || c == 0x7f
		}) {
			bad.add(fmt.Sprintf("Cookies[%d]", i), name, "not a cookie name: it is empty or contains a space, ; or =")
		}
	}
	return sortedUnique(o.Cookies)
}

func resolveHeaders(o Options, normalize []headerRule, bad *problems) []headerRule {
	var rules []headerRule
	for i, name := range o.Headers {
		field := fmt.Sprintf("Headers[%d]", i)
		switch lower := strings.ToLower(name); {
		case !isToken(name):
			bad.add(field, name, "not a header field name")
		case lower == "host":
			bad.add(field, name, "the host is always keyed")
		case lower == "cookie" && (o.DropOtherCookies || len(o.Cookies) > 0):
			bad.add(field, name, "this keys all cookies: name some in Cookies or all in Headers, not both")
		default:
			rule := headerRule{canonical: http.CanonicalHeaderKey(name), lower: lower}
			for _, n := range normalize {
				if n.lower == lower {
					rule = n
				}
			}
			rules = append(rules, rule)
		}
	}
	return sortRules(rules)
}

func resolveNormalize(o Options, bad *problems) []headerRule {
	var rules []headerRule
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(o.Normalize)) {
		n := o.Normalize[name]
		field := fmt.Sprintf("Normalize[%q]", name)
		lower := strings.ToLower(name)
		switch {
		case !isToken(name):
			bad.add(field, name, "not a header field name")
		case lower == "host" || lower == "cookie":
			bad.add(field, name, "the host has fixed rules and cookies are named in Cookies")
		case seen[lower]:
			bad.add(field, name, "the field is listed twice, in different case")
		case n.invalid != nil:
			bad.add(field, n.invalid.Value, n.invalid.Reason)
		case n.only != "" && n.only != lower:
			bad.add(field, name, "this normaliser is made for "+http.CanonicalHeaderKey(n.only))
		case n.Value == nil:
			bad.add(field, name, "the normaliser has no Value function")
		}
		seen[lower] = true
		rules = append(rules, headerRule{canonical: http.CanonicalHeaderKey(name), lower: lower, norm: n})
	}
	return sortRules(rules)
}

func sortRules(rules []headerRule) []headerRule {
	slices.SortFunc(rules, func(a, b headerRule) int { return strings.Compare(a.lower, b.lower) })
	return slices.CompactFunc(rules, func(a, b headerRule) bool { return a.lower == b.lower })
}

func sortedUnique(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}
