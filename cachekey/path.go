package cachekey

import "net/url"

// pathBytes says what url.URL.EscapedPath does with each byte.
var pathBytes = func() (table [256]struct{ plain, valid bool }) {
	for c := range len(table) {
		s := "/" + string([]byte{byte(c)})
		u := url.URL{Path: s}
		table[c].plain = u.EscapedPath() == s
		table[c].valid = table[c].plain
	}
	// Accepted in a RawPath, although EscapedPath would escape some of them.
	for _, c := range []byte("!$&'()*+,;=:@[]%") {
		table[c].valid = true
	}
	return table
}()

// appendPath writes what u.EscapedPath returns, or "/" for nothing, without
// allocating.
func appendPath(dst []byte, u *url.URL) []byte {
	if u.RawPath != "" && encodes(u.RawPath, u.Path) {
		return appendSingle(dst, KindPath, u.RawPath)
	}
	if u.Path == "" {
		return appendSingle(dst, KindPath, "/") // the same resource (RFC 9110 §4.2.3)
	}
	escapes := 0
	for i := range len(u.Path) {
		if !pathBytes[u.Path[i]].plain {
			escapes++
		}
	}
	if escapes == 0 || u.Path == "*" {
		return appendSingle(dst, KindPath, u.Path)
	}
	const digits = "0123456789ABCDEF"
	dst = appendLabel(dst, KindPath)
	dst = appendLength(dst, len(u.Path)+2*escapes)
	for i := range len(u.Path) {
		if c := u.Path[i]; pathBytes[c].plain {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		}
	}
	return append(dst, ' ')
}

// encodes reports whether raw is a valid encoding of path.
func encodes(raw, path string) bool {
	j := 0
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if !pathBytes[c].valid || j == len(path) {
			return false
		}
		if c == '%' {
			if i+2 >= len(raw) {
				return false
			}
			high, ok1 := unhex(raw[i+1])
			low, ok2 := unhex(raw[i+2])
			if !ok1 || !ok2 {
				return false
			}
			c = high<<4 | low
			i += 2
		}
		if c != path[j] {
			return false
		}
		j++
	}
	return j == len(path)
}

func unhex(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
