package rfc9111

import (
	"net/http"
	"strings"
	"time"

	"github.com/weirhttp/weir/internal/field"
)

// Directives are the cache directives of a response (RFC 9111 §5.2.2, RFC 5861,
// RFC 8246), read as strictly as they can be: of repeated ones the least
// permissive counts, and a lifetime that can't be read is zero.
type Directives struct {
	// Targeted says that they come from a targeted field (RFC 9213). Then
	// Cache-Control and Expires don't count.
	Targeted bool

	NoStore         bool
	NoCache         bool // without field names, or with names that can't be left out
	Private         bool // likewise
	Public          bool
	MustRevalidate  bool
	ProxyRevalidate bool
	MustUnderstand  bool
	NoTransform     bool
	Immutable       bool

	HasMaxAge, HasSMaxAge                    bool
	MaxAge, SMaxAge                          time.Duration
	HasStaleWhileRevalidate, HasStaleIfError bool
	StaleWhileRevalidate, StaleIfError       time.Duration

	// NoCacheFields and PrivateFields are the fields named by the qualified
	// forms (§5.2.2.4, §5.2.2.7), in canonical form. They must not be stored.
	NoCacheFields, PrivateFields []string
}

// ParseResponse reads the cache directives of a response: from the first of
// the targeted fields that is valid and not empty (RFC 9213 §2.2), else from
// Cache-Control. targets are canonical field names. All field lines count, in
// any case.
func ParseResponse(h http.Header, targets []string) Directives {
	for _, name := range targets {
		lines := h[name]
		if len(lines) == 0 {
			continue
		}
		// A malformed field counts as absent (RFC 9213 §2.1).
		if members, ok := field.ParseDictionary(lines); ok && len(members) > 0 {
			return targeted(members)
		}
	}
	var d Directives
	for _, line := range h["Cache-Control"] {
		// Where quotes don't fit, nobody can tell what was meant to be
		// quoted: every piece may restrict and none may permit.
		grants := field.WellQuoted(line)
		for line != "" {
			var m string
			m, line = field.Cut(line)
			if m != "" {
				d.add(m, grants)
			}
		}
	}
	return d
}

// add takes one member of Cache-Control. Without grants it can only restrict.
func (d *Directives) add(member string, grants bool) {
	name, arg, hasArg := field.Argument(member)
	value, quoted := field.Unquote(arg)
	if !quoted {
		value = arg
	}
	if !grants || !field.IsToken(name) || hasArg && !quoted && !field.IsToken(arg) {
		// Such as "max-age =1" or "no-store; max-age=1".
		for _, piece := range strings.FieldsFunc(member, notInToken) {
			piece, _, _ = field.Argument(piece)
			d.restrictOnly(field.Lower(piece))
		}
		return
	}
	switch name = field.Lower(name); name {
	case "no-cache", "private":
		var names []string
		if quoted {
			names = fieldNames(value)
		}
		d.limit(name, names)
	case "max-age", "s-maxage", "stale-while-revalidate", "stale-if-error":
		seconds, _ := field.Seconds(value) // recipients accept both forms (§5.2)
		d.duration(name, seconds)
	default:
		d.flag(name)
	}
}

func notInToken(r rune) bool {
	return r != '=' && (r > '~' || !field.IsToken(string(r)))
}

// restrictOnly sets a directive as far as it permits nothing.
func (d *Directives) restrictOnly(name string) {
	switch name {
	case "no-cache", "private":
		d.limit(name, nil)
	case "max-age", "s-maxage", "stale-while-revalidate", "stale-if-error":
		d.duration(name, 0)
	case "public", "immutable", "must-understand":
	default:
		d.flag(name)
	}
}

// targeted reads the members of a targeted field. Values of the wrong type are
// not used (RFC 9213 §2.1); they then restrict, as in Cache-Control.
func targeted(members []field.Member) Directives {
	d := Directives{Targeted: true}
	for _, m := range members {
		switch m.Key {
		case "no-cache", "private":
			var names []string
			if m.Value.Kind == field.String {
				names = fieldNames(m.Value.Text)
			}
			d.limit(m.Key, names)
		case "public", "immutable", "must-understand":
			if m.Value.Kind == field.Boolean && m.Value.Bool {
				d.flag(m.Key)
			}
		case "max-age", "s-maxage", "stale-while-revalidate", "stale-if-error":
			seconds := time.Duration(0)
			if m.Value.Kind == field.Integer {
				seconds = time.Duration(max(0, min(m.Value.Int, field.MaxSeconds))) * time.Second
			}
			d.duration(m.Key, seconds)
		default:
			d.flag(m.Key)
		}
	}
	return d
}

// flag sets a directive that has no argument. An argument doesn't unset it.
func (d *Directives) flag(name string) {
	switch name {
	case "no-store":
		d.NoStore = true
	case "public":
		d.Public = true
	case "must-revalidate":
		d.MustRevalidate = true
	case "proxy-revalidate":
		d.ProxyRevalidate = true
	case "must-understand":
		d.MustUnderstand = true
	case "no-transform":
		d.NoTransform = true
	case "immutable":
		d.Immutable = true
	}
}

// limit sets no-cache or private: for the named fields, or as a whole if there
// are none.
func (d *Directives) limit(name string, names []string) {
	switch {
	case name == "no-cache" && names != nil:
		d.NoCacheFields = append(d.NoCacheFields, names...)
	case name == "no-cache":
		d.NoCache = true
	case names != nil:
		d.PrivateFields = append(d.PrivateFields, names...)
	default:
		d.Private = true
	}
}

// duration sets a directive in seconds, or lowers it.
func (d *Directives) duration(name string, v time.Duration) {
	has, at := &d.HasMaxAge, &d.MaxAge
	switch name {
	case "s-maxage":
		has, at = &d.HasSMaxAge, &d.SMaxAge
	case "stale-while-revalidate":
		has, at = &d.HasStaleWhileRevalidate, &d.StaleWhileRevalidate
	case "stale-if-error":
		has, at = &d.HasStaleIfError, &d.StaleIfError
	}
	if *has {
		v = min(v, *at)
	}
	*has, *at = true, v
}

// fieldNames reads the argument of a qualified no-cache or private. It returns
// nil if that isn't a list of names ("*" is a token, but nobody's), or names a field that a stored response
// can't do without: then the directive counts as unqualified.
func fieldNames(arg string) []string {
	var names []string
	for m := range field.Members([]string{arg}) {
		name := http.CanonicalHeaderKey(m)
		if !field.IsToken(m) || strings.Contains(m, "*") || indispensable[name] {
			return nil
		}
		names = append(names, name)
	}
	return names
}

// indispensable are the fields without which a stored body would be misread, or
// the stored response be handed to others than it is meant for, or for longer.
var indispensable = map[string]bool{
	"Age":                       true,
	"Cache-Control":             true,
	"Content-Encoding":          true,
	"Content-Length":            true,
	"Content-Range":             true,
	"Content-Type":              true,
	"Date":                      true,
	"Expires":                   true,
	"Vary":                      true,
	"Content-Security-Policy":   true,
	"Content-Disposition":       true,
	"X-Content-Type-Options":    true,
	"Strict-Transport-Security": true,
}
