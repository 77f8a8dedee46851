package rfc9110

import "github.com/weirhttp/weir/internal/field"

// ETag is an entity tag (RFC 9110 §8.8.3).
type ETag struct {
	Weak   bool
	Opaque string // without the quotes
}

// ParseETag reads exactly one entity tag: W/ in this case only, and no escapes
// in the quotes.
func ParseETag(s string) (ETag, bool) {
	t, rest, ok := cutETag(s)
	return t, ok && rest == ""
}

// cutETag reads the entity tag that s starts with.
func cutETag(s string) (t ETag, rest string, ok bool) {
	if len(s) > 2 && s[0] == 'W' && s[1] == '/' {
		t.Weak = true
		s = s[2:]
	}
	if s == "" || s[0] != '"' {
		return ETag{}, s, false
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			t.Opaque = s[1:i]
			return t, s[i+1:], true
		case c <= ' ' || c == 0x7f:
			return ETag{}, s, false
		}
	}
	return ETag{}, s, false
}

// String writes the tag as in a field.
func (t ETag) String() string {
	if t.Weak {
		return `W/"` + t.Opaque + `"`
	}
	return `"` + t.Opaque + `"`
}

// StrongMatch reports whether both tags are strong and the same (§8.8.3.2).
func (t ETag) StrongMatch(u ETag) bool { return !t.Weak && !u.Weak && t.Opaque == u.Opaque }

// WeakMatch reports whether both tags are the same but for W/ (§8.8.3.2).
func (t ETag) WeakMatch(u ETag) bool { return t.Opaque == u.Opaque }

// SameETag reports whether two ETag values speak of the same representation: if
// the second is strong they must match strongly, else weakly. Values that are no
// entity tags are the same if they are equal letter for letter.
func SameETag(stored, received string) bool {
	s, okS := ParseETag(stored)
	r, okR := ParseETag(received)
	if !okS || !okR {
		return stored == received && stored != ""
	}
	if !r.Weak {
		return s.StrongMatch(r)
	}
	return s.WeakMatch(r)
}

// matchETags reports whether a list of entity tags, as in If-None-Match, has one
// that matches a stored ETag value, or is "*". A list that can't be read to its
// end counts as far as it can be read. Members without quotes match only a
// stored value written just like that, and never strongly.
func matchETags(lines []string, stored string, strong bool) bool {
	have, ok := ParseETag(stored)
	for _, line := range lines {
		for line = trimList(line); line != ""; line = trimList(line) {
			if line[0] == '*' {
				// "*" stands alone; inside a list it means nothing.
				return len(lines) == 1 && trimList(lines[0]) == "*"
			}
			t, rest, isTag := cutETag(line)
			if !isTag {
				bare, rest := field.Cut(line)
				if !strong && !ok && bare != "" && bare == stored {
					return true
				}
				line = rest
				continue
			}
			if ok && (strong && t.StrongMatch(have) || !strong && t.WeakMatch(have)) {
				return true
			}
			line = rest
		}
	}
	return false
}

// trimList returns s without the blanks and commas before its next member and
// the blanks at its end.
func trimList(s string) string {
	s = field.TrimOWS(s)
	for s != "" && (s[0] == ',' || s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	return s
}
