package field

import (
	"iter"
	"strings"
)

// Cookie is one cookie of a Cookie line, as sent (RFC 6265 §4.2): values keep
// their quotes, nothing is decoded.
type Cookie struct {
	Name, Value string
	Bare        bool   // no "="; the whole is the name
	Text        string // name and value as sent, without space around
}

// Cookies yields what stands between the separators of Cookie lines, in order:
// where that is nothing, a cookie whose Text is empty. Space around a name isn't
// part of it, as for applications (RFC 6265 §5.2): who reads the field another
// way overlooks a cookie that the application sees.
func Cookies(lines []string) iter.Seq[Cookie] {
	return func(yield func(Cookie) bool) {
		for _, line := range lines {
			for rest := true; rest; {
				var text string
				text, line, rest = strings.Cut(line, ";")
				if !yield(readCookie(TrimOWS(text))) {
					return
				}
			}
		}
	}
}

func readCookie(text string) Cookie {
	name, value, ok := strings.Cut(text, "=")
	return Cookie{Name: TrimOWS(name), Value: TrimOWS(value), Bare: !ok, Text: text}
}
