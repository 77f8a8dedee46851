package purge

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Prefixes longer than what counts of them, cut where something else begins.
var cutPrefixes = func() (all []string) {
	for _, at := range []string{"%C3%A9t%C3%A9", "%25", "%", "*", "***", "a*b", "\xc3\xa9", "%2f%2f"} {
		for n := MaxPrefixBytes - 5; n <= MaxPrefixBytes; n++ {
			all = append(all, "/"+strings.Repeat("a", n-1)+at+"tail")
		}
	}
	return append(all, "/a"+strings.Repeat("*", 300)+"tail")
}()

// A prefix that is cut down to what counts of it selects what begins with it, and
// nothing that differs before the cut.
func TestPrefixIsCutBetweenEscapes(t *testing.T) {
	for _, prefix := range cutPrefixes {
		s := Selector{Kind: Prefix, Zone: "z", Host: "example.com", Path: prefix}
		once, err := s.Canonical()
		require.NoError(t, err, prefix)
		twice, err := once.Canonical()
		require.NoError(t, err, prefix)
		assert.Equal(t, once, twice)
		l := mustNew(t, Options{})
		below, beside := page(l, prefix+"/page"), page(l, "/b"+prefix[2:])
		mustAdd(t, l, once)
		assert.Equal(t, Gone, l.Check(below), prefix)
		assert.Equal(t, Valid, l.Check(beside), prefix)
	}
}

// The journal of a purge by a prefix that was cut is trusted at the next start.
func TestJournalReadsCutPrefixes(t *testing.T) {
	o := Options{Journal: filepath.Join(t.TempDir(), "j")}
	l := mustNew(t, o)
	require.NoError(t, l.Close(background))
	l = mustNew(t, o)
	first := l.Now()
	for _, prefix := range cutPrefixes {
		mustAdd(t, l, Selector{Kind: Prefix, Zone: "z", Host: "example.com", Path: prefix})
	}
	require.NoError(t, l.Close(background))
	l = mustNew(t, o)
	assert.False(t, l.Lost())
	for _, prefix := range cutPrefixes {
		facts := Facts{Seq: first, Zone: "z", Host: "example.com", Path: prefix + "x"}
		assert.Equal(t, Gone, l.Check(NewSubject(facts)), prefix)
	}
}

// A canonical selector of any kind is its own canonical form, a journal of it reads as
// it was written, and it selects what it names.
func FuzzCanonical(f *testing.F) {
	f.Add("0", "0", "0", "0", "HTTP://:", "0", []byte{})
	f.Add("z", "a..:80:443.", "/%%41%7e é", "b=1&&a=%2f", "HTTP://A:80::80", "t", []byte("key"))
	for _, prefix := range cutPrefixes {
		f.Add("", "a", prefix[1:], "%", "https://a", "", []byte{})
	}
	f.Fuzz(func(t *testing.T, zone, host, path, query, origin, tag string, key []byte) {
		path = "/" + path
		facts := Facts{Zone: zone, Host: host, Path: path, Query: query}
		copy(facts.Key[:], key)
		for _, s := range []Selector{
			{Kind: Everything}, {Kind: Zone, Zone: zone}, {Kind: Host, Zone: zone, Host: host},
			{Kind: URL, Zone: zone, Host: host, Path: path},
			{Kind: ExactURL, Zone: zone, Host: host, Path: path, Query: query},
			{Kind: Prefix, Zone: zone, Host: host, Path: path},
			{Kind: Tag, Zone: zone, Tag: tag}, {Kind: Group, Zone: zone, Origin: origin, Tag: tag},
			{Kind: Key, Zone: zone, Key: facts.Key, Soft: true},
		} {
			once, err := s.Canonical()
			if err != nil {
				continue
			}
			twice, err := once.Canonical()
			require.NoError(t, err)
			require.Equal(t, once, twice)

			journal := appendReached(appendGeneration(journalHeader(), 3), 3<<generationBits)
			was, err := parseJournal(appendPurge(journal, 3<<generationBits+1, []Selector{once}))
			require.NoError(t, err)
			require.Equal(t, []tombstone{{once, 3<<generationBits + 1}}, was.purges)

			facts := facts
			switch s.Kind {
			case Tag:
				facts.Tags = []string{tag}
			case Group:
				facts.Scheme, facts.Host, _ = strings.Cut(origin, "://")
				facts.Groups = []string{tag}
			case Prefix:
				facts.Path += "/below"
			}
			require.True(t, selects(once, facts), "%+v doesn't select %+v", once, facts)
		}
	})
}

// selects reports whether a purge by s reaches a response fetched before it.
func selects(s Selector, f Facts) bool {
	l, err := New(Options{Logger: quiet()})
	if err != nil {
		panic(err)
	}
	f.Seq = l.Now()
	stored := NewSubject(f)
	if _, err := l.Add(background, s); err != nil {
		panic(err)
	}
	return l.Check(stored) != Valid
}
