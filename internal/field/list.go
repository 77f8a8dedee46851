package field

import "iter"

// Members yields the members of a comma-separated list spread over field lines
// (RFC 9110 §5.3, §5.6.1), in order and without the whitespace around them.
// Empty members are skipped. Commas inside quoted strings don't separate.
//
// A quoted string never goes on in the next line. One that isn't closed makes
// its comma-separated pieces members of their own, so that a stray quote can't
// hide what follows it; [WellQuoted] tells such lines apart.
func Members(lines []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, line := range lines {
			for line != "" {
				var m string
				m, line = Cut(line)
				if m != "" && !yield(m) {
					return
				}
			}
		}
	}
}

// Cut returns the first member of a comma-separated list, trimmed, and what
// follows its comma. The member is empty where the list has nothing between
// two commas.
func Cut(line string) (member, rest string) {
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ',':
			return TrimOWS(line[:i]), line[i+1:]
		case '"':
			if end := quotedEnd(line[i:]); end > 0 {
				i += end - 1
			}
		}
	}
	return TrimOWS(line), ""
}

// quotedEnd returns the length of the quoted string that s starts with, or 0
// if it isn't closed.
func quotedEnd(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return 0
}

// WellQuoted reports whether every quote in a line belongs to a quoted string
// that is closed, starts a value (right after "=" or at the start of a member)
// and ends one. In a line where that isn't so, nobody can tell what was meant
// to be quoted.
func WellQuoted(line string) bool {
	start := true // at the start of a member or value
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '"':
			end := quotedEnd(line[i:])
			if !start || end == 0 {
				return false
			}
			i += end
			for i < len(line) && isOWS(line[i]) {
				i++
			}
			if i < len(line) && line[i] != ',' && line[i] != ';' {
				return false
			}
			start = true
		case c == ',' || c == '=' || c == ';':
			start = true
		case !isOWS(c):
			start = false
		}
	}
	return true
}

// Join writes members as one list value that [Members] takes apart again.
// Members must not be empty, have no whitespace around them, and hold commas
// only inside quoted strings.
func Join(members []string) string {
	n := 0
	for _, m := range members {
		n += len(m) + 2
	}
	b := make([]byte, 0, n)
	for i, m := range members {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, m...)
	}
	return string(b)
}
