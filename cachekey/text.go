package cachekey

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind says what an ingredient is. The zero Kind is invalid.
type Kind uint8

// The kinds in the order in which a key text has them.
const (
	KindZone      Kind = iota + 1 // zone: the operator's name for a set of sites
	KindScheme                    // scheme: http or https
	KindHost                      // host: lower-case, without default port
	KindTarget                    // target: scheme and authority of an absolute-form target that contradict the above
	KindMethod                    // method: GET stands for GET and HEAD
	KindPath                      // path: as sent
	KindOpaque                    // opaque: a target without a path; never keyable
	KindQuery                     // q: a query parameter
	KindHeader                    // h: a keyed header field line
	KindCookie                    // c: a keyed cookie
	KindExtra                     // x: a pair from the application
	KindUser                      // user: the user whose private response this is
	KindSelecting                 // v: a line of a selecting header field
	kindEnd
)

// labels are the kinds as the text has them; the kinds from q to x and v have a
// name and a value, the others a value only.
var labels = [kindEnd]string{
	KindZone: "zone", KindScheme: "scheme", KindHost: "host", KindTarget: "target",
	KindMethod: "method", KindPath: "path", KindOpaque: "opaque", KindQuery: "q",
	KindHeader: "h", KindCookie: "c", KindExtra: "x", KindUser: "user", KindSelecting: "v",
}

// String returns the kind's label in the text, such as "host" or "q".
func (k Kind) String() string {
	if k == 0 || k >= kindEnd {
		return "?"
	}
	return labels[k]
}

// MarshalText implements [encoding.TextMarshaler] with the label.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Named reports whether ingredients of this kind have a name beside the value.
func (k Kind) Named() bool {
	return k >= KindQuery && k <= KindExtra || k == KindSelecting
}

// State says whether an ingredient has a value.
type State uint8

// The states of an ingredient.
const (
	Valued State = iota // it has a value, which may be empty
	Bare                // a parameter or cookie that came without "="; text "!"
	Absent              // a header field or cookie that isn't in the request; text "-"
)

// String returns "valued", "bare" or "absent".
func (s State) String() string {
	switch s {
	case Bare:
		return "bare"
	case Absent:
		return "absent"
	}
	return "valued"
}

// MarshalText implements [encoding.TextMarshaler] with the word of String.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Ingredient is one part of a key text. Name is empty unless the kind is
// [Kind.Named], Value is empty unless the state is [Valued], and only named kinds
// can have another state.
type Ingredient struct {
	Kind  Kind   `json:"kind"`
	Name  string `json:"name,omitempty"`
	Value string `json:"value"`
	State State  `json:"state"`
}

// Render writes the canonical text of ingredients, in the order given. It is the
// format of [Spec.Text] and the inverse of [Parse]: for all ingredients that keep
// to the rules of [Ingredient], Parse(Render(x)) is x. What breaks the rules (a
// name where the kind has none, an unknown kind) is left out of the text.
func Render(parts []Ingredient) string {
	var dst []byte
	for _, p := range parts {
		switch {
		case p.Kind == 0 || p.Kind >= kindEnd:
		case !p.Kind.Named():
			dst = appendSingle(dst, p.Kind, p.Value)
		case p.State == Valued:
			dst = appendNamed(dst, p.Kind, p.Name, p.Value)
		default:
			dst = appendMark(dst, p.Kind, p.Name, p.State)
		}
	}
	return string(trimLast(dst))
}

// Parse reads a key text back into its ingredients. It accepts exactly what
// [Render] writes: known labels, lengths without leading zeros, one space between
// ingredients and nothing else. The empty text has no ingredients. The order of
// ingredients isn't checked.
func Parse(text string) ([]Ingredient, error) {
	if text == "" {
		return nil, nil
	}
	var parts []Ingredient
	for at := 0; ; {
		part, next, err := parseOne(text, at)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
		if next == len(text) {
			return parts, nil
		}
		if text[next] != ' ' {
			return nil, parseError(next, "a space must follow an ingredient")
		}
		at = next + 1
	}
}

// parseOne reads the ingredient at the given byte and returns the byte after it.
func parseOne(text string, at int) (Ingredient, int, error) {
	kind, next := parseLabel(text[at:])
	if kind == 0 {
		return Ingredient{}, 0, parseError(at, "no known label followed by a colon")
	}
	at += next
	part := Ingredient{Kind: kind}
	var err error
	if kind.Named() {
		if part.Name, at, err = parseCounted(text, at); err != nil {
			return Ingredient{}, 0, err
		}
		if at == len(text) || text[at] != ':' {
			return Ingredient{}, 0, parseError(at, "a colon must follow a name")
		}
		at++
		if at < len(text) && (text[at] == '-' || text[at] == '!') {
			part.State = Absent
			if text[at] == '!' {
				part.State = Bare
			}
			return part, at + 1, nil
		}
	}
	part.Value, at, err = parseCounted(text, at)
	return part, at, err
}

// parseLabel returns the kind whose label and colon text starts with and their
// length, or zero.
func parseLabel(text string) (Kind, int) {
	label, _, ok := strings.Cut(text[:min(len(text), len("opaque:"))], ":")
	if !ok {
		return 0, 0
	}
	for k := KindZone; k < kindEnd; k++ {
		if labels[k] == label {
			return k, len(label) + 1
		}
	}
	return 0, 0
}

// parseCounted reads "<length>:<that many bytes>".
func parseCounted(text string, at int) (string, int, error) {
	start, n := at, 0
	for ; at < len(text) && text[at] >= '0' && text[at] <= '9'; at++ {
		n = n*10 + int(text[at]-'0')
		if n > len(text) {
			return "", 0, parseError(start, "the length exceeds the text")
		}
	}
	if at == start || at == len(text) || text[at] != ':' {
		return "", 0, parseError(at, "a length and a colon must come here")
	}
	if text[start] == '0' && at > start+1 {
		return "", 0, parseError(start, "a length has no leading zeros")
	}
	at++
	if n > len(text)-at {
		return "", 0, parseError(start, "the length exceeds the text")
	}
	return text[at : at+n], at + n, nil
}

func parseError(at int, reason string) error {
	return fmt.Errorf("cachekey: key text at byte %d: %s", at, reason)
}

// The append functions end each ingredient with a space; trimLast removes the one
// after the last.

func appendSingle(dst []byte, kind Kind, value string) []byte {
	dst = appendLabel(dst, kind)
	dst = appendCounted(dst, value)
	return append(dst, ' ')
}

func appendNamed(dst []byte, kind Kind, name, value string) []byte {
	dst = appendLabel(dst, kind)
	dst = appendCounted(dst, name)
	dst = append(dst, ':')
	dst = appendCounted(dst, value)
	return append(dst, ' ')
}

// appendMark writes a named ingredient that has no value.
func appendMark(dst []byte, kind Kind, name string, state State) []byte {
	dst = appendLabel(dst, kind)
	dst = appendCounted(dst, name)
	if state == Absent {
		return append(dst, ':', '-', ' ')
	}
	return append(dst, ':', '!', ' ')
}

func appendLabel(dst []byte, kind Kind) []byte {
	dst = append(dst, labels[kind]...)
	return append(dst, ':')
}

// appendCounted writes the length of s, a colon and s.
func appendCounted(dst []byte, s string) []byte {
	dst = appendLength(dst, len(s))
	return append(dst, s...)
}

// appendLength writes a length and a colon.
func appendLength(dst []byte, n int) []byte {
	switch {
	case n < 10:
		return append(dst, byte('0'+n), ':')
	case n < 100:
		return append(dst, byte('0'+n/10), byte('0'+n%10), ':')
	}
	return append(strconv.AppendInt(dst, int64(n), 10), ':')
}

func trimLast(dst []byte) []byte {
	if len(dst) == 0 {
		return dst
	}
	return dst[:len(dst)-1]
}
