package middleware

import (
	"encoding/binary"

	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
)

// What purges select a response by goes to the disk with it, except what its key
// and header fields say anyway. A response whose facts can't be read counts as
// purged.

// factsVersion is the first byte of the form in which facts are kept.
const factsVersion = 1

// appendFacts appends the kept form of f.
func appendFacts(b []byte, f *purge.Facts) []byte {
	b = append(b, factsVersion)
	b = binary.BigEndian.AppendUint64(b, f.Seq)
	for _, s := range [...]string{f.Zone, f.Scheme, f.Host, f.Path, f.Query} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

// parseFacts reads what appendFacts wrote.
func parseFacts(b []byte) (f purge.Facts, ok bool) {
	if len(b) < 9 || b[0] != factsVersion {
		return f, false
	}
	f.Seq, b = binary.BigEndian.Uint64(b[1:]), b[9:]
	for _, s := range [...]*string{&f.Zone, &f.Scheme, &f.Host, &f.Path, &f.Query} {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return f, false
		}
		*s, b = string(b[size:size+int(n)]), b[size+int(n):]
	}
	return f, len(b) == 0
}

// revive makes what purges select an object by that comes from the disk.
func (p *purger) revive(o *store.Object) store.Attachment {
	facts, ok := parseFacts(o.Facts)
	if !ok || !p.lostAt.IsZero() && o.RequestedAt.Before(p.lostAt) {
		return nil
	}
	facts.Key = o.Primary
	p.tags.Read(o.Header.Header(), &facts)
	return purge.NewSubject(facts)
}
