package field

import "strings"

// Unquote returns the content of a quoted string, its quoted pairs resolved
// (RFC 9110 §5.6.4). It reports false if s isn't exactly one quoted string or
// holds a control character.
func Unquote(s string) (string, bool) {
	if len(s) < 2 || s[0] != '"' || quotedEnd(s) != len(s) {
		return "", false
	}
	s = s[1 : len(s)-1]
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' && s[i] != '\t' || s[i] == 0x7f {
			return "", false
		}
	}
	if strings.IndexByte(s, '\\') < 0 {
		return s, true
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
		}
		b = append(b, s[i])
	}
	return string(b), true
}

// Quote writes s as a quoted string. It reports false if s holds a control
// character other than a tab, which no quoted string can carry.
func Quote(s string) (string, bool) {
	b := make([]byte, 0, len(s)+2)
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c < ' ' && c != '\t' || c == 0x7f:
			return "", false
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"')), true
}

// Argument splits a list member into name and argument at its first "=". The
// argument is returned as written, quotes included. hasArg tells "name" from
// "name=". Whitespace around "=" stays in the parts, where no token or quoted
// string may have it.
func Argument(member string) (name, arg string, hasArg bool) {
	return strings.Cut(member, "=")
}

// Parameter returns the value of the first parameter called name in a value
// such as `text/html; charset="utf-8"` (RFC 9110 §5.6.6). Names are compared
// without regard to case. A value that is neither token nor quoted string is
// skipped.
func Parameter(value, name string) (string, bool) {
	_, rest := CutParameters(value)
	for rest != "" {
		var p string
		p, rest = cutSemicolon(rest)
		k, v, ok := Argument(TrimOWS(p))
		if !ok || !EqualFold(k, name) {
			continue
		}
		if IsToken(v) {
			return v, true
		}
		if u, ok := Unquote(v); ok {
			return u, true
		}
	}
	return "", false
}

// CutParameters splits a value from its parameters at the first semicolon.
func CutParameters(value string) (item, parameters string) {
	item, parameters, _ = strings.Cut(value, ";")
	return TrimOWS(item), parameters
}

func cutSemicolon(s string) (head, rest string) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ';':
			return s[:i], s[i+1:]
		case '"':
			if end := quotedEnd(s[i:]); end > 0 {
				i += end - 1
			}
		}
	}
	return s, ""
}
