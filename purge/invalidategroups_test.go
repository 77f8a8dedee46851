package purge

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func item(i int) Target {
	return Target{Zone: "z", Origin: "https://example.com", Group: fmt.Sprint("item ", i)}
}

// Which responses the invalidation of a group matches, and which it leaves alone: as a
// purge of the group does.
func TestGroupTargetsMatch(t *testing.T) {
	long := strings.Repeat("g", 2*MaxTagBytes)
	subject := Facts{Zone: "shop", Scheme: "https", Host: "Example.com:443", Path: "/", Groups: []string{"a", "", "b"}, Tags: []string{"tag"}}
	other := subject
	other.Zone = "other"
	tests := []struct {
		subject Facts
		target  Target
		want    Verdict
	}{
		{subject, Target{Zone: "shop", Origin: "https://example.com", Group: "a"}, Gone},
		{subject, Target{Zone: "shop", Origin: "HTTPS://EXAMPLE.com:443", Group: "b"}, Gone},
		{subject, Target{Zone: "shop", Origin: "https://example.com"}, Gone},
		{subject, Target{Zone: "shop", Origin: "https://example.com", Group: "A"}, Valid},
		{subject, Target{Zone: "shop", Origin: "https://example.com", Group: "tag"}, Valid},
		{subject, Target{Zone: "shop", Origin: "http://example.com", Group: "a"}, Valid},
		{subject, Target{Zone: "shop", Origin: "https://example.com:444", Group: "a"}, Valid},
		{subject, Target{Zone: "shop", Origin: "https://example.org", Group: "a"}, Valid},
		{other, Target{Zone: "shop", Origin: "https://example.com", Group: "a"}, Valid},
		{Facts{Zone: "shop", Tags: []string{"a"}}, Target{Zone: "shop", Origin: "https://example.com", Group: "a"}, Valid},
		{Facts{Zone: "shop", Scheme: "http", Host: "h", Groups: []string{long}}, Target{Zone: "shop", Origin: "http://h", Group: long}, Gone},
		{Facts{Zone: "shop", Scheme: "http", Host: "h", Groups: []string{long}}, Target{Zone: "shop", Origin: "http://h", Group: long + "g"}, Valid},
		{Facts{Zone: "shop", AllTags: true}, Target{Zone: "shop", Origin: "https://example.com", Group: "any"}, Gone},
		{Facts{Zone: "other", AllTags: true}, Target{Zone: "shop", Origin: "https://example.com", Group: "any"}, Valid},
		{Facts{Zone: "shop", AllTags: true}, Target{Zone: "shop", Host: "h", Path: "/"}, Valid},
		{Facts{Zone: "shop", AllTags: true}, Target{Zone: "shop", Origin: "nonsense", Group: "\x00"}, Gone},
	}
	for _, tt := range tests {
		l := mustNew(t, Options{})
		tt.subject.Seq = l.Now()
		s := NewSubject(tt.subject)
		res := mustInvalidate(t, l, tt.target)
		assert.Equal(t, Result{Seq: tt.subject.Seq + 1, Applied: 1}, res)
		for range 2 {
			assert.Equal(t, tt.want, l.Check(s), tt)
		}
		tt.subject.Seq = l.Now()
		assert.Equal(t, Valid, l.Check(NewSubject(tt.subject)), "fetched after: %v", tt)
	}
	l := mustNew(t, Options{})
	old := NewSubject(Facts{Seq: l.Now(), Zone: "z", Scheme: "https", Host: "h", Tags: []string{"x"}, Groups: []string{"g"}})
	s := NewSubject(Facts{Seq: l.Now(), Zone: "z", Scheme: "https", Host: "h", Tags: []string{"x"}})
	s.Inherit(old)
	mustInvalidate(t, l, Target{Zone: "z", Origin: "https://h", Group: "g"})
	assert.Equal(t, Gone, l.Check(s), "inherited")
}

// Inherited groups that are too many to be kept are all of them.
func TestTooManyInheritedGroups(t *testing.T) {
	l := mustNew(t, Options{})
	several := func(from int) (f Facts) {
		f = Facts{Seq: l.Now(), Zone: "z", Scheme: "https", Host: "example.com"}
		for i := range MaxTags * 3 / 4 {
			f.Groups = append(f.Groups, item(from+i).Group)
		}
		return f
	}
	s := NewSubject(several(0))
	s.Inherit(NewSubject(several(MaxTags)))
	mustInvalidate(t, l, Target{Zone: "another", Origin: "https://example.com", Group: "x"})
	assert.Equal(t, Valid, l.Check(s))
	mustInvalidate(t, l, Target{Zone: "z", Origin: "https://example.com", Group: "x"})
	assert.Equal(t, Gone, l.Check(s))
}

// A shop's origin answers each visitor's order with the group of the item: a multiple
// of what the list holds of purges. The operator's purges stay as they are, one by one,
// nothing else is purged, and all of it survives a restart.
func TestManyInvalidatedGroupsCostNothingElse(t *testing.T) {
	t.Parallel()
	const items, others = 2 * DefaultMaxTombstones, 1000
	o := Options{Journal: filepath.Join(t.TempDir(), "j"), Sync: SyncOS, Logger: quiet(), compactAt: 100_000}
	l := withSecret(t, o)
	seq := l.Now()
	mustAdd(t, l, tagged("operator's"), Selector{Kind: Group, Zone: "z", Origin: "https://example.com", Tag: "operator's"})
	for i := range items {
		mustInvalidate(t, l, item(i))
	}
	for range 2 {
		require.Equal(t, Gone, l.Check(page(l, "/", "operator's").at(seq)))
		require.Equal(t, Gone, l.Check(Target{Zone: "z", Origin: "https://example.com", Group: "operator's"}.subject(seq)))
		require.Equal(t, Valid, l.Check(page(l, "/", "other").at(seq)))
		require.Equal(t, Valid, l.Check(posted(1).subject(seq)))
		for i := range others {
			require.Equal(t, Valid, l.Check(item(items+i).subject(seq)))
		}
		for i := range items {
			require.Equal(t, Gone, l.Check(item(i).subject(seq)))
			require.Equal(t, Valid, l.Check(item(i).subject(l.Now())))
		}
		st := l.Stats()
		require.Equal(t, map[Kind]int{Tag: 1, Group: 1, Everything: 1}, st.Kinds)
		require.Equal(t, []int{2, 0, items + 1, 0, 0}, []int{st.Tombstones, st.Targets, st.Groups, int(st.Folded), int(st.Forgotten)})
		require.NoError(t, l.Close(background))
		l = mustNew(t, o)
		require.False(t, l.Lost())
	}
}

// Checks of what carries groups cost the same, however many were invalidated, and what
// carries none doesn't look.
func TestInvalidatedGroupsTakeOneLookUpEach(t *testing.T) {
	l := mustNew(t, Options{})
	s := NewSubject(Facts{Seq: l.Now(), Zone: "z", Scheme: "https", Host: "example.com", Groups: []string{"x", "y"}})
	require.Len(t, s.groups, 2)
	require.Empty(t, page(l, "/", "a", "b").groups)
	mustInvalidate(t, l, item(1))
	require.Nil(t, l.places[ofURLs].Load())
	require.Equal(t, 2, l.places[ofGroups].Load().used)
}

// However many targets a call has, the journal that it writes can be read.
func TestInvalidationOfMoreThanARecordHolds(t *testing.T) {
	const n, seq = 2*maxPlaced + 1, 1<<generationBits + 1
	set := invalidated{targets: n}
	for i := range uint64(n) {
		set.ids[ofGroups] = append(set.ids[ofGroups], i+1)
	}
	file := appendReached(appendGeneration(journalHeader(), 1), 1<<generationBits)
	one := len(appendPlaced(nil, seq, &invalidated{1, [tables][]uint64{{1}}})) - 16
	file, before := appendPlaced(file, seq, &set), len(file)
	require.Equal(t, 3*one+16*n, len(file)-before, "three records")
	was, err := parseJournal(file)
	require.NoError(t, err)
	require.Empty(t, was.placed[ofURLs])
	require.Equal(t, n, len(was.placed[ofGroups]))
	require.Equal(t, placed{n, seq}, was.placed[ofGroups][n-1])
}

// at is s as if it had been fetched at another number.
func (s *Subject) at(seq uint64) *Subject {
	s.seq = seq
	s.checked.Store(seq)
	return s
}
