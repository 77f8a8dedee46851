package cachekey

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/weirhttp/weir/internal/field"
)

// MaxDropped is the number of names that [Reduced.Dropped] lists at most.
const MaxDropped = 32

// Reduced is what the request that fills the cache carries instead of what the
// visitor sent. [Reduced.Apply] puts it into a request.
type Reduced struct {
	// Query and ForceQuery replace those of the URL if QueryChanged. Order and
	// spelling are as sent.
	Query        string
	ForceQuery   bool
	QueryChanged bool
	// Cookie replaces all Cookie lines by one, or none if it is empty, if
	// CookieChanged.
	Cookie        string
	CookieChanged bool
	// Headers are normalised fields: each replaces all lines of its name, and an
	// empty value removes them.
	Headers []Pair
	// Dropped names what was left out, each once and in the order sent, for the
	// trace: the first MaxDropped names. Values may be private and aren't kept.
	Dropped []Dropped
	// DroppedCount counts everything left out, repeated names and those beyond
	// MaxDropped included.
	DroppedCount int
}

// Dropped names a query parameter ([KindQuery]) or cookie ([KindCookie]) that the
// origin isn't sent.
type Dropped struct {
	Kind Kind
	Name string
}

// Reduce returns what to send to the origin when the response will be shared under
// the key: the request without the parameters and cookies that the key leaves out
// and with normalised fields, so that an input outside the key can't shape what
// others get. It reports false if there is nothing to change (then it allocates
// nothing), if [Options.KeepUnkeyedInputs] is set, or if the request has no key.
// A request that bypasses the cache should go out unchanged.
func (s *Spec) Reduce(in *Input) (Reduced, bool) {
	r := in.Request
	if s.keepUnkeyed || r == nil || r.URL == nil {
		return Reduced{}, false
	}
	if _, problem := in.scheme(); problem != NoProblem || r.URL.Opaque != "" {
		return Reduced{}, false
	}
	leaves, problem := s.query.leaves(r.URL.RawQuery, r.URL.ForceQuery)
	if problem != NoProblem {
		return Reduced{}, false
	}
	cookies := s.dropOtherCookies && s.leavesCookies(r.Header["Cookie"])
	headers := s.changesHeaders(r.Header)
	if !leaves && !cookies && !headers {
		return Reduced{}, false
	}
	var out Reduced
	if leaves {
		out.reduceQuery(&s.query, r.URL.RawQuery)
	}
	if cookies {
		out.reduceCookies(s, r.Header["Cookie"])
	}
	if headers {
		for i := range s.normalize {
			if value, changed := s.normalize[i].replacement(r.Header); changed {
				out.Headers = append(out.Headers, Pair{s.normalize[i].canonical, value})
			}
		}
	}
	return out, true
}

// Apply returns a request as r that carries what d says. It shares with r what
// isn't changed, so r must not be changed afterwards; r itself stays as it is.
func (d *Reduced) Apply(r *http.Request) *http.Request {
	out := r.WithContext(r.Context())
	if d.QueryChanged {
		u := *r.URL
		u.RawQuery, u.ForceQuery = d.Query, d.ForceQuery
		out.URL = &u
		if target, _, ok := strings.Cut(r.RequestURI, "?"); ok {
			out.RequestURI = target
			if d.Query != "" || d.ForceQuery {
				out.RequestURI += "?" + d.Query
			}
		}
		// A form that was parsed earlier still holds what was left out.
		out.Form = nil
	}
	if d.CookieChanged || len(d.Headers) > 0 {
		out.Header = maps.Clone(r.Header)
		if out.Header == nil {
			out.Header = http.Header{}
		}
	}
	if d.CookieChanged {
		setField(out.Header, "Cookie", d.Cookie)
	}
	for _, field := range d.Headers {
		setField(out.Header, field.Name, field.Value)
	}
	return out
}

func setField(h http.Header, name, value string) {
	if value == "" {
		delete(h, name)
		return
	}
	h[name] = []string{value}
}

// drop counts a name and notes it if it is new and there is room.
func (d *Reduced) drop(kind Kind, name string) {
	d.DroppedCount++
	if len(d.Dropped) < MaxDropped && !slices.Contains(d.Dropped, Dropped{kind, name}) {
		d.Dropped = append(d.Dropped, Dropped{kind, name})
	}
}

// leaves reports whether the key leaves anything of the query out.
func (q *queryRule) leaves(query string, force bool) (bool, Problem) {
	if query == "" && !force || q.mode == QueryAll {
		return false, NoProblem
	}
	leaves := false
	for at := 0; at <= len(query); {
		p := paramAt(query, at)
		v := q.judge(p.pair(query), p.name(query))
		if v == unknown {
			return false, UnknownParameter
		}
		leaves = leaves || !v.kept()
		at = p.end + 1
	}
	return leaves, NoProblem
}

func (d *Reduced) reduceQuery(q *queryRule, query string) {
	kept := make([]byte, 0, len(query))
	for at := 0; at <= len(query); {
		p := paramAt(query, at)
		switch v := q.judge(p.pair(query), p.name(query)); {
		case v.kept():
			kept = append(kept, p.pair(query)...)
			kept = append(kept, '&')
		case p.start < p.end:
			d.drop(KindQuery, p.name(query))
		}
		at = p.end + 1
	}
	// What is left may be one empty parameter, which is a "?" and nothing more.
	d.ForceQuery = string(kept) == "&"
	d.Query, d.QueryChanged = string(trimLast(kept)), true
}

func (s *Spec) leavesCookies(lines []string) bool {
	for c := range field.Cookies(lines) {
		if !s.keysCookie(c.Name) && (c.Text != "" || len(s.cookies) == 0) {
			return true
		}
	}
	return false
}

func (d *Reduced) reduceCookies(s *Spec, lines []string) {
	var kept []byte
	for c := range field.Cookies(lines) {
		switch {
		case c.Text == "":
		case s.keysCookie(c.Name):
			if len(kept) > 0 {
				kept = append(kept, "; "...)
			}
			kept = append(kept, c.Text...)
		default:
			d.drop(KindCookie, c.Name)
		}
	}
	d.Cookie, d.CookieChanged = string(kept), true
}

func (s *Spec) changesHeaders(h http.Header) bool {
	for i := range s.normalize {
		if _, changed := s.normalize[i].replacement(h); changed {
			return true
		}
	}
	return false
}

// replacement returns the value that the fill carries and whether the request has
// another.
func (rule *headerRule) replacement(h http.Header) (string, bool) {
	lines := h[rule.canonical]
	value := rule.norm.sent(rule.norm.Value(lines))
	if value == "" {
		return "", len(lines) > 0
	}
	return value, len(lines) != 1 || lines[0] != value
}
