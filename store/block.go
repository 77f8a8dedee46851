package store

import (
	"encoding/binary"
	"net/http"
	"slices"
	"strings"
)

// Block is a header or trailer section in one immutable string: the number of
// values, then for each field its name, its number of values and the values,
// every number a uvarint and every text preceded by its length. Fields are
// sorted by name, values keep their order. One string instead of a map of
// slices is what keeps a stored object cheap for the garbage collector.
type Block string

// EncodeBlock makes a Block of h without the fields named in omit, which are
// in canonical form, and without trailers (http.TrailerPrefix). Fields with no
// value are kept as such: they tell net/http not to fill the field in by
// itself.
func EncodeBlock(h http.Header, omit ...string) Block {
	var arr [24]string
	names := arr[:0]
	count, size := 0, binary.MaxVarintLen64
	for name, values := range h {
		if slices.Contains(omit, name) || strings.HasPrefix(name, http.TrailerPrefix) {
			continue
		}
		names = append(names, name)
		count += len(values)
		size += len(name) + 2*binary.MaxVarintLen32
		for _, v := range values {
			size += len(v) + binary.MaxVarintLen32
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	var buf [1024]byte // on the stack: the block itself is the one allocation
	b := buf[:0]
	if size > len(buf) {
		b = make([]byte, 0, size)
	}
	b = binary.AppendUvarint(b, uint64(count))
	for _, name := range names {
		b = appendText(b, name)
		b = binary.AppendUvarint(b, uint64(len(h[name])))
		for _, v := range h[name] {
			b = appendText(b, v)
		}
	}
	return Block(b) // one exact copy: the estimate's slack is not kept
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// uvarint reads a number from the front of s. A Block is only ever made by
// EncodeBlock or checked by ParseBlock, so it's well formed here.
func uvarint(s Block) (int, Block) {
	if len(s) > 0 && s[0] < 0x80 {
		return int(s[0]), s[1:]
	}
	var v uint64
	for i, shift := 0, 0; i < len(s) && shift < 64; i, shift = i+1, shift+7 {
		v |= uint64(s[i]&0x7f) << shift
		if s[i] < 0x80 {
			return int(v), s[i+1:]
		}
	}
	return 0, ""
}

func text(s Block) (string, Block) {
	n, s := uvarint(s)
	return string(s[:n]), s[n:]
}

// ParseBlock checks that s is a Block, for one read from outside the process:
// exactly what EncodeBlock makes of the header that s stands for. What the
// texts hold is not looked at.
func ParseBlock(s string) (Block, bool) {
	if s == "" {
		return "", true
	}
	p := blockParser{rest: s}
	total := p.number()
	if p.rest == "" {
		return "", false // no field is the empty Block
	}
	for last, first := "", true; p.rest != "" && !p.bad; first = false {
		name := p.text()
		if !first && name <= last || strings.HasPrefix(name, http.TrailerPrefix) {
			return "", false
		}
		last = name
		n := p.number()
		total -= n
		for range n {
			if p.text(); p.bad {
				break
			}
		}
	}
	if p.bad || total != 0 {
		return "", false
	}
	return Block(s), true
}

// blockParser reads a Block that nobody has checked.
type blockParser struct {
	rest string
	bad  bool
}

// number reads a number in its shortest form, which is at most the length of
// what follows: a text of n bytes and n values need no less.
func (p *blockParser) number() int {
	var v uint64
	for i := 0; i < len(p.rest) && i < binary.MaxVarintLen64-1; i++ {
		c := p.rest[i]
		v |= uint64(c&0x7f) << (7 * i)
		if c >= 0x80 {
			continue
		}
		if c == 0 && i > 0 {
			break // longer than it need be
		}
		p.rest = p.rest[i+1:]
		p.bad = p.bad || v > uint64(len(p.rest))
		return int(min(v, uint64(len(p.rest))))
	}
	p.bad = true
	return 0
}

func (p *blockParser) text() string {
	n := p.number()
	s := p.rest[:n]
	p.rest = p.rest[n:]
	return s
}

// Values returns the number of values in all fields.
func (b Block) Values() int {
	if b == "" {
		return 0
	}
	n, _ := uvarint(b)
	return n
}

// CopyTo puts the fields into h, each replacing what h had under its name,
// and returns room for extra further values. The slices are new (one
// allocation for all of them and the extra room), so whoever owns h may
// change them without touching the stored response.
func (b Block) CopyTo(h http.Header, extra int) (room []string) {
	if b == "" {
		return make([]string, extra)
	}
	count, rest := uvarint(b)
	values := make([]string, count+extra)
	for rest != "" {
		var name string
		var n int
		name, rest = text(rest)
		n, rest = uvarint(rest)
		for i := range n {
			values[i], rest = text(rest)
		}
		h[name] = values[:n:n]
		values = values[n:]
	}
	return values
}

// Header returns the fields as a new http.Header.
func (b Block) Header() http.Header {
	h := make(http.Header)
	b.CopyTo(h, 0)
	return h
}

// Get returns the first value of the field with the canonical name, and
// whether the field is there with a value. It allocates nothing.
func (b Block) Get(name string) (string, bool) {
	if b == "" {
		return "", false
	}
	_, rest := uvarint(b)
	for rest != "" {
		var field, value string
		var n int
		field, rest = text(rest)
		n, rest = uvarint(rest)
		for i := range n {
			var v string
			if v, rest = text(rest); i == 0 {
				value = v
			}
		}
		if c := strings.Compare(field, name); c == 0 {
			return value, n > 0
		} else if c > 0 {
			break
		}
	}
	return "", false
}
