package purge

import (
	"math/bits"
)

// Now returns the newest number. Whoever fetches a response takes it at the
// instant the request is sent and keeps it with the response ([Facts].Seq). It
// costs an atomic load.
func (l *List) Now() uint64 { return l.now.Load() }

// Check says what the purges so far have made of a stored response. It never
// blocks and allocates nothing. If nothing was purged since the last check it
// costs two atomic loads; otherwise some look-ups: one for the zone, the host, the
// URL with and without query, and the key, two for invalidations, one for each tag, two
// for each group, and one for each different length of the path prefixes purged on this
// host (256 at most), however many purges there were.
//
// Call it before a stored response is used, and before a fetched one is stored. A
// number that this list hasn't reached yet is from elsewhere, and the response is
// Gone.
func (l *List) Check(s *Subject) Verdict {
	// In this order: the number of the list only grows.
	if s.checked.Load() == l.now.Load() {
		return Valid
	}
	return l.check(s)
}

func (l *List) check(s *Subject) Verdict {
	p := probe{low: s.checked.Load()}
	head := l.now.Load()
	if p.low > head {
		return Gone
	}
	// What is up to head is in this table or a later one.
	p.table = l.table.Load()
	p.invalidated(l.places[ofURLs].Load(), s.places[:])
	p.invalidated(l.places[ofGroups].Load(), s.groups)
	p.look(Everything, everythingID)
	p.look(Zone, s.zone)
	p.look(Host, s.host)
	p.look(URL, s.url)
	p.look(ExactURL, s.exact)
	p.look(Key, s.key)
	p.tags(s)
	p.prefixes(s)
	// A stale response stays so until it is refreshed, and is checked each time.
	if p.verdict == Valid {
		s.checked.Store(head)
	}
	return p.verdict
}

// probe is one check: what is purged later than low counts.
type probe struct {
	table   *table
	low     uint64
	verdict Verdict
}

func (p *probe) news(kind Kind) bool { return p.table.newest[kind].Load() > p.low }

func (p *probe) look(kind Kind, id uint64) {
	if p.verdict != Gone && p.news(kind) {
		p.lookup(id)
	}
}

func (p *probe) lookup(id uint64) {
	s := p.table.find(id)
	switch {
	case s == nil:
	case s.hard.Load() > p.low:
		p.verdict = Gone
	case s.soft.Load() > p.low:
		p.verdict = max(p.verdict, Stale)
	}
}

func (p *probe) invalidated(at *places, ids []uint64) {
	if at == nil || at.newest.Load() <= p.low {
		return
	}
	for _, id := range ids {
		if p.verdict != Gone && at.later(id, p.low) {
			p.verdict = Gone
		}
	}
}

func (p *probe) tags(s *Subject) {
	if s.allTags {
		p.look(anyTag, anyTagID(s.zone))
		return
	}
	if !p.news(anyTag) {
		return
	}
	for _, ids := range [...][]uint64{s.tags, s.groups} {
		for _, id := range ids {
			if p.verdict == Gone {
				return
			}
			p.lookup(id)
		}
	}
}

func (p *probe) prefixes(s *Subject) {
	if p.verdict == Gone || !p.news(Prefix) {
		return
	}
	for word := 0; word*64 <= len(s.path); word++ {
		set := p.table.find(lengthsID(s.host, word))
		if set == nil {
			continue
		}
		for left := set.hard.Load(); left != 0; left &= left - 1 {
			n := word*64 + bits.TrailingZeros64(left)
			if n > len(s.path) || p.verdict == Gone {
				return
			}
			p.lookup(prefixID(s.host, s.path[:n]))
		}
	}
}
