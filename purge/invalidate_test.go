package purge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// withSecret makes what collides the same in each run.
func withSecret(tb testing.TB, o Options) *List {
	l := mustNew(tb, o)
	l.secret = [2]uint64{0x9E3779B97F4A7C15, 0xD1B54A32D192ED03}
	return l
}

func posted(i int) Target {
	return Target{Zone: "z", Host: "example.com", Path: "/posted", Query: fmt.Sprint("n=", i)}
}

func (t Target) subject(seq uint64) *Subject {
	f := Facts{Seq: seq, Zone: t.Zone, Host: t.Host, Path: t.Path, Query: t.Query, Key: t.Key}
	if t.Origin != "" {
		f.Scheme, f.Host, _ = strings.Cut(t.Origin, "://")
		f.Groups = []string{t.Group}
	}
	return NewSubject(f)
}

func mustInvalidate(tb testing.TB, l *List, targets ...Target) Result {
	tb.Helper()
	res, err := l.Invalidate(background, targets...)
	require.NoError(tb, err)
	return res
}

// What a target matches, and what it leaves alone.
func TestTargetsMatch(t *testing.T) {
	subject := Facts{Zone: "shop", Host: "Example.com:443", Path: "/a/%7euser/b%2fc", Query: "b=2&a=1", Key: key(1)}
	tests := []struct {
		target Target
		want   Verdict
	}{
		{Target{Zone: "shop", Host: "example.COM.", Path: "/a/~user/b%2Fc", Query: "a=1&b=2"}, Gone},
		{Target{Zone: "shop", Host: "example.com", Path: "/a/~user/b%2Fc", Query: "b=2&&a=1"}, Gone},
		{Target{Zone: "shop", Host: "example.com", Path: "/a/~user/b%2Fc", Query: "b=2"}, Valid},
		{Target{Zone: "shop", Host: "example.com", Path: "/a/~user/b%2Fc"}, Valid},
		{Target{Zone: "shop", Host: "example.com", Path: "/a/~user/b/c", Query: "b=2&a=1"}, Valid},
		{Target{Zone: "shop", Host: "example.org", Path: "/a/~user/b%2Fc", Query: "b=2&a=1"}, Valid},
		{Target{Zone: "Shop", Host: "example.com", Path: "/a/~user/b%2Fc", Query: "b=2&a=1"}, Valid},
		{Target{Zone: "shope", Host: "xample.com", Path: "/a/~user/b%2Fc", Query: "b=2&a=1"}, Valid},
		{Target{Key: key(1)}, Gone},
		{Target{Zone: "shop", Key: key(1)}, Gone},
		{Target{Zone: "shop", Key: [32]byte{9}}, Valid},
		{Target{}, Valid},
		{Target{Zone: "shop", Host: "a*b\n", Path: "nonsense", Query: "#\x00"}, Valid},
	}
	for _, tt := range tests {
		l := mustNew(t, Options{})
		subject.Seq = l.Now()
		s := NewSubject(subject)
		res := mustInvalidate(t, l, tt.target)
		assert.Equal(t, Result{Seq: subject.Seq + 1, Applied: 1}, res)
		assert.Equal(t, tt.want, l.Check(s), tt.target)
		assert.Equal(t, tt.want, l.Check(s), "again: %v", tt.target)
		subject.Seq = l.Now()
		assert.Equal(t, Valid, l.Check(NewSubject(subject)), "fetched after: %v", tt.target)
	}
	l := mustNew(t, Options{})
	before := l.Now()
	assert.Equal(t, Result{}, mustInvalidate(t, l))
	assert.Equal(t, before, l.Now())
	require.NoError(t, l.Close(background))
	_, err := l.Invalidate(background, posted(1))
	assert.ErrorIs(t, err, ErrClosed)
}

// A visitor has 100,000 URLs invalidated: those are, and of what else is stored each
// survives with a probability of 99.98 %. All of it survives a restart, in a journal
// that doesn't grow without bound, and the operator's purges are still there one by
// one.
func TestManyInvalidationsCostNothingElse(t *testing.T) {
	t.Parallel()
	const posts, others = 100_000, 10_000
	o := Options{Journal: filepath.Join(t.TempDir(), "j"), Sync: SyncOS, Logger: quiet()}
	l := withSecret(t, o)
	seq := l.Now()
	mustAdd(t, l, tagged("operator's"))
	hot := Target{Zone: "z", Host: "example.com", Path: "/hot"}
	other := func(i int) Target { return Target{Zone: "z", Host: "example.com", Path: fmt.Sprint("/other/", i)} }
	var most int64
	batch := make([]Target, 100)
	for i := 0; i < posts; i += len(batch) {
		for j := range batch {
			batch[j] = posted(i + j)
		}
		mustInvalidate(t, l, batch...)
		most = max(most, l.Stats().JournalBytes)
	}
	check := func() {
		t.Helper()
		require.Equal(t, Valid, l.Check(hot.subject(seq)))
		lost := 0
		for i := range others {
			if l.Check(other(i).subject(seq)) != Valid {
				lost++
			}
		}
		require.LessOrEqual(t, lost, others/1000, "2 are expected")
		for i := 0; i < posts; i += 7 {
			if got := l.Check(posted(i).subject(seq)); got != Gone {
				require.Equal(t, Gone, got, i)
			}
		}
		require.Equal(t, Valid, l.Check(posted(0).subject(l.Now())))
		st := l.Stats()
		require.Equal(t, 2, st.Tombstones+st.Kinds[Everything], "the tag, and everything of before")
		require.LessOrEqual(t, st.Targets, posts)
		require.Greater(t, st.Targets, posts-posts/100)
	}
	check()
	require.Less(t, most, int64(5<<20))
	require.NoError(t, l.Close(background))
	l = mustNew(t, o)
	require.False(t, l.Lost())
	require.Less(t, l.Stats().JournalBytes, int64(posts*17))
	check()
	require.NoError(t, l.Close(background))
}

// With more than can be remembered, memory and journal stay bounded, and nothing that
// was invalidated comes back, not even by a restart.
func TestInvalidationsBeyondTheBound(t *testing.T) {
	t.Parallel()
	const calls, each, bits = 300, 40, 10
	o := Options{mostBits: bits, compactAt: 100_000, Journal: filepath.Join(t.TempDir(), "j"), Sync: SyncOS, Logger: quiet()}
	l := withSecret(t, o)
	stored := l.Now()
	w := rand.New(rand.NewPCG(1, 2))
	ids := make([]uint64, calls*each)
	for i := range ids {
		ids[i] = 1 + w.Uint64N(math.MaxUint64)
	}
	for i := range calls {
		_, err := l.addAll(background, nil, &invalidated{each, [tables][]uint64{ofURLs: ids[i*each : (i+1)*each]}})
		require.NoError(t, err)
	}
	recent := l.Now()
	check := func(i int, seq uint64) Verdict {
		s := &Subject{seq: seq, places: [2]uint64{ids[i], 1}}
		s.checked.Store(seq)
		return l.Check(s)
	}
	for range 2 {
		for i := 0; i < len(ids); i += 7 {
			require.Equal(t, Gone, check(i, stored))
			require.Equal(t, Gone, check(i, stored+uint64(i/each)), "fetched just before")
			require.Equal(t, Valid, check(i, recent))
		}
		st := l.Stats()
		require.LessOrEqual(t, st.Targets, cellRoom<<bits)
		require.NotZero(t, st.Forgotten)
		require.Less(t, st.JournalBytes, int64(400_000))
		require.NoError(t, l.Close(background))
		l = mustNew(t, o)
	}
}

// Random places against a model that forgets nothing: they never say less, and while
// they can grow, exactly as much. Written down and read in any order, they still don't.
func TestPlacesModel(t *testing.T) {
	for seed := range uint64(6) {
		w := rand.New(rand.NewPCG(seed, 3))
		p := newPlaces([2]uint64{w.Uint64(), w.Uint64()}, fewestBits)
		model := map[uint64]uint64{}
		ids := make([]uint64, 1+w.IntN(20_000))
		for i := range ids {
			ids[i] = 1 + w.Uint64N(math.MaxUint64)
		}
		for seq := uint64(1); seq <= uint64(len(ids)); seq++ {
			id := ids[w.IntN(len(ids))]
			p = p.with(id, seq)
			model[id] = seq
		}
		check := func(p *places) {
			t.Helper()
			require.Equal(t, []int{len(model), 0}, []int{p.used, int(p.forgotten)})
			for range 1000 {
				id, low := ids[w.IntN(len(ids))], w.Uint64N(uint64(len(ids))+2)
				require.Equal(t, model[id] > low, p.later(id, low), "seed %d", seed)
			}
		}
		check(p)
		file := appendReached(appendPlaces(appendGeneration(journalHeader(), 1), ofGroups, p), 1<<generationBits)
		was, err := parseJournal(file)
		require.NoError(t, err)
		placed := was.placed[ofGroups]
		w.Shuffle(len(placed), func(i, j int) { placed[i], placed[j] = placed[j], placed[i] })
		l := mustNew(t, Options{})
		l.restorePlaces(was)
		check(l.places[ofGroups].Load())
	}
}

// A cell that is full forgets its oldest number, in whatever order numbers come, and
// says yes for all that is older.
func TestFullCell(t *testing.T) {
	for seed := range uint64(100) {
		w := rand.New(rand.NewPCG(seed, 4))
		p := newPlaces([2]uint64{w.Uint64(), w.Uint64()}, 8)
		p.most = 8
		var same []uint64 // ids of one cell
		for id := uint64(1); len(same) < 12; id++ {
			if p.cell(id) == p.cell(1) {
				same = append(same, id)
			}
		}
		latest := map[uint64]uint64{}
		for range 40 {
			id, seq := same[w.IntN(len(same)-1)], 1+w.Uint64N(50)
			if w.IntN(2) == 0 { // as while a list runs
				seq = p.newest.Load() + 1
			}
			require.Same(t, p, p.with(id, seq))
			latest[id] = max(latest[id], seq)
			for id, seq := range latest {
				require.True(t, p.later(id, seq-1))
			}
			require.False(t, p.later(same[11], p.newest.Load()))
		}
		require.LessOrEqual(t, p.used, cellRoom)
	}
}

// Invalidations and checks at once, while the places grow: what was invalidated before
// a check began is never valid.
func TestConcurrentInvalidations(t *testing.T) {
	l := mustNew(t, Options{})
	const total = 8_000
	subjects := make([]*Subject, total)
	for i := range subjects {
		subjects[i] = posted(i).subject(l.Now())
	}
	var done atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range total {
			mustInvalidate(t, l, posted(i))
			done.Store(int64(i + 1))
		}
	})
	for range 3 {
		wg.Go(func() {
			for n := int64(0); n < total; {
				n = done.Load()
				for i := max(0, n-100); i < n; i++ {
					if !assert.Equal(t, Gone, l.Check(subjects[i])) {
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

// Neither what is checked nor what is invalidated allocates much.
func TestInvalidateAllocations(t *testing.T) {
	l := mustNew(t, Options{})
	s := posted(-1).subject(l.Now())
	for i := range 1000 {
		mustInvalidate(t, l, posted(i))
	}
	testnet.Allocs(t, 0, func() {
		s.checked.Store(s.seq)
		l.Check(s)
	})
	target := posted(5)
	testnet.Allocs(t, 2, func() { mustInvalidate(t, l, target) })
}

// The order in which parameters come is known to be right without sorting them.
func TestInOrder(t *testing.T) {
	for _, query := range []string{"", "a", "a&b", "b&a", "a&&b", "&a", "a&", "a=2&a=1", "a&a", "&"} {
		assert.Equal(t, sortedQuery(query) == query, inOrder(query), query)
	}
}
