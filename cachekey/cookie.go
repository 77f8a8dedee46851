package cachekey

import (
	"slices"
	"strings"
)

// cookie is one cookie of a Cookie line, as sent (RFC 6265 §4.2): values keep
// their quotes, nothing is decoded.
type cookie struct {
	name, value string
	bare        bool   // no "="; the whole is the name
	text        string // name and value as sent, without space around
}

// cookieAt returns the cookie that starts at the given byte and the start of the
// next one; there is none if that is beyond len(line). Two separators in a row
// have an empty text between them.
func cookieAt(line string, at int) (cookie, int) {
	end := len(line)
	if i := strings.IndexByte(line[at:], ';'); i >= 0 {
		end = at + i
	}
	text := trimSpace(line[at:end])
	c := cookie{name: text, bare: true, text: text}
	if i := strings.IndexByte(text, '='); i >= 0 {
		c.name, c.value, c.bare = trimSpace(text[:i]), trimSpace(text[i+1:]), false
	}
	return c, end + 1
}

// trimSpace trims spaces and tabs.
func trimSpace(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// appendCookies writes every keyed cookie, by name, each in the order sent.
func (s *Spec) appendCookies(dst []byte, lines []string) []byte {
	for _, name := range s.cookies {
		found := false
		for _, line := range lines {
			for at := 0; at <= len(line); {
				var c cookie
				c, at = cookieAt(line, at)
				switch {
				case c.name != name:
					continue
				case c.bare:
					dst = appendMark(dst, KindCookie, name, Bare)
				default:
					dst = appendNamed(dst, KindCookie, name, c.value)
				}
				found = true
			}
		}
		if !found {
			dst = appendMark(dst, KindCookie, name, Absent)
		}
	}
	return dst
}

func (s *Spec) keysCookie(name string) bool {
	_, ok := slices.BinarySearch(s.cookies, name)
	return ok
}
