package disk

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/store"
)

// Flags of a Life.
const (
	flagMustRevalidate = 1 << iota
	flagNoCache
	flagSharedMaxAge
	flagImmutable
	flagSharedExplicit
	flagStaticExplicit
	flagAuthReusable
	flagsEnd
)

// encodeFields writes all of o but its keys and its body, and the lineage it
// belongs to: numbers as varints, texts preceded by their length.
func encodeFields(o *store.Object, lineage uint64) []byte {
	b := make([]byte, 0, 160+len(o.Header)+len(o.Trailer)+len(o.Selecting)+len(o.Facts))
	b = binary.LittleEndian.AppendUint64(b, lineage)
	b = binary.AppendUvarint(b, uint64(o.Status))
	b = appendText(b, string(o.Header))
	b = appendText(b, string(o.Trailer))
	b = appendTexts(b, o.VaryNames)
	b = appendText(b, o.Selecting)
	b = appendText(b, string(o.Facts))
	b = appendTime(b, o.RequestedAt)
	l := &o.Life
	b = appendTime(b, l.ReceivedAt)
	b = binary.AppendVarint(b, int64(l.InitialAge))
	b = binary.AppendVarint(b, int64(l.Lifetime))
	b = binary.AppendVarint(b, int64(l.StaleWhileRevalidate))
	b = binary.AppendVarint(b, int64(l.StaleIfError))
	b = append(b, byte(l.Source))
	var flags byte
	for i, set := range lifeFlags(l) {
		if *set {
			flags |= 1 << i
		}
	}
	return append(b, flags)
}

// lifeFlags are l's switches in the order of their bits.
func lifeFlags(l *rfc9111.Life) [7]*bool {
	return [...]*bool{&l.MustRevalidate, &l.NoCache, &l.SharedMaxAge, &l.Immutable,
		&l.SharedExplicit, &l.StaticExplicit, &l.AuthReusable}
}

// decodeFields reads what encodeFields wrote into an object with the keys and
// the length of the head.
func decodeFields(h *head, b []byte) (o *store.Object, lineage uint64, err error) {
	p := parser{rest: b}
	lineage = p.fixed64()
	o = &store.Object{Key: h.key, Primary: h.primary, Length: strconv.FormatInt(h.bodyLen, 10)}
	o.Status = int(p.number(999))
	var okHeader, okTrailer bool
	o.Header, okHeader = store.ParseBlock(p.text())
	o.Trailer, okTrailer = store.ParseBlock(p.text())
	o.VaryNames = p.texts()
	o.Selecting = p.text()
	if s := p.text(); s != "" {
		o.Facts = []byte(s)
	}
	o.RequestedAt = p.time()
	l := &o.Life
	l.ReceivedAt = p.time()
	l.InitialAge = time.Duration(p.signed())
	l.Lifetime = time.Duration(p.signed())
	l.StaleWhileRevalidate = time.Duration(p.signed())
	l.StaleIfError = time.Duration(p.signed())
	l.Source = rfc9111.Source(p.byte())
	flags := p.byte()
	for i, set := range lifeFlags(l) {
		*set = flags>>i&1 == 1
	}
	ok := !p.bad && len(p.rest) == 0 && okHeader && okTrailer && o.Status >= 100 &&
		flags < flagsEnd && l.Source <= rfc9111.FromHeuristic &&
		(o.Key == o.Primary) == (len(o.VaryNames) == 0) && canonicalNames(o.VaryNames)
	if !ok {
		return nil, 0, errCorrupt
	}
	return o, lineage, nil
}

// canonicalNames reports whether the names are in lower case and sorted.
func canonicalNames(names []string) bool {
	for i, n := range names {
		if n == "" || n != strings.ToLower(n) || i > 0 && n <= names[i-1] {
			return false
		}
	}
	return true
}

// encodeRecord writes what a primary key leads to.
func encodeRecord(r *store.Record) []byte {
	b := binary.LittleEndian.AppendUint64(nil, r.Lineage)
	b = binary.AppendUvarint(b, uint64(len(r.Sets)))
	for _, set := range r.Sets {
		b = appendTexts(b, set)
	}
	b = binary.AppendUvarint(b, uint64(len(r.Variants)))
	for i := range r.Variants {
		b = append(b, r.Variants[i][:]...)
	}
	return b
}

func decodeRecord(b []byte) (*store.Record, error) {
	p := parser{rest: b}
	r := &store.Record{Lineage: p.fixed64()}
	for range p.number(uint64(len(p.rest))) {
		set := p.texts()
		if p.bad || len(set) == 0 || !canonicalNames(set) {
			return nil, errCorrupt
		}
		r.Sets = append(r.Sets, set)
	}
	n := p.number(uint64(len(p.rest)))
	if p.bad || uint64(len(p.rest)) != n*uint64(len(store.Key{})) {
		return nil, errCorrupt
	}
	for k := range slices.Chunk(p.rest, len(store.Key{})) {
		r.Variants = append(r.Variants, store.Key(k))
	}
	return r, nil
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendTexts(b []byte, texts []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(texts)))
	for _, s := range texts {
		b = appendText(b, s)
	}
	return b
}

func appendTime(b []byte, t time.Time) []byte {
	b = binary.AppendVarint(b, t.Unix())
	return binary.AppendUvarint(b, uint64(t.Nanosecond()))
}

// parser reads what nobody has checked. After an error all it returns is zero.
type parser struct {
	rest []byte
	bad  bool
}

func (p *parser) fail() {
	p.rest, p.bad = nil, true
}

func (p *parser) take(n int) []byte {
	if n > len(p.rest) {
		p.fail()
		return nil
	}
	b := p.rest[:n]
	p.rest = p.rest[n:]
	return b
}

func (p *parser) byte() byte {
	if b := p.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (p *parser) fixed64() uint64 {
	if b := p.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (p *parser) number(most uint64) uint64 {
	v, n := binary.Uvarint(p.rest)
	if n <= 0 || v > most {
		p.fail()
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

func (p *parser) signed() int64 {
	v, n := binary.Varint(p.rest)
	if n <= 0 {
		p.fail()
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

func (p *parser) text() string {
	return string(p.take(int(p.number(uint64(len(p.rest))))))
}

func (p *parser) texts() []string {
	n := p.number(uint64(len(p.rest)))
	var texts []string
	for range n {
		if p.bad {
			return nil
		}
		texts = append(texts, p.text())
	}
	return texts
}

func (p *parser) time() time.Time {
	s := p.signed()
	return time.Unix(s, int64(p.number(999_999_999)))
}
