package cachekey

import (
	"slices"
	"strings"
)

// queryRule is Options.Query and what belongs to it, resolved.
type queryRule struct {
	mode      QueryMode
	names     nameSet
	keepOrder bool
	bypass    bool // OnUnknown: Bypass
	stays     bool // the fill carries what the key leaves out
}

// verdict says what becomes of one parameter.
type verdict uint8

const (
	keyed          verdict = iota
	keyedAmbiguous         // would be left out, but an origin may read it differently
	leftExcluded
	leftUnlisted
	leftAll
	leftEmpty // nothing between two "&"
	unknown
)

func (v verdict) kept() bool { return v <= keyedAmbiguous }

// judge decides on one parameter, given as sent and its name.
func (q *queryRule) judge(pair, name string) verdict {
	switch {
	case q.mode == QueryAll:
		return keyed
	case q.mode == QueryNone:
		return leftAll
	case q.names.has(name) != (q.mode == QueryExclude):
		return keyed
	case q.mode == QueryExclude:
		// An origin that separates at ";" sees other parameters in this one.
		if strings.IndexByte(pair, ';') >= 0 {
			return keyedAmbiguous
		}
		return leftExcluded
	}
	switch {
	case pair == "":
		return leftEmpty
	case q.bypass:
		return unknown
	case strings.IndexByte(pair, ';') >= 0,
		q.stays && strings.ContainsAny(name, "%+"):
		return keyedAmbiguous
	}
	return leftUnlisted
}

// param is a parameter's place in the query: name from start to eq, value from
// eq+1 to end. Without "=", eq is end.
type param struct {
	start, eq, end int
}

func (p param) name(query string) string { return query[p.start:p.eq] }
func (p param) pair(query string) string { return query[p.start:p.end] }

// paramAt returns the parameter that starts at the given byte. The next one
// starts at end+1; there is none if that is beyond len(query). An empty query has
// one parameter, an empty one.
func paramAt(query string, at int) param {
	end := len(query)
	if i := strings.IndexByte(query[at:], '&'); i >= 0 {
		end = at + i
	}
	eq := end
	if i := strings.IndexByte(query[at:end], '='); i >= 0 {
		eq = at + i
	}
	return param{at, eq, end}
}

func appendParam(dst []byte, query string, p param) []byte {
	dst = append(dst, 'q', ':')
	dst = appendCounted(dst, query[p.start:p.eq])
	if p.eq == p.end {
		return append(dst, ':', '!', ' ')
	}
	dst = append(dst, ':')
	dst = appendCounted(dst, query[p.eq+1:p.end])
	return append(dst, ' ')
}

// appendTo writes the keyed parameters, sorted by name if that can't change what
// they mean.
func (q *queryRule) appendTo(dst []byte, query string, force bool) ([]byte, Problem) {
	if q.mode == QueryNone || query == "" && !force {
		return dst, NoProblem
	}
	if q.keepOrder {
		return q.appendAsSent(dst, query)
	}
	var small [fewParams]param
	list, found := q.collect(small[:0], query)
	if found.semicolon || found.repeated || !sortParams(query, list, found.encoded) {
		return q.appendAsSent(dst, query)
	}
	for _, p := range list {
		dst = appendParam(dst, query, p)
	}
	return dst, found.problem
}

func (q *queryRule) appendAsSent(dst []byte, query string) ([]byte, Problem) {
	problem := NoProblem
	for at := 0; at <= len(query); {
		p := paramAt(query, at)
		switch v := q.judge(p.pair(query), p.name(query)); {
		case v == unknown:
			problem = UnknownParameter
		case v.kept():
			dst = appendParam(dst, query, p)
		}
		at = p.end + 1
	}
	return dst, problem
}

// fewParams is the number of parameters that are sorted without an allocation.
const fewParams = 16

// findings is what collect saw on the way.
type findings struct {
	problem   Problem
	semicolon bool // anywhere in the query
	encoded   bool // "%" or "+" in a name
	repeated  bool // two neighbours of one name; collect stops there
}

// collect appends the places of the keyed parameters in the order sent. It looks
// at each byte once, which beats searching for each separator: parameters are
// short.
func (q *queryRule) collect(list []param, query string) ([]param, findings) {
	var found findings
	p := param{eq: -1}
	for i := 0; ; i++ {
		c := byte('&')
		if i < len(query) {
			c = query[i]
		}
		switch {
		case c > '=' || c < '%':
			continue
		case c == '&':
		case c == '=' && p.eq < 0:
			p.eq = i
			continue
		default:
			found.semicolon = found.semicolon || c == ';'
			found.encoded = found.encoded || p.eq < 0 && (c == '%' || c == '+')
			continue
		}
		if p.end = i; p.eq < 0 {
			p.eq = i
		}
		v := keyed
		if q.mode != QueryAll {
			v = q.judge(p.pair(query), p.name(query))
		}
		switch {
		case v == unknown:
			found.problem = UnknownParameter
		case v.kept():
			if n := len(list); n > 0 && list[n-1].name(query) == p.name(query) {
				found.repeated = true
				return list, found
			}
			if len(list) == cap(list) {
				// One allocation for all that may still come.
				list = slices.Grow(list, strings.Count(query[p.start:], "&")+1)
			}
			list = append(list, p)
		}
		if i >= len(query) {
			return list, found
		}
		p = param{start: i + 1, eq: -1}
	}
}

// sortParams sorts by name, or reports false and leaves some order if a name comes
// twice.
func sortParams(query string, list []param, encoded bool) bool {
	if len(list) > fewParams {
		slices.SortFunc(list, func(a, b param) int {
			return compareNames(a.name(query), b.name(query), encoded)
		})
		for i := 1; i < len(list); i++ {
			if compareNames(list[i-1].name(query), list[i].name(query), encoded) == 0 {
				return false
			}
		}
		return true
	}
	// A query is often in order already; the insertion sort then only looks.
	for i := 1; i < len(list); i++ {
		p, j := list[i], i
		name := p.name(query)
		for ; j > 0; j-- {
			c := compareNames(name, list[j-1].name(query), encoded)
			if c == 0 {
				return false
			}
			if c > 0 {
				break
			}
			list[j] = list[j-1]
		}
		if j < i {
			list[j] = p
		}
	}
	return true
}

// compareNames compares parameter names, decoded if asked: "a" and "%61" are one
// name to most origins, so their order among each other counts.
func compareNames(a, b string, decode bool) int {
	if !decode {
		if a != "" && b != "" && a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		return strings.Compare(a, b)
	}
	for a != "" && b != "" {
		var x, y byte
		x, a = decodeByte(a)
		y, b = decodeByte(b)
		if x != y {
			return int(x) - int(y)
		}
	}
	return len(a) - len(b)
}

// decodeByte returns the first byte of a non-empty name, decoded, and the rest.
func decodeByte(s string) (byte, string) {
	switch {
	case s[0] == '+':
		return ' ', s[1:]
	case s[0] == '%' && len(s) > 2:
		high, ok1 := unhex(s[1])
		low, ok2 := unhex(s[2])
		if ok1 && ok2 {
			return high<<4 | low, s[3:]
		}
	}
	return s[0], s[1:]
}

// nameSet is a set of parameter names. Most names that aren't in it are told by
// length and first byte, without hashing them.
type nameSet struct {
	names   map[string]struct{}
	lengths uint64
	firsts  [4]uint64
}

func newNameSet(names []string) nameSet {
	set := nameSet{names: make(map[string]struct{}, len(names))}
	for _, name := range names {
		if name == "" {
			continue
		}
		set.names[name] = struct{}{}
		set.lengths |= 1 << min(len(name), 63)
		set.firsts[name[0]>>6] |= 1 << (name[0] & 63)
	}
	return set
}

func (set *nameSet) has(name string) bool {
	if set.lengths&(1<<min(len(name), 63)) == 0 || name == "" ||
		set.firsts[name[0]>>6]&(1<<(name[0]&63)) == 0 {
		return false
	}
	_, ok := set.names[name]
	return ok
}
