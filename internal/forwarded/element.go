package forwarded

import (
	"strings"

	"github.com/weirhttp/weir/internal/field"
)

// Element is what one proxy says in Forwarded (RFC 7239 §4), with quotes undone.
// What it doesn't say is empty.
type Element struct{ For, By, Host, Proto string }

// Parse reads one element. It fails if that isn't well-formed or names a parameter
// twice. Parameters that aren't known are left out.
func Parse(s string) (Element, bool) {
	var e Element
	seen := 0
	for s != "" {
		var pair string
		pair, s = cutPair(s)
		if pair = field.TrimOWS(pair); pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		if !ok || !field.IsToken(name) {
			return Element{}, false
		}
		if !field.IsToken(value) && !bareNode(value) {
			if value, ok = field.Unquote(value); !ok {
				return Element{}, false
			}
		}
		to, bit := e.parameter(name)
		if seen&bit != 0 {
			return Element{}, false
		}
		seen |= bit
		if to != nil {
			*to = value
		}
	}
	return e, true
}

// parameter returns where the value of a parameter goes, and its mark.
func (e *Element) parameter(name string) (*string, int) {
	switch {
	case field.EqualFold(name, "for"):
		return &e.For, 1
	case field.EqualFold(name, "by"):
		return &e.By, 2
	case field.EqualFold(name, "host"):
		return &e.Host, 4
	case field.EqualFold(name, "proto"):
		return &e.Proto, 8
	}
	return nil, 0
}

// bareNode reports whether s is a token but for colons and brackets, which must be
// quoted and often aren't.
func bareNode(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c != ':' && c != '[' && c != ']' && !field.IsToken(s[i:i+1]) {
			return false
		}
	}
	return s != ""
}

// cutPair returns what comes before the first semicolon that isn't quoted, and
// what follows it.
func cutPair(s string) (pair, rest string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ';' && !quoted:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// cutLastElement returns the last element of a Forwarded line and what is before
// its comma. It reads from the right, so that a quote which isn't closed, somewhere
// in what a client sent, can't swallow what a proxy appended. It fails if the
// element is too long or its quotes don't match.
func cutLastElement(s string) (rest, last string, ok bool) {
	quoted := false
	for i := len(s) - 1; i >= 0; i-- {
		if len(s)-i > maxElement+1 {
			return "", "", false
		}
		switch {
		case s[i] == '"' && quoted && escaped(s[:i]):
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ',' && !quoted:
			return s[:i], s[i+1:], true
		}
	}
	return "", s, !quoted
}

// escaped reports whether what follows s is the second byte of a quoted pair, given
// that it is inside a quoted string.
func escaped(s string) bool {
	n := 0
	for n < len(s) && s[len(s)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}
