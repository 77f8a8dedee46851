package cachekey

import (
	"net/http"
	"slices"
	"strings"

	"github.com/zeebo/blake3"
)

// variantDomain precedes what WithVary hashes. No key text starts with it, since
// those start with a label and a colon, so that no variant's key is ever that of a
// primary text.
const variantDomain = "weir variant\n"

// WithVary returns the key of the variant of a primary key that answers requests
// with these values in the selecting header fields (RFC 9111 §4.1). It differs
// from every primary key, also without names. Names are those of Vary, in lower
// case and sorted; other forms work, but cost an allocation. A Vary of "*" must be
// refused by the caller.
func (s *Spec) WithVary(primary Key, names []string, h http.Header) Key {
	var buf [textBuffer]byte
	text := append(buf[:0], variantDomain...)
	text = append(text, primary[:]...)
	text = s.AppendSelecting(text, names, h)
	return blake3.Sum256(text)
}

// AppendSelecting appends the canonical text of the selecting header fields, in
// the form that [Parse] reads, each normalised if [Options.Normalize] says so.
// Equal texts mean that a stored response matches (RFC 9111 §4.1). With
// [Options.DropOtherCookies], "cookie" is always the same: the cookies that count
// are in the primary key, the others never reach the origin.
func (s *Spec) AppendSelecting(dst []byte, names []string, h http.Header) []byte {
	if !canonicalNames(names) {
		names = canonicaliseNames(names)
	}
	start := len(dst)
	for _, name := range names {
		if s.dropOtherCookies && name == "cookie" {
			dst = appendMark(dst, KindSelecting, name, Absent)
			continue
		}
		rule := headerRule{lower: name}
		for i := range s.normalize {
			if s.normalize[i].lower == name {
				rule = s.normalize[i]
			}
		}
		lines := fieldLines(h, name)
		if s.lists && rule.norm.Value == nil && len(lines) > 0 {
			dst = rule.appendList(dst, KindSelecting, lines)
			continue
		}
		dst = rule.appendTo(dst, KindSelecting, lines)
	}
	if len(dst) > start {
		dst = trimLast(dst)
	}
	return dst
}

// appendTo writes the lines of a field, or its one normalised value.
func (rule *headerRule) appendTo(dst []byte, kind Kind, lines []string) []byte {
	if rule.norm.Value != nil {
		return appendNamed(dst, kind, rule.lower, rule.norm.Value(lines))
	}
	if len(lines) == 0 {
		return appendMark(dst, kind, rule.lower, Absent)
	}
	for _, line := range lines {
		dst = appendNamed(dst, kind, rule.lower, line)
	}
	return dst
}

// fieldLines looks a lower-case name up in a header. Unlike h.Values it doesn't
// allocate for names that net/http doesn't know.
func fieldLines(h http.Header, lower string) []string {
	var buf [64]byte
	if len(lower) > len(buf) || !isToken(lower) {
		return h[http.CanonicalHeaderKey(lower)]
	}
	name := append(buf[:0], lower...)
	upper := true
	for i, c := range name {
		if upper && 'a' <= c && c <= 'z' {
			name[i] = c - ('a' - 'A')
		}
		upper = c == '-'
	}
	return h[string(name)]
}

// canonicalNames reports whether names are in lower case, sorted and unique.
func canonicalNames(names []string) bool {
	for i, name := range names {
		if i > 0 && names[i-1] >= name {
			return false
		}
		for j := range len(name) {
			if lowerByte(name[j]) != name[j] {
				return false
			}
		}
	}
	return true
}

func canonicaliseNames(names []string) []string {
	lower := make([]string, len(names))
	for i, name := range names {
		lower[i] = lowerASCII(strings.TrimSpace(name))
	}
	slices.Sort(lower)
	return slices.Compact(lower)
}

// isToken reports whether s is a field name (RFC 9110 §5.1).
func isToken(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		c := lowerByte(s[i])
		if ('a' > c || c > 'z') && ('0' > c || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return true
}
