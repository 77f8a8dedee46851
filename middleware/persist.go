package middleware

import (
	"encoding/binary"

	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
)

// What purges select a response by goes to the disk with it, except what its key
// says anyway. Its tags do too: the field they came in may be one that the response
// keeps from being stored. A response whose facts can't be read counts as purged.

// factsVersion is the first byte of the form in which facts are kept.
const factsVersion = 2

// appendFacts appends the kept form of f, and how far the journal of purges had come
// then ([purge.List.Written]).
func appendFacts(b []byte, f *purge.Facts, written uint64) []byte {
	b = append(b, factsVersion, 0)
	if f.AllTags {
		b[len(b)-1] = 1
	}
	b = binary.BigEndian.AppendUint64(b, f.Seq)
	b = binary.BigEndian.AppendUint64(b, written)
	for _, s := range [...]string{f.Zone, f.Scheme, f.Host, f.Path, f.Query} {
		b = appendText(b, s)
	}
	for _, list := range [...][]string{f.Tags, f.Groups} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, s := range list {
			b = appendText(b, s)
		}
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// parseFacts reads what appendFacts wrote.
func parseFacts(b []byte) (f purge.Facts, written uint64, ok bool) {
	if len(b) < 18 || b[0] != factsVersion || b[1] > 1 {
		return f, 0, false
	}
	f.AllTags, f.Seq = b[1] == 1, binary.BigEndian.Uint64(b[2:])
	written = binary.BigEndian.Uint64(b[10:])
	b = b[18:]
	for _, s := range [...]*string{&f.Zone, &f.Scheme, &f.Host, &f.Path, &f.Query} {
		if *s, b, ok = cutText(b); !ok {
			return f, 0, false
		}
	}
	for _, list := range [...]*[]string{&f.Tags, &f.Groups} {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > purge.MaxTags {
			return f, 0, false
		}
		b = b[size:]
		for range n {
			var s string
			if s, b, ok = cutText(b); !ok {
				return f, 0, false
			}
			*list = append(*list, s)
		}
	}
	return f, written, len(b) == 0
}

// cutText cuts the first text off.
func cutText(b []byte) (s string, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return "", nil, false
	}
	return string(b[size : size+int(n)]), b[size+int(n):], true
}

// revive makes what purges select an object by that comes from the disk.
func (p *purger) revive(o *store.Object) store.Attachment {
	facts, written, ok := parseFacts(o.Facts)
	if !ok || !p.lostAt.IsZero() && o.RequestedAt.Before(p.lostAt) {
		return nil
	}
	p.list.Witness(written)
	facts.Key = o.Primary
	return purge.NewSubject(facts)
}
