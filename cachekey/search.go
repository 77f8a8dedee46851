package cachekey

import (
	"bytes"
	"net/url"
	"slices"
	"strings"

	"github.com/weirhttp/weir/internal/field"
	"github.com/zeebo/blake3"
)

// Bounds of [Search]. What exceeds them is never shared.
const (
	MaxSearchNames     = 64      // names in a rule
	MaxSearchBytes     = 4 << 10 // bytes of a field, and of the names in its rule
	MaxSearchParams    = 256     // parameters of a query
	MaxSearchQueryText = 8 << 10 // bytes of a query
)

// The domains of what [Spec.SearchBase] and [Spec.WithSearch] hash. No key text
// and no other domain starts like one of them.
const (
	searchBaseDomain = "weir search base\n"
	searchDomain     = "weir search\n"
)

// Search is what a response's No-Vary-Search field says: which differences between
// queries don't matter (draft-ietf-httpbis-no-vary-search). Equal rules are equal
// with ==. The zero Search is the default: all parameters and their order matter.
type Search struct {
	// text is 'k' if the order of names doesn't matter, else '-'; then 'p' if all
	// parameters matter but the named ones, or 'e' if only the named ones do; then
	// the names decoded, sorted, each with its length before it. Empty for the
	// default.
	text string
}

// ParseSearch reads the lines of a No-Vary-Search field. The members key-order (a
// boolean), params (a boolean or a list of names) and, if params is true, except (a
// list of names) count; others are ignored, and of several with one key the last is
// taken (RFC 9651 §4.2.2). Names are decoded as in a query: "+" is a space, "%" and
// two digits a byte.
//
// It returns the default if the field is absent or malformed, if a member has
// another type, if a name's encoding is broken, and if the field has more than
// MaxSearchBytes or MaxSearchNames.
func ParseSearch(lines []string) Search {
	size := 0
	for _, line := range lines {
		size += len(line) + len(", ")
	}
	if size == 0 || size > MaxSearchBytes {
		return Search{}
	}
	members, ok := field.ParseDictionary(lines)
	if !ok {
		return Search{}
	}
	var order, params, except field.Item
	hasExcept := false
	for _, m := range members {
		switch m.Key {
		case "key-order":
			order = m.Value
		case "params":
			params = m.Value
		case "except":
			except, hasExcept = m.Value, true
		}
	}
	named := params
	all := params.Kind == field.Boolean && params.Bool
	switch {
	case order.Kind != field.Boolean,
		params.Kind != field.Boolean && params.Kind != field.InnerList,
		hasExcept && (!all || except.Kind != field.InnerList):
		return Search{}
	case all:
		named = except
	}
	return newSearch(order.Bool, all, named.Items)
}

// newSearch makes the rule in its one form.
func newSearch(order, all bool, items []field.Item) Search {
	if !order && !all && len(items) == 0 || len(items) > MaxSearchNames {
		return Search{}
	}
	names := make([]string, len(items))
	for i, item := range items {
		name, ok := appendDecoded(nil, item.Text)
		if item.Kind != field.String || !ok {
			return Search{}
		}
		names[i] = string(name)
	}
	text := []byte{'-', 'p'}
	if order && !(all && len(names) == 0) { // nothing is left that could have an order
		text[0] = 'k'
	}
	if all {
		text[1] = 'e'
	}
	for _, name := range sortedUnique(names) {
		text = appendCounted(text, name)
	}
	return Search{string(text)}
}

// IsDefault reports whether every parameter and the order matter, so that the rule
// makes no two queries the same.
func (r Search) IsDefault() bool { return r.text == "" }

// Weight is the number of bytes of memory that r takes.
func (r Search) Weight() int64 { return int64(len(r.text)) + 16 }

// String returns the rule as a field value, or nothing for the default. Within
// MaxSearchBytes, [ParseSearch] reads it back.
func (r Search) String() string {
	if r.IsDefault() {
		return ""
	}
	var out []string
	if r.text[0] == 'k' {
		out = append(out, "key-order")
	}
	var names []string
	for rest := r.text[2:]; rest != ""; {
		var name string
		name, rest = cutCounted(rest)
		names = append(names, `"`+url.QueryEscape(name)+`"`)
	}
	list := "(" + strings.Join(names, " ") + ")"
	switch {
	case r.text[1] == 'e' && len(names) > 0:
		out = append(out, "params", "except="+list)
	case r.text[1] == 'e':
		out = append(out, "params")
	case len(names) > 0:
		out = append(out, "params="+list)
	}
	return strings.Join(out, ", ")
}

// counts reports whether a parameter matters. name is decoded.
func (r Search) counts(name string) bool {
	only := r.text[1] == 'e'
	for rest := r.text[2:]; rest != ""; {
		var one string
		if one, rest = cutCounted(rest); one == name {
			return only
		}
	}
	return !only
}

// cutCounted reads what appendCounted wrote.
func cutCounted(text string) (s, rest string) {
	n, i := 0, 0
	for ; text[i] != ':'; i++ {
		n = n*10 + int(text[i]-'0')
	}
	return text[i+1 : i+1+n], text[i+1+n:]
}

// SearchBase returns the key of a request's target without its query, under which
// the rules of responses for this target can be kept. It is like the primary key in
// all else, and differs from every primary, variant and searched key. The problem
// is never [UnknownParameter]: that is told by [Spec.Primary].
func (s *Spec) SearchBase(in *Input) (Key, Problem) {
	if in.Request == nil || in.Request.URL == nil {
		return Key{}, NoTarget
	}
	r, u, bare := *in.Request, *in.Request.URL, *in
	u.RawQuery, u.ForceQuery = "", false
	r.URL, bare.Request = &u, &r
	var buf [textBuffer]byte
	text, problem := s.AppendText(append(buf[:0], searchBaseDomain...), &bare)
	if problem != NoProblem {
		return Key{}, problem
	}
	return blake3.Sum256(text), NoProblem
}

// WithSearch returns the key under which a response with this rule is found by all
// requests that differ from the one it answered only in ways that don't matter: base
// is the target's [Spec.SearchBase], rawQuery its query, of which what the primary
// key leaves out doesn't count. It differs from every other kind of key.
//
// It reports false, and nothing may be shared, for the default rule; for a query
// with ";", where an origin may see other parameters than the cache does; with a
// "%" that two hexadecimal digits don't follow, which origins read differently; and
// beyond MaxSearchQueryText or MaxSearchParams. Bytes that aren't UTF-8 are compared
// as they are.
func (s *Spec) WithSearch(base Key, rule Search, rawQuery string) (Key, bool) {
	query := s.query.kept(rawQuery)
	if rule.IsDefault() || len(query) > MaxSearchQueryText || strings.IndexByte(query, ';') >= 0 {
		return Key{}, false
	}
	var few [fewParams]searchPair
	var room, buf [textBuffer]byte
	pairs, decoded, ok := rule.collect(few[:0], room[:0], query)
	if !ok {
		return Key{}, false
	}
	if rule.text[0] == 'k' {
		slices.SortStableFunc(pairs, func(a, b searchPair) int {
			return bytes.Compare(a.name(decoded), b.name(decoded))
		})
	}
	text := append(buf[:0], searchDomain...)
	text = appendCounted(append(text, base[:]...), rule.text)
	for _, p := range pairs {
		text = appendCounted(text, string(p.name(decoded)))
		text = appendCounted(text, string(p.value(decoded)))
	}
	return blake3.Sum256(text), true
}

// searchPair is a decoded parameter's place in a buffer: the name from start to
// mid, the value from mid to end.
type searchPair struct{ start, mid, end int }

func (p searchPair) name(decoded []byte) []byte  { return decoded[p.start:p.mid] }
func (p searchPair) value(decoded []byte) []byte { return decoded[p.mid:p.end] }

// collect appends the parameters that matter, read as application/x-www-form-urlencoded:
// nothing between two "&" is none, and without "=" the value is empty.
func (r Search) collect(pairs []searchPair, decoded []byte, query string) ([]searchPair, []byte, bool) {
	count := 0
	for at := 0; at <= len(query); {
		p := paramAt(query, at)
		at = p.end + 1
		if p.start == p.end {
			continue
		}
		if count++; count > MaxSearchParams {
			return nil, nil, false
		}
		start := len(decoded)
		var ok, okToo bool
		decoded, ok = appendDecoded(decoded, p.name(query))
		mid := len(decoded)
		decoded, okToo = appendDecoded(decoded, query[min(p.eq+1, p.end):p.end])
		if !ok || !okToo {
			return nil, nil, false
		}
		if !r.counts(string(decoded[start:mid])) {
			decoded = decoded[:start]
			continue
		}
		pairs = append(pairs, searchPair{start, mid, len(decoded)})
	}
	return pairs, decoded, true
}

// appendDecoded appends s decoded, or reports that its encoding is broken.
func appendDecoded(dst []byte, s string) ([]byte, bool) {
	for s != "" {
		broken := s[0] == '%'
		var c byte
		before := len(s)
		c, s = decodeByte(s)
		if broken && before-len(s) != 3 {
			return dst, false
		}
		dst = append(dst, c)
	}
	return dst, true
}
