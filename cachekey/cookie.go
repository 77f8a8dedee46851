package cachekey

import (
	"slices"

	"github.com/weirhttp/weir/internal/field"
)

// appendCookies writes every keyed cookie, by name, each in the order sent.
func (s *Spec) appendCookies(dst []byte, lines []string) []byte {
	for _, name := range s.cookies {
		found := false
		for c := range field.Cookies(lines) {
			switch {
			case c.Name != name:
				continue
			case c.Bare:
				dst = appendMark(dst, KindCookie, name, Bare)
			default:
				dst = appendNamed(dst, KindCookie, name, c.Value)
			}
			found = true
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
