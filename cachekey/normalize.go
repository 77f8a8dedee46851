package cachekey

import (
	"strings"

	"github.com/weirhttp/weir/internal/field"
)

// Normalizer reduces the value of a request header field to the few values that
// make a difference, so that spellings don't split the cache. [AcceptEncoding],
// [AcceptLanguage] and [DeviceClass] return ready ones; an application can write
// its own. The zero Normalizer is refused by [New].
type Normalizer struct {
	// Value returns what is keyed instead of the field's lines; there are none if
	// the field is absent. It must depend on nothing but its argument, may be
	// called concurrently, must not keep or change the slice, and runs on each
	// lookup. Return few different values: each is a variant.
	Value func(lines []string) string
	// Send returns the field value that the request filling the cache carries for
	// a keyed value, so that the response is right for all who share it. Nil: the
	// keyed value itself. An empty result removes the field.
	Send func(value string) string

	only    string // the field it is made for, in lower case; empty: any
	invalid *ConfigError
}

// sent returns what the fill carries for a keyed value.
func (n *Normalizer) sent(value string) string {
	if n.Send == nil {
		return value
	}
	return n.Send(value)
}

func invalidNormalizer(value any, reason string) Normalizer {
	return Normalizer{invalid: &ConfigError{Value: value, Reason: reason}}
}

// element is one member of an Accept-like list.
type element struct {
	name    string // as sent
	quality int    // weight in thousandths; 0 means not acceptable
}

// elementAt reads the list member (RFC 9110 §5.6.1) that starts at the given byte
// and the start of the next one; there is none if that is beyond len(line). A
// malformed weight counts as zero: what can't be read isn't wanted.
func elementAt(line string, at int) (element, int) {
	end := len(line)
	if i := strings.IndexByte(line[at:], ','); i >= 0 {
		end = at + i
	}
	name, params, _ := strings.Cut(line[at:end], ";")
	e := element{name: field.TrimOWS(name), quality: 1000}
	for params != "" {
		var param string
		param, params, _ = strings.Cut(params, ";")
		key, value, _ := strings.Cut(param, "=")
		if key = field.TrimOWS(key); key == "q" || key == "Q" {
			e.quality = weight(field.TrimOWS(value))
		}
	}
	return e, end + 1
}

// weight reads a qvalue (RFC 9110 §12.4.2) in thousandths.
func weight(s string) int {
	if s == "" || len(s) > 5 || s[0] != '0' && s[0] != '1' || len(s) > 1 && s[1] != '.' {
		return 0
	}
	w := 1000 * int(s[0]-'0')
	for i, unit := 2, 100; i < len(s); i, unit = i+1, unit/10 {
		if s[i] < '0' || s[i] > '9' {
			return 0
		}
		w += unit * int(s[i]-'0')
	}
	if w > 1000 {
		return 0
	}
	return w
}
