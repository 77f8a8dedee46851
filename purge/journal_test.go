package purge

import (
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var allKinds = []Selector{
	{Kind: Zone, Zone: "other"}, {Kind: Host, Zone: "z", Host: "a"},
	{Kind: URL, Zone: "z", Host: "b", Path: "/u"}, {Kind: ExactURL, Zone: "z", Host: "b", Path: "/e", Query: "q=1"},
	{Kind: Prefix, Zone: "z", Host: "b", Path: "/p/", Soft: true}, {Kind: Tag, Zone: "z", Tag: "\xfft"},
	{Kind: Group, Zone: "z", Origin: "https://b", Tag: "g"}, {Kind: Key, Zone: "z", Key: key(3)},
}

// everyKind are responses that allKinds match, one each, and one that none does.
func everyKind(seq uint64) (hit []*Subject, miss *Subject) {
	for _, f := range []Facts{
		{Zone: "other"}, {Host: "a"}, {Host: "b", Path: "/u", Query: "x"}, {Host: "b", Path: "/e", Query: "q=1"},
		{Host: "b", Path: "/p/x"}, {Tags: []string{"\xfft"}}, {Scheme: "https", Host: "b", Groups: []string{"g"}}, {Key: key(3)},
	} {
		if f.Seq = seq; f.Zone == "" {
			f.Zone = "z"
		}
		hit = append(hit, NewSubject(f))
	}
	return hit, NewSubject(Facts{Seq: seq, Zone: "z", Host: "c", Path: "/", Tags: []string{"other"}})
}

func assertAll(t *testing.T, l *List, seq uint64) {
	t.Helper()
	hit, miss := everyKind(seq)
	for i, s := range hit {
		want := Gone
		if allKinds[i].Soft {
			want = Stale
		}
		require.Equal(t, want, l.Check(s), allKinds[i])
	}
	require.Equal(t, Valid, l.Check(miss))
}

func TestJournalSurvivesRestarts(t *testing.T) {
	o := Options{Journal: filepath.Join(t.TempDir(), "j"), Logger: quiet(), compactAt: 1}
	l := mustNew(t, o)
	assert.True(t, l.Lost(), "there was none")
	first := l.Now()
	res := mustAdd(t, l, allKinds...)
	assert.True(t, res.Durable)
	assertAll(t, l, first)
	for generation := range uint64(3) {
		require.NoError(t, l.Close(background))
		_, err := l.Add(background, tagged("late"))
		require.ErrorIs(t, err, ErrClosed)
		l = mustNew(t, o)
		assert.False(t, l.Lost())
		assert.GreaterOrEqual(t, l.Now()>>generationBits, first>>generationBits+1+generation)
		assertAll(t, l, first)
		_, miss := everyKind(res.Seq)
		assert.Equal(t, Valid, l.Check(miss))
	}
	_, err := New(o)
	assert.ErrorIs(t, err, ErrInUse)
}

func TestJournalKeepsFloors(t *testing.T) {
	o := Options{Journal: filepath.Join(t.TempDir(), "j"), Sync: SyncOS, MaxTombstones: 8, compactAt: 100}
	l := mustNew(t, o)
	seq := l.Now()
	for i := range 50 {
		mustAdd(t, l, tagged(fmt.Sprint(i)))
	}
	require.NoError(t, l.Close(background))
	l = mustNew(t, o)
	assert.LessOrEqual(t, l.Stats().Tombstones, 8)
	for i := range 50 {
		assert.Equal(t, Gone, l.Check(NewSubject(Facts{Seq: seq, Zone: "z", Tags: []string{fmt.Sprint(i)}})))
	}
}

// written returns a journal with three purges and where each of its records ends.
func written(t *testing.T, o Options) (file []byte, first uint64, ends []int) {
	l := mustNew(t, o)
	first = l.Now()
	for _, s := range []Selector{tagged("a"), {Kind: Prefix, Zone: "z", Host: "h", Path: "/p"}, tagged("c")} {
		mustAdd(t, l, s)
		i, err := os.Stat(o.Journal)
		require.NoError(t, err)
		ends = append(ends, int(i.Size()))
	}
	require.NoError(t, l.Close(background))
	file, err := os.ReadFile(o.Journal)
	require.NoError(t, err)
	return file, first, ends
}

func threePurged(first uint64) []*Subject {
	return []*Subject{
		NewSubject(Facts{Seq: first, Zone: "z", Tags: []string{"a"}}),
		NewSubject(Facts{Seq: first, Zone: "z", Host: "h", Path: "/p/x"}),
		NewSubject(Facts{Seq: first, Zone: "z", Tags: []string{"c"}}),
	}
}

// Whatever byte is damaged, what was purged stays so.
func TestJournalDamage(t *testing.T) {
	o := Options{Journal: filepath.Join(t.TempDir(), "j"), Logger: quiet(), Sync: SyncOS}
	file, first, _ := written(t, o)
	for i := range file {
		bad := append([]byte(nil), file...)
		bad[i] ^= 1 << (i % 8)
		require.NoError(t, os.WriteFile(o.Journal, bad, 0o600))
		l := mustNew(t, o)
		require.True(t, l.Lost() || i > dirtyAt && i < headerBytes, "byte %d", i) // some are reserved
		for _, s := range threePurged(first) {
			require.Equal(t, Gone, l.Check(s), "byte %d", i)
		}
		require.Greater(t, l.Now(), first+3)
		require.NoError(t, l.Close(background))
	}
}

// Wherever a crash cuts the file, the records before are in effect and nothing else
// is lost; a cut in the first write can't happen, because that is renamed. But where
// the file had come further, as the one beside it says, purges are missing, even if
// the cut is exactly at a record's end.
func TestJournalTorn(t *testing.T) {
	t.Parallel()
	o := Options{Journal: filepath.Join(t.TempDir(), "j"), Logger: quiet(), Sync: SyncOS}
	file, first, ends := written(t, o)
	beside, err := os.ReadFile(o.Journal + ".lock")
	require.NoError(t, err)
	for cut := range file {
		whole := 0 // records before the cut
		for whole < len(ends) && cut >= ends[whole] {
			whole++
		}
		asOfCrash := progress{first >> generationBits, first + uint64(whole)}.text()
		for _, crash := range []bool{true, false} {
			require.NoError(t, os.WriteFile(o.Journal, file[:cut], 0o600))
			require.NoError(t, os.WriteFile(o.Journal+".lock", beside, 0o600))
			if crash {
				require.NoError(t, os.WriteFile(o.Journal+".lock", []byte(asOfCrash), 0o600))
			}
			l := mustNew(t, o)
			_, err := parseJournal(file[:cut])
			require.Equal(t, !crash || err != nil, l.Lost(), "cut at %d, %t", cut, crash)
			require.True(t, err == nil || cut < ends[0], "cut at %d", cut)
			for i, s := range threePurged(first) {
				if l.Lost() || i < whole {
					require.Equal(t, Gone, l.Check(s), "cut at %d", cut)
				} else {
					require.Equal(t, Valid, l.Check(s), "cut at %d", cut)
				}
			}
			require.NoError(t, l.Close(background))
		}
	}
}

func TestJournalMissingOrUnreadable(t *testing.T) {
	o := Options{Journal: filepath.Join(t.TempDir(), "j"), Logger: quiet()}
	_, first, _ := written(t, o)
	for _, lose := range [][]string{{o.Journal}, {o.Journal, o.Journal + ".lock"}} {
		for _, path := range lose {
			require.NoError(t, os.Remove(path))
		}
		l := mustNew(t, o)
		assert.True(t, l.Lost())
		if len(lose) == 1 { // else the clock has to have gone on by a second
			assert.Equal(t, Gone, l.Check(NewSubject(Facts{Seq: first})), "by the copy of the generation")
		}
		require.NoError(t, l.Close(background))
	}

	d := &faultyDisk{readErr: fs.ErrPermission}
	l, err := open(o, d)
	require.NoError(t, err)
	assert.True(t, l.Lost())
	require.NoError(t, l.Close(background))
}

// A process that begins while the disk is full knows what was purged before it, and
// writes its journal as soon as it can. If it ends before, nothing that it purged comes
// back.
func TestBeginsWhileTheDiskIsFull(t *testing.T) {
	for _, recovers := range []bool{true, false} {
		o := Options{Journal: filepath.Join(t.TempDir(), "j"), Logger: quiet()}
		synctest.Test(t, func(t *testing.T) {
			l, err := New(o)
			require.NoError(t, err)
			facts := func(l *List, tag string) Facts { return Facts{Seq: l.Now(), Zone: "z", Tags: []string{tag}} }
			before, kept := facts(l, "before"), facts(l, "kept")
			mustAdd(t, l, tagged("before"))
			require.NoError(t, l.Close(background))

			d := &faultyDisk{}
			d.set(syscall.ENOSPC)
			l, err = open(o, d)
			require.NoError(t, err)
			require.False(t, l.Lost())
			require.True(t, l.Stats().JournalFailed)
			require.Equal(t, Gone, l.Check(NewSubject(before)))
			during := facts(l, "during")
			_, err = l.Add(background, tagged("during"))
			require.ErrorIs(t, err, ErrNotDurable)
			require.Equal(t, Gone, l.Check(NewSubject(during)))
			if recovers {
				d.set(nil)
				time.Sleep(retryMost + time.Second)
				require.False(t, l.Stats().JournalFailed)
				require.True(t, mustAdd(t, l, tagged("after")).Durable)
				require.NoError(t, l.Close(background))
			} else {
				time.Sleep(10 * retryMost)
				require.ErrorIs(t, l.Close(background), syscall.ENOSPC)
			}

			l, err = New(o)
			require.NoError(t, err)
			require.Equal(t, !recovers, l.Lost())
			require.Equal(t, Gone, l.Check(NewSubject(before)))
			require.Equal(t, Gone, l.Check(NewSubject(during)))
			require.Equal(t, !recovers, l.Check(NewSubject(kept)) == Gone)
			require.NoError(t, l.Close(background))
		})
	}
}

// Whatever a file holds, reading it doesn't panic, and what is read can be written.
func FuzzJournal(f *testing.F) {
	valid := appendReached(appendGeneration(journalHeader(), 3), 3<<generationBits)
	valid = appendPurge(valid, 3<<generationBits+1, []Selector{tagged("a"), allKinds[7]})
	placed := appendPlaces(valid, ofGroups, newPlaces([2]uint64{1, 2}, fewestBits).with(7, 8))
	f.Add(appendPlaced(placed, 3<<generationBits+2, &invalidated{1, [tables][]uint64{{9}, {10, 11}}}))
	f.Add(valid)
	f.Add(valid[:len(valid)-3])
	hostile, _ := hex.DecodeString("50ffffffff7fffffffffffffffff01")
	f.Add(seal(append(append(journalHeader(), make([]byte, recordHead)...), hostile...), headerBytes))
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := parseJournal(b)
		if err != nil {
			return
		}
		again := appendGeneration(journalHeader(), out.generation)
		for _, p := range out.purges {
			again = appendPurge(again, p.seq, []Selector{p.sel})
		}
		for i := range tables {
			if out.places[i] != nil {
				again = appendPlaces(again, i, out.places[i])
			}
			for _, p := range out.placed[i] {
				set := invalidated{targets: 1}
				set.ids[i] = []uint64{p.id}
				again = appendPlaced(again, p.seq, &set)
			}
		}
		again = appendReached(again, out.reached)
		back, err := parseJournal(again)
		require.NoError(t, err)
		require.Equal(t, out.purges, back.purges)
		require.Equal(t, out.generation, back.generation)
		require.Equal(t, out.reached, back.reached)
		require.Equal(t, out.places, back.places)
		require.Equal(t, out.placed, back.placed)
	})
}
