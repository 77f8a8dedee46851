package purge

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind says what a [Selector] selects by. The zero Kind is invalid.
type Kind uint8

// The kinds of selectors, with the fields of [Selector] that each one uses.
// Those left out must be empty.
const (
	Everything Kind = iota + 1 // all that is stored, in all zones
	Zone                       // Zone: all of a zone
	Host                       // Zone, Host: all of a host
	URL                        // Zone, Host, Path: a path with any query
	ExactURL                   // Zone, Host, Path, Query: a path with this query
	Prefix                     // Zone, Host, Path: all paths that begin with these bytes
	Tag                        // Zone, Tag: all responses that carry the tag
	Group                      // Zone, Origin, Tag: the group of an origin (RFC 9875)
	Key                        // Zone, Key: the variants under a cache key
	kindEnd

	anyTag  // internal: the newest Tag or Group of a zone
	lengths // internal: the lengths of a host's prefixes
	kindMax
)

var kindNames = [kindEnd]string{
	Everything: "everything", Zone: "zone", Host: "host", URL: "url", ExactURL: "exact-url",
	Prefix: "prefix", Tag: "tag", Group: "group", Key: "key",
}

// String returns the kind's name in the JSON interface, such as "exact-url".
func (k Kind) String() string {
	if k == 0 || k >= kindEnd {
		return "?"
	}
	return kindNames[k]
}

// MarshalText implements [encoding.TextMarshaler] with the name of String.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. It accepts what String
// returns, in lower case only.
func (k *Kind) UnmarshalText(text []byte) error {
	for i := Everything; i < kindEnd; i++ {
		if kindNames[i] == string(text) {
			*k = i
			return nil
		}
	}
	return fmt.Errorf("purge: unknown kind %s: use one of %s", clip(string(text)),
		strings.Join(kindNames[1:], ", "))
}

// The bounds of a selector, in bytes.
const (
	MaxZoneBytes = 255  // of a zone's name
	MaxHostBytes = 255  // of a host with its port, and of an origin beside the scheme
	MaxURLBytes  = 8192 // of a path, and of a query, after escaping
	MaxTagBytes  = 1024 // of a tag or group

	// MaxPrefixBytes is how much of a path prefix counts: a longer one selects all
	// that begins with its first 256 bytes, or a few less so that no escape is cut in
	// two. It bounds what a check costs.
	MaxPrefixBytes = 256
)

// Selector says which stored responses a purge is about. The zone always has to
// match; "" is a zone like any other. Method, scheme and request headers never
// matter: a purge by URL finds all variants, those of POST or QUERY too.
//
// Hosts are compared without case, final dot and the ports 80 and 443. Paths and
// queries are compared in escaped form, in which escapes that don't matter (RFC
// 3986 §6.2.2) are made equal, and the order of query parameters doesn't count.
// Tags are compared byte for byte.
type Selector struct {
	Kind   Kind
	Zone   string
	Host   string
	Path   string // escaped, from "/" on, without query
	Query  string // raw, without "?"
	Origin string // scheme, host and port: https://example.com
	Tag    string
	Key    [32]byte
	// Soft makes what is selected stale instead of gone, so that it may still be
	// used where stale responses may, and be revalidated.
	Soft bool
}

// SelectorError says which of several selectors is wrong, and why.
type SelectorError struct {
	Index  int    // position in the call, from 0
	Field  string // in lower case, as in the JSON interface
	Reason string // what is wrong and what to write instead
}

// Error returns position, field and reason in one line.
func (e *SelectorError) Error() string {
	return fmt.Sprintf("purge: selector %d: %s: %s", e.Index, e.Field, e.Reason)
}

// String returns the selector as one line of printable ASCII for logs, with long
// values cut to 128 bytes: tag zone="shop" tag="news" soft.
func (s Selector) String() string {
	var b strings.Builder
	b.WriteString(s.Kind.String())
	put := func(name, value string) {
		b.WriteByte(' ')
		b.WriteString(name)
		b.WriteByte('=')
		b.WriteString(clip(value))
	}
	if s.Kind != Everything {
		put("zone", s.Zone)
	}
	for _, f := range [...]struct{ name, value string }{
		{"host", s.Host}, {"path", s.Path}, {"query", s.Query}, {"origin", s.Origin}, {"tag", s.Tag},
	} {
		if f.value != "" {
			put(f.name, f.value)
		}
	}
	if s.Kind == Key {
		fmt.Fprintf(&b, " key=%x", s.Key)
	}
	if s.Soft {
		b.WriteString(" soft")
	}
	return b.String()
}

// clip quotes a string for logs and messages, cut to 128 bytes.
func clip(s string) string {
	const most = 128
	if len(s) > most {
		return strconv.QuoteToASCII(s[:most]) + fmt.Sprintf("...(%d bytes)", len(s))
	}
	return strconv.QuoteToASCII(s)
}

// Canonical returns the form of s in which it is compared, or a *[SelectorError]
// with index 0. Canonical selectors are equal (==) only if they select the same.
func (s Selector) Canonical() (Selector, error) {
	if e := s.canonical(); e != nil {
		return Selector{}, e
	}
	return s, nil
}

// uses are the fields that a kind uses beside the zone.
var uses = [kindEnd]struct{ host, path, query, origin, tag, key bool }{
	Host:     {host: true},
	URL:      {host: true, path: true},
	ExactURL: {host: true, path: true, query: true},
	Prefix:   {host: true, path: true},
	Tag:      {tag: true},
	Group:    {origin: true, tag: true},
	Key:      {key: true},
}

func (s *Selector) canonical() *SelectorError {
	bad := func(field, reason string) *SelectorError { return &SelectorError{Field: field, Reason: reason} }
	if s.Kind == 0 || s.Kind >= kindEnd {
		return bad("kind", "unknown: use one of "+strings.Join(kindNames[1:], ", "))
	}
	use := uses[s.Kind]
	for _, f := range [...]struct {
		name       string
		used, full bool
	}{
		{"zone", s.Kind != Everything, s.Zone != ""},
		{"host", use.host, s.Host != ""},
		{"path", use.path, s.Path != ""},
		{"query", use.query, s.Query != ""},
		{"origin", use.origin, s.Origin != ""},
		{"tag", use.tag, s.Tag != ""},
		{"key", use.key, s.Key != [32]byte{}},
	} {
		if f.full && !f.used {
			return bad(f.name, "means nothing for "+s.Kind.String()+": leave it out or use another kind")
		}
		if f.used && !f.full && f.name != "zone" && f.name != "query" && (f.name != "tag" || s.Kind != Group) {
			return bad(f.name, "kind "+s.Kind.String()+" needs one")
		}
	}
	if field, reason := s.normalize(); reason != "" {
		return bad(field, reason)
	}
	return nil
}

// normalize brings the fields that are in use to their compared form.
func (s *Selector) normalize() (field, reason string) {
	var ok bool
	if len(s.Zone) > MaxZoneBytes || hasControl(s.Zone) {
		return "zone", "not a zone's name: it is longer than 255 bytes or has control characters"
	}
	if s.Host != "" {
		if s.Host = canonicalHost(s.Host); !validHost(s.Host) {
			return "host", "not a host: write example.com or example.com:8080, without scheme and path"
		}
	}
	if s.Path != "" {
		if s.Path[0] != '/' || strings.ContainsAny(s.Path, "?#") || hasControl(s.Path) {
			return "path", "not a path: it begins with / and has no ?, # or control characters"
		}
		if s.Kind == Prefix && strings.HasSuffix(s.Path, "*") {
			return "path", "a prefix is compared byte for byte: leave the * out"
		}
		if s.Path = normalEscapes(s.Path); len(s.Path) > MaxURLBytes {
			return "path", "longer than 8192 bytes: use a prefix or a key"
		}
		if s.Kind == Prefix && len(s.Path) > MaxPrefixBytes {
			// Without a * at its end, which would be taken for a wildcard the next time.
			s.Path = strings.TrimRight(prefixOf(s.Path), "*")
		}
	}
	if s.Query != "" {
		if strings.Contains(s.Query, "#") || hasControl(s.Query) {
			return "query", "not a query: it has # or control characters"
		}
		if s.Query = sortedQuery(s.Query); len(s.Query) > MaxURLBytes {
			return "query", "longer than 8192 bytes: use kind url, which covers any query"
		}
	}
	if s.Origin != "" {
		if s.Origin, ok = canonicalOrigin(s.Origin); !ok {
			return "origin", "not an origin: write https://example.com or http://example.com:8080"
		}
	}
	if len(s.Tag) > MaxTagBytes || hasControl(s.Tag) {
		return "tag", "not a tag: it is longer than 1024 bytes or has control characters"
	}
	return "", ""
}

func hasControl(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return true
		}
	}
	return false
}
