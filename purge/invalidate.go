package purge

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"strings"
)

// Target is what [List.Invalidate] purges: the responses to a URL of a zone,
// whatever the rest of their keys, or, if Key isn't zero, all that is stored under a
// key in whatever zone.
type Target struct {
	Zone, Host, Path, Query string // as in [Facts]; of any length
	Key                     [32]byte
}

// Invalidate is [List.Add] for what visitors can cause, such as the invalidation by
// unsafe requests (RFC 9111 §4.4). It purges as Add does, and as durably, but has
// room of its own: however many targets there are, they fold no other purge. Some
// 450,000 targets are remembered exactly, by 64-bit digests in 8 MiB at most. With
// more, the oldest are given up in small parts: with each, one 65,536th of what was
// stored before it was invalidated is purged too. Which part is secret, so that a
// visitor can't choose it.
//
// Errors: [ErrClosed], and nothing was purged; or [ErrNotDurable], and it is in
// effect.
func (l *List) Invalidate(ctx context.Context, targets ...Target) (Result, error) {
	if len(targets) == 0 {
		return Result{}, nil
	}
	ids := make([]uint64, len(targets))
	for i := range targets {
		ids[i] = targets[i].id()
	}
	return l.addAll(ctx, nil, ids)
}

// invalidate notes invalidations. The lock is held.
func (l *List) invalidate(ids []uint64, seq uint64) {
	if len(ids) == 0 {
		return
	}
	p := l.places.Load()
	if p == nil {
		p = newPlaces(l.secret, fewestBits)
		p.most = l.opt.mostBits
	}
	for _, id := range ids {
		p = p.with(id, seq)
	}
	l.places.Store(p)
}

func (t *Target) id() uint64 {
	if t.Key != [32]byte{} {
		return keyPlace(&t.Key)
	}
	return urlPlace(t.Zone, canonicalHost(t.Host), normalEscapes(t.Path), normalEscapes(t.Query))
}

// urlPlace is the number of a URL whose parts have normal escapes. Unlike those of
// identity.go it's the same in all processes, so it is cut from a digest: with that
// known, nobody finds another URL with the same number. The order of the parameters
// doesn't matter.
func urlPlace(zone, host, path, query string) uint64 {
	var room [256]byte
	text := room[:0]
	for _, s := range [...]string{zone, host, path} {
		text = append(binary.AppendUvarint(text, uint64(len(s))), s...)
	}
	if !inOrder(query) {
		query = sortedQuery(query)
	}
	sum := sha256.Sum256(append(text, query...))
	return notZero(binary.LittleEndian.Uint64(sum[:]))
}

// inOrder reports whether sortedQuery would change nothing.
func inOrder(query string) bool {
	before := ""
	for more := query != ""; more; {
		var p string
		if p, query, more = strings.Cut(query, "&"); p == "" || p < before {
			return false
		}
		before = p
	}
	return true
}

// keyPlace is the number of a key, which is a digest already.
func keyPlace(key *[32]byte) uint64 { return notZero(binary.LittleEndian.Uint64(key[:])) }

// newSecret is what places find buckets by.
func newSecret() (s [2]uint64) {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return [2]uint64{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])}
}

func notZero(id uint64) uint64 {
	if id == 0 {
		return 1
	}
	return id
}
