package field

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

// Kind is the type of a structured field's bare item (RFC 9651 §3.3).
type Kind uint8

const (
	Boolean Kind = iota
	Integer
	Decimal
	String
	Token
	Bytes
	Date
	DisplayString
	InnerList
)

// Item is a bare item or, as the value of a dictionary member, an inner list.
// Parameters are checked and dropped.
type Item struct {
	Kind  Kind
	Bool  bool   // Boolean
	Int   int64  // Integer and Date
	Text  string // String (unescaped) and Token
	Items []Item // InnerList; nil if it's empty
}

// Member is one member of a dictionary.
type Member struct {
	Key   string
	Value Item
}

// ParseDictionary reads a structured dictionary (RFC 9651 §4.2.2) from field
// lines. It reports false if any part is malformed: then the field counts as
// absent. Unlike what the RFC says, members with the same key are all returned,
// in order, so that the caller may take the strictest; the last one is the
// RFC's.
func ParseDictionary(lines []string) ([]Member, bool) {
	p := parser{s: strings.Join(lines, ", ")}
	var members []Member
	p.skipSP()
	for !p.end() {
		key, ok := p.key()
		if !ok {
			return nil, false
		}
		m := Member{Key: key, Value: Item{Kind: Boolean, Bool: true}}
		if p.take('=') {
			if m.Value, ok = p.itemOrInnerList(); !ok {
				return nil, false
			}
		}
		if !p.parameters() {
			return nil, false
		}
		members = append(members, m)
		if !p.next() {
			return nil, false
		}
	}
	return members, true
}

// ParseStrings reads a structured list whose members are all strings (RFC 9651
// §4.2.1), as the fields of RFC 9875 are. It reports false, and the field
// counts as absent, if it is malformed or holds anything else.
func ParseStrings(lines []string) ([]string, bool) {
	p := parser{s: strings.Join(lines, ", ")}
	var list []string
	p.skipSP()
	for !p.end() {
		v, ok := p.itemOrInnerList()
		if !ok || v.Kind != String || !p.parameters() || !p.next() {
			return nil, false
		}
		list = append(list, v.Text)
	}
	return list, true
}

// QuoteString writes s as a structured string (RFC 9651 §4.1.6). It reports
// false if s holds anything but printable ASCII.
func QuoteString(s string) (string, bool) {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return "", false
		}
	}
	return Quote(s)
}

// parser reads structured fields from the front of s.
type parser struct{ s string }

func (p *parser) end() bool { return p.s == "" }

func (p *parser) peek() byte {
	if p.s == "" {
		return 0
	}
	return p.s[0]
}

func (p *parser) take(c byte) bool {
	if p.peek() != c || p.s == "" {
		return false
	}
	p.s = p.s[1:]
	return true
}

// span takes bytes as long as ok holds.
func (p *parser) span(ok func(byte) bool) string {
	i := 0
	for i < len(p.s) && ok(p.s[i]) {
		i++
	}
	head := p.s[:i]
	p.s = p.s[i:]
	return head
}

func (p *parser) skipSP()  { p.span(func(c byte) bool { return c == ' ' }) }
func (p *parser) skipOWS() { p.span(isOWS) }

// next goes past the comma after a member. It reports false if there is
// something else, or nothing after the comma.
func (p *parser) next() bool {
	// Trailing spaces belong to the field as a whole, not to a list.
	if strings.Trim(p.s, " ") == "" {
		p.s = ""
		return true
	}
	p.skipOWS()
	if !p.take(',') {
		return false
	}
	p.skipOWS()
	return !p.end()
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isAlpha(c byte) bool { return isLower(lower(c)) }

func (p *parser) key() (string, bool) {
	if !isLower(p.peek()) && p.peek() != '*' {
		return "", false
	}
	return p.span(func(c byte) bool {
		return isLower(c) || isDigit(c) || c == '_' || c == '-' || c == '.' || c == '*'
	}), true
}

func (p *parser) parameters() bool {
	for p.take(';') {
		p.skipSP()
		if _, ok := p.key(); !ok {
			return false
		}
		if p.take('=') {
			if _, ok := p.bareItem(); !ok {
				return false
			}
		}
	}
	return true
}

func (p *parser) itemOrInnerList() (Item, bool) {
	if p.peek() != '(' {
		return p.bareItem()
	}
	p.take('(')
	list := Item{Kind: InnerList}
	for {
		p.skipSP()
		if p.take(')') {
			return list, true
		}
		item, ok := p.bareItem()
		if !ok || !p.parameters() {
			return Item{}, false
		}
		list.Items = append(list.Items, item)
		if c := p.peek(); c != ' ' && c != ')' {
			return Item{}, false
		}
	}
}

func (p *parser) bareItem() (Item, bool) {
	switch c := p.peek(); {
	case c == '-' || isDigit(c):
		return p.number()
	case c == '"':
		s, ok := p.quoted()
		return Item{Kind: String, Text: s}, ok
	case c == '*' || isAlpha(c):
		t := p.span(func(c byte) bool { return tchar[c] || c == ':' || c == '/' })
		return Item{Kind: Token, Text: t}, true
	case c == ':':
		return p.bytes()
	case c == '?':
		p.take('?')
		b := p.peek()
		ok := p.take('0') || p.take('1')
		return Item{Kind: Boolean, Bool: b == '1'}, ok
	case c == '@':
		p.take('@')
		n, ok := p.number()
		return Item{Kind: Date, Int: n.Int}, ok && n.Kind == Integer
	case c == '%':
		return p.displayString()
	}
	return Item{}, false
}

// number reads an integer of up to 15 digits or a decimal of up to 12 and 3
// (RFC 9651 §4.2.4). The value of a decimal is not kept.
func (p *parser) number() (Item, bool) {
	negative := p.take('-')
	digits := p.span(isDigit)
	if digits == "" || len(digits) > 15 {
		return Item{}, false
	}
	if p.take('.') {
		fraction := p.span(isDigit)
		ok := len(digits) <= 12 && fraction != "" && len(fraction) <= 3
		return Item{Kind: Decimal}, ok
	}
	var n int64
	for i := 0; i < len(digits); i++ {
		n = n*10 + int64(digits[i]-'0')
	}
	if negative {
		n = -n
	}
	return Item{Kind: Integer, Int: n}, true
}

func (p *parser) quoted() (string, bool) {
	p.take('"')
	var b []byte
	for i := 0; i < len(p.s); i++ {
		switch c := p.s[i]; {
		case c == '"':
			p.s = p.s[i+1:]
			return string(b), true
		case c == '\\':
			i++
			if i == len(p.s) || p.s[i] != '"' && p.s[i] != '\\' {
				return "", false
			}
			b = append(b, p.s[i])
		case c < ' ' || c > '~':
			return "", false
		default:
			b = append(b, c)
		}
	}
	return "", false
}

func (p *parser) bytes() (Item, bool) {
	p.take(':')
	p.span(func(c byte) bool { return isAlpha(c) || isDigit(c) || c == '+' || c == '/' || c == '=' })
	return Item{Kind: Bytes}, p.take(':')
}

// displayString checks a display string (RFC 9651 §4.2.10) and keeps nothing of
// it.
func (p *parser) displayString() (Item, bool) {
	p.take('%')
	if !p.take('"') {
		return Item{}, false
	}
	text := p.span(func(c byte) bool { return c >= ' ' && c <= '~' && c != '"' })
	decoded, err := url.PathUnescape(text)
	lower := true
	for i := 0; i+2 < len(text); i++ {
		lower = lower && (text[i] != '%' || text[i+1:i+3] == strings.ToLower(text[i+1:i+3]))
	}
	return Item{Kind: DisplayString}, p.take('"') && err == nil && lower && utf8.ValidString(decoded)
}
