package purge

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"strings"
)

// Target is what [List.Invalidate] purges: the responses to a URL of a zone,
// whatever the rest of their keys; or, if Key isn't zero, all that is stored under a
// key in whatever zone; or else, if Origin isn't empty, the Group of an origin (RFC
// 9875) in a zone.
type Target struct {
	Zone, Host, Path, Query string // as in [Facts]; of any length
	Key                     [32]byte
	Origin, Group           string // as Origin and Tag in [Selector]; of any length
}

// Invalidate is [List.Add] for what visitors can cause, such as the invalidation by
// unsafe requests (RFC 9111 §4.4) and by what is answered to them (RFC 9875 §3). It
// purges as Add does, and as durably, but has room of its own: however many targets
// there are, they fold no other purge. Some 450,000 URLs and keys are remembered
// exactly, by 64-bit digests in 8 MiB at most, and as many groups in 8 MiB of their
// own. With more, the oldest are given up in small parts: with each URL, one 65,536th
// of what was stored before it was invalidated is purged too; with each group, one
// 65,536th of the groups of then. Which part is secret, so that a visitor can't choose
// it.
//
// Errors: [ErrClosed], and nothing was purged; or [ErrNotDurable], and it is in
// effect.
func (l *List) Invalidate(ctx context.Context, targets ...Target) (Result, error) {
	if len(targets) == 0 {
		return Result{}, nil
	}
	set := newInvalidated(targets)
	return l.addAll(ctx, nil, &set)
}

// invalidated are the numbers that places remember targets by.
type invalidated struct {
	targets int
	ids     [tables][]uint64
}

func newInvalidated(targets []Target) invalidated {
	set := invalidated{targets: len(targets)}
	last := "" // the zone that has its number already
	for i := range targets {
		t := &targets[i]
		to := &set.ids[ofURLs]
		switch {
		case t.Key != [32]byte{}:
			*to = append(*to, keyPlace(&t.Key))
		case t.Origin == "":
			*to = append(*to, urlPlace(t.Zone, canonicalHost(t.Host), normalEscapes(t.Path), normalEscapes(t.Query)))
		default:
			to = &set.ids[ofGroups]
			if len(*to) == 0 || t.Zone != last {
				*to = append(*to, anyGroupPlace(t.Zone))
				last = t.Zone
			}
			scheme, host, _ := strings.Cut(t.Origin, "://")
			*to = append(*to, groupPlace(t.Zone, originOf(scheme, host), t.Group))
		}
	}
	return set
}

// invalidate notes invalidations. The lock is held.
func (l *List) invalidate(set *invalidated, seq uint64) {
	if set == nil {
		return
	}
	l.counts.invalidated += uint64(set.targets)
	for i, ids := range set.ids {
		if len(ids) == 0 {
			continue
		}
		p := l.places[i].Load()
		if p == nil {
			p = newPlaces(l.secret, fewestBits)
			p.most = l.opt.mostBits
		}
		for _, id := range ids {
			p = p.with(id, seq)
		}
		l.places[i].Store(p)
	}
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
	return digest(append(text, query...))
}

// groupPlace is the number of an origin's group. Selectors use it too.
func groupPlace(zone, origin, group string) uint64 {
	var room [256]byte
	text := room[:0]
	for _, s := range [...]string{zone, origin} {
		text = append(binary.AppendUvarint(text, uint64(len(s))), s...)
	}
	return digest(append(text, group...))
}

// anyGroupPlace is the number of all groups of a zone together. It notes the newest
// invalidation of one, for responses that have too many to know them all.
func anyGroupPlace(zone string) uint64 {
	var room [256]byte
	return digest(append(binary.AppendUvarint(room[:0], uint64(len(zone))), zone...))
}

func digest(text []byte) uint64 {
	sum := sha256.Sum256(text)
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
