package purge

import (
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"
)

// Selectors and stored responses meet by 64-bit numbers that differ between
// processes. Should two selectors share one, more is purged than asked for,
// never less.
var (
	seed  = maphash.MakeSeed()
	salt0 = maphash.String(seed, "purge 0")
	salt1 = maphash.String(seed, "purge 1")
)

// mix combines two numbers into one that isn't 0.
func mix(kind Kind, a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^salt0, b^salt1)
	hi, lo = bits.Mul64(hi^lo^salt1, (uint64(kind)+1)*0x9E3779B97F4A7C15)
	if id := hi ^ lo; id != 0 {
		return id
	}
	return 1
}

func child(kind Kind, parent uint64, s string) uint64 {
	return mix(kind, parent, maphash.String(seed, s))
}

var everythingID = mix(Everything, 0, 0)

func zoneID(zone string) uint64              { return child(Zone, 0, zone) }
func hostID(zone uint64, host string) uint64 { return child(Host, zone, host) }
func urlID(host uint64, path string) uint64  { return child(URL, host, path) }
func tagID(zone uint64, tag string) uint64   { return child(Tag, zone, tag) }
func anyTagID(zone uint64) uint64            { return mix(anyTag, zone, 0) }
func prefixID(host uint64, p string) uint64  { return child(Prefix, host, p) }
func lengthsID(host uint64, word int) uint64 { return mix(lengths, host, uint64(word)) }
func keyID(zone uint64, key *[32]byte) uint64 {
	return mix(Key, zone, maphash.Bytes(seed, key[:]))
}

// exactID doesn't depend on the order of the parameters: the key of a response
// may not either.
func exactID(url uint64, query string) uint64 {
	var sum uint64
	for query != "" {
		var p string
		if p, query, _ = strings.Cut(query, "&"); p != "" {
			sum += maphash.String(seed, p)
		}
	}
	return mix(ExactURL, url, sum)
}

// id returns the number of a canonical selector and that of its zone.
func (s *Selector) id() (id, zone uint64) {
	if s.Kind == Everything {
		return everythingID, 0
	}
	zone = zoneID(s.Zone)
	switch s.Kind {
	case Zone:
		return zone, zone
	case Tag:
		return tagID(zone, s.Tag), zone
	case Group:
		return groupPlace(s.Zone, s.Origin, s.Tag), zone
	case Key:
		return keyID(zone, &s.Key), zone
	}
	host := hostID(zone, s.Host)
	switch s.Kind {
	case URL:
		return urlID(host, s.Path), zone
	case ExactURL:
		return exactID(urlID(host, s.Path), s.Query), zone
	case Prefix:
		return prefixID(host, s.Path), zone
	}
	return host, zone
}

// canonicalHost lowers the case and drops what doesn't tell hosts apart: the
// ports 80 and 443, whose scheme isn't known here, an empty port and a final dot.
// It is idempotent.
func canonicalHost(host string) string {
	host = lowerASCII(host)
	for before := ""; before != host; {
		before = host
		host = strings.TrimSuffix(host, ":")
		host = strings.TrimSuffix(host, ":80")
		host = strings.TrimSuffix(host, ":443")
		host = strings.TrimSuffix(host, ".")
	}
	return host
}

// validHost refuses what can't be a host, to catch URLs and wildcards that would
// purge nothing.
func validHost(host string) bool {
	if host == "" || host[0] == ':' || len(host) > MaxHostBytes {
		return false
	}
	for i := range len(host) {
		if c := host[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("/?#@*\\\"<>%,", c) >= 0 {
			return false
		}
	}
	return true
}

// canonicalOrigin lowers scheme and host and drops the scheme's default port.
func canonicalOrigin(origin string) (string, bool) {
	scheme, host, ok := strings.Cut(lowerASCII(origin), "://")
	if !ok || scheme != "http" && scheme != "https" {
		return "", false
	}
	origin = originOf(scheme, host)
	return origin, validHost(origin[len(scheme)+len("://"):])
}

func originOf(scheme, host string) string {
	scheme, host = lowerASCII(scheme), lowerASCII(host)
	port := ":443"
	if scheme == "http" {
		port = ":80"
	}
	for before := ""; before != host; {
		before = host
		host = strings.TrimSuffix(strings.TrimSuffix(host, ":"), port)
	}
	return scheme + "://" + host
}

func lowerASCII(s string) string {
	for i := range len(s) {
		if c := s[i]; 'A' <= c && c <= 'Z' {
			lower := []byte(s)
			for j := i; j < len(lower); j++ {
				if c := lower[j]; 'A' <= c && c <= 'Z' {
					lower[j] = c + 'a' - 'A'
				}
			}
			return string(lower)
		}
	}
	return s
}

// escapeClass says what normalEscapes does with a byte.
var escapeClass = func() (table [256]struct{ unreserved, plain bool }) {
	for c := range len(table) {
		b := byte(c)
		letter := 'a' <= b|0x20 && b|0x20 <= 'z' || '0' <= b && b <= '9'
		table[c].unreserved = letter || strings.IndexByte("-._~", b) >= 0
		table[c].plain = table[c].unreserved || strings.IndexByte("!$&'()*+,;=:@/?[]", b) >= 0
	}
	return table
}()

// normalEscapes makes spellings equal that RFC 3986 §6.2.2 calls equivalent:
// unreserved characters aren't escaped, what must be escaped is, with capital
// digits. It is idempotent and allocates only if something changes.
func normalEscapes(s string) string {
	for i := range len(s) {
		if !escapeClass[s[i]].plain {
			return escapesFrom(s, i)
		}
	}
	return s
}

func escapesFrom(s string, i int) string {
	const digits = "0123456789ABCDEF"
	out := append(make([]byte, 0, len(s)+16), s[:i]...)
	for ; i < len(s); i++ {
		c := s[i]
		if c == '%' && i+2 < len(s) {
			high, ok1 := unhex(s[i+1])
			low, ok2 := unhex(s[i+2])
			if ok1 && ok2 {
				i += 2
				if c = high<<4 | low; escapeClass[c].unreserved {
					out = append(out, c)
				} else {
					out = append(out, '%', digits[high], digits[low])
				}
				continue
			}
		}
		if escapeClass[c].plain {
			out = append(out, c)
		} else {
			out = append(out, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(out)
}

// prefixOf returns what counts of a path with normal escapes where prefixes are
// compared. It has normal escapes too: none is cut in two.
func prefixOf(path string) string {
	n := min(len(path), MaxPrefixBytes)
	for i := max(0, n-2); i < n; i++ {
		if path[i] == '%' && len(path) > n {
			return path[:i]
		}
	}
	return path[:n]
}

func unhex(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}

// sortedQuery makes queries equal that differ in escapes or the parameters' order.
func sortedQuery(query string) string {
	params := strings.Split(normalEscapes(query), "&")
	params = slices.DeleteFunc(params, func(p string) bool { return p == "" })
	slices.Sort(params)
	return strings.Join(params, "&")
}
