package purge

import (
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"
)

// Facts are what purges may select a stored response by.
type Facts struct {
	// Seq is what [List.Now] returned at the instant the request to the origin was
	// sent, for a revalidation that of the revalidating request.
	Seq    uint64
	Zone   string
	Scheme string // of the target, for Groups: http or https
	Host   string // with port, in any case
	Path   string // escaped, as keyed
	Query  string // raw, without "?": the parameters that the key keeps
	Key    [32]byte
	Tags   []string // see [TagReader]
	Groups []string // of Cache-Groups; they belong to the origin of Scheme and Host
	// AllTags says that the tags aren't all known, because they were too many. Every
	// purge of any tag or group of the zone then purges this response.
	AllTags bool
}

// Subject is a stored response as seen by purges. It remembers up to which purge
// it was checked, so it must not be copied; a refreshed response gets a new one.
// It is safe for concurrent use.
type Subject struct {
	// checked is the number up to which no purge matched. It begins as the number
	// of the fetch, before which none can.
	checked atomic.Uint64

	seq     uint64
	zone    uint64
	host    uint64
	url     uint64
	exact   uint64
	key     uint64
	places  [2]uint64 // of the URL and of the key
	path    string    // at most MaxPrefixBytes
	tags    []uint64
	allTags bool
}

// NewSubject prepares a response to be checked. It costs about 100 ns, and 10 ns
// for each tag, with two allocations and one for all tags together. It keeps
// nothing of f.
func NewSubject(f Facts) *Subject {
	s := &Subject{seq: f.Seq, zone: zoneID(f.Zone), allTags: f.AllTags}
	s.checked.Store(f.Seq)
	host := canonicalHost(f.Host)
	s.host = hostID(s.zone, host)
	path := normalEscapes(f.Path)
	// A copy: the path may be a part of a much longer text.
	s.path = strings.Clone(path[:min(len(path), MaxPrefixBytes)])
	s.url = urlID(s.host, path)
	query := normalEscapes(f.Query)
	s.exact = exactID(s.url, query)
	s.key = keyID(s.zone, &f.Key)
	s.places = [2]uint64{urlPlace(f.Zone, host, path, query), keyPlace(&f.Key)}
	if n := len(f.Tags) + len(f.Groups); n > 0 && n <= MaxTags {
		s.tags = make([]uint64, 0, n)
		for _, t := range f.Tags {
			s.tags = append(s.tags, tagID(s.zone, t))
		}
		if len(f.Groups) > 0 {
			origin := originID(s.zone, originOf(f.Scheme, f.Host))
			for _, g := range f.Groups {
				s.tags = append(s.tags, groupID(origin, g))
			}
		}
	} else if n > MaxTags {
		s.allTags = true
	}
	return s
}

// Inherit gives s the tags and groups of old, a response to the same request, beside
// its own, each once. Only before s is used.
func (s *Subject) Inherit(old *Subject) {
	if !slices.Equal(s.tags, old.tags) {
		s.tags = slices.Concat(s.tags, old.tags)
		slices.Sort(s.tags)
		s.tags = slices.Compact(s.tags)
	}
	if s.allTags = s.allTags || old.allTags || len(s.tags) > MaxTags; s.allTags {
		s.tags = nil
	}
}

// Seq returns the number of the fetch, as in [Facts].
func (s *Subject) Seq() uint64 { return s.seq }

// Weight is the number of bytes of memory that s takes.
func (s *Subject) Weight() int64 {
	return int64(unsafe.Sizeof(*s)) + int64(len(s.path)+15)&^15 + 8*int64(cap(s.tags))
}

// Verdict says what purges have made of a stored response.
type Verdict uint8

// The verdicts.
const (
	Valid Verdict = iota // no purge matches
	Stale                // softly purged: stale at once, however fresh it was
	Gone                 // purged: it must not be used or revalidated any more
)

// String returns "valid", "stale" or "gone".
func (v Verdict) String() string {
	switch v {
	case Valid:
		return "valid"
	case Stale:
		return "stale"
	}
	return "gone"
}
