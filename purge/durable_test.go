package purge

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// notingDisk notes what is asked of it, in order.
type notingDisk struct {
	osDisk
	mu  sync.Mutex
	ops []string
	err error // of create
}

func (d *notingDisk) note(op string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ops = append(d.ops, op)
}

// noted is what was asked since the last call.
func (d *notingDisk) noted() (ops []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ops, d.ops = d.ops, nil
	return ops
}

func (d *notingDisk) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

func (d *notingDisk) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

func (d *notingDisk) create(path string) (file, error) {
	d.note("create")
	if err := d.failure(); err != nil {
		return nil, err
	}
	f, err := d.osDisk.create(path)
	return notingFile{f, d}, err
}

func (d *notingDisk) rename(from, to string) error {
	d.note("rename")
	return d.osDisk.rename(from, to)
}

func (d *notingDisk) syncDir(path string) error {
	d.note("sync directory")
	return d.osDisk.syncDir(path)
}

type notingFile struct {
	file
	d *notingDisk
}

func (f notingFile) WriteAt(b []byte, at int64) (int, error) {
	f.d.note("write")
	return f.file.WriteAt(b, at)
}

func (f notingFile) Sync() error {
	f.d.note("sync")
	return f.file.Sync()
}

// What is told to be durable has been forced out: a new file before it gets its name, the
// name, and each purge where that is asked for.
func TestWhatIsForcedOutAndWhen(t *testing.T) {
	for mode, want := range map[SyncMode][]string{SyncAlways: {"write", "sync"}, SyncOS: {"write"}} {
		d := &notingDisk{}
		l, err := open(Options{Journal: filepath.Join(t.TempDir(), "j"), Logger: quiet(), Sync: mode}, d)
		require.NoError(t, err)
		assert.Equal(t, []string{"create", "write", "sync", "rename", "sync directory"}, d.noted())
		require.True(t, mustAdd(t, l, tagged("a")).Durable)
		assert.Equal(t, want, d.noted())
		require.NoError(t, l.Close(background))
	}
}

// A journal to which the same few purges are added for ever is written anew now and then.
func TestTheJournalStaysSmall(t *testing.T) {
	l := mustNew(t, Options{Journal: filepath.Join(t.TempDir(), "j"), Sync: SyncOS, compactAt: 500})
	for i := range 200 {
		mustAdd(t, l, tagged(fmt.Sprint("n", i%3)))
		require.Less(t, l.Stats().JournalBytes, int64(600))
	}
}

// A journal that can't be written is tried less and less often, and once more in the end.
func TestTheJournalIsTriedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	synctest.Test(t, func(t *testing.T) {
		d := &notingDisk{err: syscall.ENOSPC}
		l, err := open(Options{Journal: path, Logger: quiet()}, d)
		require.NoError(t, err)
		var tries []time.Duration
		d.noted()
		for began := time.Now(); len(tries) < 8; time.Sleep(time.Second / 2) {
			if synctest.Wait(); len(d.noted()) > 0 {
				tries = append(tries, time.Since(began).Round(time.Second))
			}
		}
		assert.Equal(t, []time.Duration{1e9, 3e9, 7e9, 15e9, 31e9, 61e9, 91e9, 121e9}, tries)
		d.fail(nil)
		_, err = l.Add(background, tagged("a"))
		require.ErrorIs(t, err, ErrNotDurable)
		require.NoError(t, l.Close(background))
		l, err = New(Options{Journal: path, Logger: quiet()})
		require.NoError(t, err)
		require.False(t, l.Lost() && len(l.live) < 2, "what was purged last is there")
		require.NoError(t, l.Close(background))
	})
}

// Damage in a record's length isn't taken for a record that a crash has cut off, though
// the file beside the journal would tell as well that some are missing. Nor are numbers
// taken that no process can have.
func TestOddRecordsAreDamage(t *testing.T) {
	whole := appendReached(appendGeneration(journalHeader(), 3), 3<<generationBits)
	long := appendPurge(whole, 3<<generationBits+1, []Selector{tagged("a")})
	long[len(whole)+1] ^= 1 // 256 bytes more than there are
	for name, b := range map[string][]byte{
		"length":     long,
		"number":     appendReached(whole, maxGeneration<<generationBits),
		"generation": appendGeneration(whole, maxGeneration-1),
	} {
		_, err := parseJournal(b)
		assert.ErrorIs(t, err, errDamaged, name)
	}
}

// What has been purged long ago is folded first, also where the journal has it in
// another order, as one has that was written anew.
func TestAJournalsPurgesAreFoldedByAge(t *testing.T) {
	o := Options{Journal: filepath.Join(t.TempDir(), "j"), Sync: SyncOS, MaxTombstones: 64}
	l := mustNew(t, o)
	var stored []Facts
	for i := range 64 {
		stored = append(stored, Facts{Seq: l.Now(), Zone: "z", Tags: []string{"other"}})
		mustAdd(t, l, tagged(fmt.Sprint(i)))
	}
	require.NoError(t, l.Close(background))
	l = mustNew(t, o) // writes it anew
	require.NoError(t, l.Close(background))
	o.MaxTombstones = 16
	l = mustNew(t, o)
	require.GreaterOrEqual(t, l.Stats().Tombstones, 12)
	for i, f := range stored {
		want := Gone
		if i >= 64-12 {
			want = Valid
		}
		if i < 48 || i >= 64-12 {
			assert.Equal(t, want, l.Check(NewSubject(f)), i)
		}
	}
}

// Too many purges in one zone are no other zone's.
func TestFloorsAreTheirZones(t *testing.T) {
	l := mustNew(t, Options{MaxTombstones: 8})
	mine := page(l, "/")
	another := NewSubject(Facts{Seq: l.Now(), Zone: "y", Host: "example.com", Path: "/"})
	for i := range 9 {
		mustAdd(t, l, tagged(fmt.Sprint(i)))
	}
	assert.Equal(t, Gone, l.Check(mine))
	assert.Equal(t, Valid, l.Check(another))
	assert.Equal(t, map[Kind]int{Everything: 1, Zone: 1, Tag: 6}, l.Stats().Kinds, "of everything before the list began, too")
}

// Purges of everything have a budget of their own, which those of a zone without a name
// don't use up.
func TestEverythingHasABudgetOfItsOwn(t *testing.T) {
	l := mustNew(t, Options{Rate: 1, Burst: 2})
	for _, kind := range []Kind{Zone, Everything} {
		var applied []int
		for range 3 {
			res, err := l.Submit(background, Selector{Kind: kind})
			require.NoError(t, err)
			applied = append(applied, res.Applied)
		}
		assert.Equal(t, []int{1, 1, 0}, applied, kind)
	}
}

// A subject keeps no more of a path than prefixes are compared with.
func TestALongPathTakesLittleMemory(t *testing.T) {
	l := mustNew(t, Options{})
	s := page(l, "/"+strings.Repeat("a", 1<<20))
	assert.Less(t, s.Weight(), int64(MaxPrefixBytes+1000))
	mustAdd(t, l, Selector{Kind: Prefix, Zone: "z", Host: "example.com", Path: "/aaa"})
	assert.Equal(t, Gone, l.Check(s))
}

// Groups that were inherited count although there are too many tags beside them.
func TestInheritedGroupsAmongTooManyTags(t *testing.T) {
	l := mustNew(t, Options{})
	f := Facts{Seq: l.Now(), Zone: "z", Scheme: "https", Host: "h"}
	old, full := f, f
	old.Groups = []string{"g"}
	for i := range MaxTags {
		full.Tags = append(full.Tags, fmt.Sprint(i))
	}
	s := NewSubject(full)
	s.Inherit(NewSubject(old))
	mustInvalidate(t, l, Target{Zone: "z", Origin: "https://h", Group: "g"})
	assert.Equal(t, Gone, l.Check(s))
}

// What cells have forgotten isn't forgotten when there are more of them.
func TestFloorsGrowWithThePlaces(t *testing.T) {
	p := newPlaces([2]uint64{1, 2}, fewestBits)
	p.most = fewestBits
	for id := uint64(1); p.forgotten == 0; id++ {
		p = p.with(id, id)
	}
	g := p.grown()
	assert.Equal(t, p.newest.Load(), g.newest.Load())
	assert.Equal(t, p.most, g.most)
	for i := range p.cells {
		for half := range 2 {
			assert.Equal(t, p.cells[i].floor.Load(), g.cells[2*i+half].floor.Load())
		}
	}
	for id := uint64(1); id <= p.newest.Load(); id++ {
		assert.True(t, g.later(id, id-1), id)
	}
}

// Keyed sees what was written; what it makes of that is canonical again for who says
// whether it's allowed.
func TestKeyedSeesWhatWasWritten(t *testing.T) {
	l := mustNew(t, Options{})
	var keyed, allowed string
	h := mustHandler(t, HandlerOptions{
		List: l, Authorise: anyone,
		Keyed: func(s *Selector) {
			keyed = s.Query
			s.Query = strings.TrimPrefix(s.Query, "utm=1&")
		},
		Allow: func(_ string, s Selector) error {
			allowed = s.Query
			return errors.New("no")
		},
	})
	w := post(h, `{"purge":[{"kind":"exact-url","host":"h","path":"/","query":"utm=1&b=%7e&a=1"}]}`)
	assert.Equal(t, 403, w.Code)
	assert.Equal(t, "utm=1&b=%7e&a=1", keyed)
	assert.Equal(t, "a=1&b=~", allowed)
}
