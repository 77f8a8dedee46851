package store_test

import (
	"bytes"
	"context"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/store/disk"
)

// slow is a disk that doesn't come back from changes while it's hung: some aren't made
// then, others are.
type slow struct {
	store.SpoolTier
	mu      sync.Mutex
	hung    chan struct{}
	made    func() bool // nil: they aren't
	waiting int
}

func (d *slow) change(make func()) {
	d.mu.Lock()
	hung, made := d.hung, d.made != nil && d.made()
	if hung != nil {
		d.waiting++
	}
	d.mu.Unlock()
	if made {
		make()
	}
	if hung != nil {
		<-hung
	}
	if !made {
		make()
	}
}

func (d *slow) hang() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hung == nil {
		d.hung = make(chan struct{})
	}
}

func (d *slow) goOn() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hung != nil {
		close(d.hung)
		d.hung, d.waiting = nil, 0
	}
}

// changes returns how many changes hang.
func (d *slow) changes() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting
}

func (d *slow) Put(o *store.Object) (r store.Rejection) {
	d.change(func() { r = d.SpoolTier.Put(o) })
	return r
}

func (d *slow) Delete(k store.Key) (was bool) {
	d.change(func() { was = d.SpoolTier.Delete(k) })
	return was
}

func (d *slow) DeleteObject(o *store.Object) (was bool) {
	d.change(func() { was = d.SpoolTier.DeleteObject(o) })
	return was
}

func (d *slow) Create() (store.Spool, error) {
	s, err := d.SpoolTier.Create()
	return &slowSpool{s, d}, err
}

type slowSpool struct {
	store.Spool
	d *slow
}

func (s *slowSpool) Commit(o *store.Object) (r store.Rejection) {
	s.d.change(func() { r = s.Spool.Commit(o) })
	return r
}

func openSlow(t testing.TB, dir string) (*slow, *store.Store) {
	d, err := disk.Open(disk.Options{Dir: dir, ScanRate: -1, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, d.WaitScan(t.Context()))
	s := &slow{SpoolTier: d}
	c, err := store.New(store.Options{MemoryBytes: 1 << 20, MaxMemoryObjectBytes: 100_000, Disk: s})
	require.NoError(t, err)
	return s, c
}

// took is how long f takes.
func took(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

// related makes a key of the same family.
func related(n int) store.Key {
	k := keyOf(n)
	k[len(k)-1] = 7
	return k
}

// A disk that doesn't come back from a change holds up no URL but what is being written
// itself, each one that has something there for a second at most, and then nobody.
func TestAHungDiskHoldsUpNobody(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d, s := openSlow(t, dir)
		old := response(related(1), []byte("old"))
		s.Put(old)
		s.Put(response(related(2), []byte("old")))
		s.Put(response(related(3), []byte("old")))
		synctest.Wait()
		d.hang()
		s.Put(response(keyOf(9), []byte("its copy hangs")))
		synctest.Wait()
		require.Equal(t, 1, d.changes())

		assert.Zero(t, took(func() { require.Equal(t, store.Kept, s.Put(response(related(4), []byte("new")))) }))
		assert.Equal(t, time.Second, took(func() { require.Equal(t, store.Kept, s.Put(response(related(1), []byte("new")))) }))
		assert.Zero(t, took(func() { assert.True(t, s.Delete(related(2))) }), "the family is known to wait")
		assert.Zero(t, took(func() { assert.False(t, s.Delete(related(2))) }))
		o, _ := s.Get(related(3))
		assert.Zero(t, took(func() { s.DeleteObject(o) }))
		assert.Zero(t, took(func() { require.Equal(t, store.Kept, s.Put(response(related(1), []byte("newest")))) }))
		keys, all := s.Undeleted()
		assert.Equal(t, []store.Key{related(1), related(2), related(3)}, keys, "each once")
		assert.False(t, all)
		assert.Equal(t, int64(1), s.Stats().DiskStalls)
		// A large one isn't stored, unless it's being given its name when the disk hangs.
		large := bytes.Repeat([]byte("x"), big)
		assert.Zero(t, took(func() { assert.Equal(t, store.SwitchedOff, s.Put(response(related(5), large))) }))
		f := s.NewFill(-1)
		require.NoError(t, f.Append(t.Context(), large))
		assert.Zero(t, took(func() {
			assert.Equal(t, store.SwitchedOff, s.Keep(f, response(related(6), nil), nil))
		}))
		require.NoError(t, f.End())

		s.EvictMemory()
		for n := range 7 {
			o, _ := s.Get(related(n))
			assert.Nil(t, o, n)
		}
		d.goOn()
		synctest.Wait()
		for n := range 7 {
			_, there := d.SpoolTier.Get(related(n))
			assert.False(t, there, n)
		}
		assert.Zero(t, took(func() { require.Equal(t, store.Kept, s.Put(response(related(5), large))) }))
		require.NoError(t, s.Close(t.Context()))
	})
}

// What is written while it's replaced or deleted doesn't come back, and the caller hears
// of it while it might.
func TestReplacedWhileItIsWritten(t *testing.T) {
	for _, made := range []bool{false, true} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			d, s := openSlow(t, dir)
			d.made = func() bool { return made }
			d.hang()
			s.Put(response(related(1), []byte("old")))
			synctest.Wait()
			require.Equal(t, 1, d.changes(), "it's being written")
			s.Put(response(related(1), []byte("new")))
			keys, _ := s.Undeleted()
			assert.Equal(t, []store.Key{related(1)}, keys)
			s.Delete(related(1))
			keys, _ = s.Undeleted()
			assert.Empty(t, keys, "nothing has been written since")
			o, _ := s.Get(related(1))
			assert.Nil(t, o)
			d.goOn()
			synctest.Wait()
			_, there := d.SpoolTier.Get(related(1))
			assert.False(t, there)
			require.NoError(t, s.Close(t.Context()))
		})
	}
}

// A response that is on its way to the disk counts as the one that is there, for
// whoever comes too late with an older one.
func TestOnItsWayToTheDiskIsThere(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d, s := openSlow(t, dir)
		d.hang()
		large := response(related(1), bytes.Repeat([]byte("x"), big))
		v := variantOf(keyOf(2), keyOf(3), bytes.Repeat([]byte("x"), big), "accept")
		for _, o := range []*store.Object{large, v} {
			s.Put(o)
			var told *store.Object
			see := func(there *store.Object) bool { told = there; return false }
			late := response(o.Primary, []byte("late"))
			s.PutIf(late, see)
			require.NotNil(t, told)
			assert.Equal(t, o.RequestedAt, told.RequestedAt)
		}
		d.goOn()
		synctest.Wait()
		require.NoError(t, s.Close(t.Context()))
	})
}

// A large response whose file is being given its name when the disk hangs goes on as one
// that isn't stored, and is there when the disk comes back.
func TestTheDiskHangsInACommit(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d, s := openSlow(t, dir)
		body := bytesOf(1, big)
		f := s.NewFill(-1)
		r, _ := f.Reader(0)
		require.NoError(t, f.Append(t.Context(), body))
		d.hang()
		assert.Equal(t, time.Second, took(func() {
			assert.Equal(t, store.SwitchedOff, s.Keep(f, response(related(1), nil), nil))
		}))
		require.NoError(t, f.End())
		var got []byte
		for {
			p, err := r.Next(t.Context())
			if err != nil {
				break
			}
			got = append(got, p...)
		}
		assert.True(t, bytes.Equal(body, got))
		r.Close()
		d.goOn()
		synctest.Wait()
		o, _ := s.Get(related(1))
		require.NotNil(t, o)
		o, err := o.Load()
		require.NoError(t, err)
		assert.True(t, bytes.Equal(body, o.Body))
		require.NoError(t, s.Close(t.Context()))
	})
}

// Close doesn't wait for a disk that hangs any longer than it's told to.
func TestCloseOfAHungDisk(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d, s := openSlow(t, dir)
		d.hang()
		s.Put(response(related(1), []byte("x")))
		s.Put(response(related(2), []byte("x")))
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		assert.ErrorIs(t, s.Close(ctx), context.DeadlineExceeded)
		d.goOn()
	})
}

// Whatever hangs when: nobody finds what was replaced or deleted, neither in this process
// nor, after a crash, in the next one, unless the caller was told of it.
func TestHungDiskModel(t *testing.T) {
	for seed := range 40 {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) { newHungModel(t, dir, uint64(seed)).run(120) })
	}
}

type hungModel struct {
	t         *testing.T
	dir       string
	rand      *rand.Rand
	d         *slow
	s         *store.Store
	start     time.Time
	seq       int
	primaries []store.Key
	variants  map[store.Key][]store.Key
	least     map[store.Key]int // what is found under the key mayn't be older
	purged    map[store.Key]int // what is found after a restart is newer, or purged
}

func newHungModel(t *testing.T, dir string, seed uint64) *hungModel {
	m := &hungModel{t: t, dir: dir, rand: rand.New(rand.NewPCG(seed, 5)), start: time.Now(),
		variants: map[store.Key][]store.Key{}, least: map[store.Key]int{}, purged: map[store.Key]int{}}
	m.d, m.s = openSlow(t, dir)
	coin := rand.New(rand.NewPCG(seed, 6)) // the disk's own
	m.d.made = func() bool { return coin.IntN(2) == 0 }
	for n := range 3 {
		p := related(n)
		if n == 2 {
			p = keyOf(n)
		}
		m.primaries = append(m.primaries, p)
		for v := range 2 {
			m.variants[p] = append(m.variants[p], keyOf(10+10*n+v))
		}
	}
	return m
}

func (m *hungModel) run(steps int) {
	for step := range steps {
		m.step()
		keys, all := m.s.Undeleted()
		require.False(m.t, all)
		for _, p := range keys {
			m.purged[p] = m.seq
		}
		if m.rand.IntN(3) == 0 {
			synctest.Wait()
		}
		m.check("now", m.s.Get, false)
		if step%10 == 0 {
			m.crash()
		}
	}
	m.d.goOn()
	synctest.Wait()
	m.s.EvictMemory()
	m.check("at the end", m.s.Get, false)
	require.NoError(m.t, m.s.Close(context.Background()))
}

func (m *hungModel) step() {
	p := m.primaries[m.rand.IntN(len(m.primaries))]
	v := m.variants[p][m.rand.IntN(2)]
	size := 10
	if m.rand.IntN(3) == 0 {
		size = big / 2
	}
	m.seq++
	at := m.start.Add(time.Duration(m.seq) * time.Microsecond)
	switch m.rand.IntN(12) {
	case 0, 1, 2:
		o := response(p, make([]byte, size))
		o.RequestedAt = at
		if m.put(o) {
			m.floor(p)
		}
	case 3, 4, 5:
		o := variantOf(p, v, make([]byte, size), "accept")
		o.RequestedAt = at
		if m.put(o) {
			m.least[v], m.least[p] = m.seq, m.seq
		}
	case 6, 7:
		m.s.Delete(p)
		m.floor(p)
	case 8:
		for _, k := range []store.Key{p, v} {
			if o, _ := m.s.Get(k); o != nil {
				m.s.DeleteObject(o)
				m.least[k] = max(m.least[k], m.seqOf(o)+1)
				return
			}
		}
	case 9:
		m.s.EvictMemory()
	case 10:
		m.d.hang()
	case 11:
		m.d.goOn()
	}
}

// put reports whether o is certainly stored; if not it may be all the same.
func (m *hungModel) put(o *store.Object) bool {
	return m.s.PutIf(o, func(there *store.Object) bool {
		if there != nil {
			assert.Less(m.t, m.seqOf(there), m.seqOf(o))
		}
		return true
	}) == store.Kept
}

func (m *hungModel) floor(p store.Key) {
	m.least[p] = m.seq
	for _, v := range m.variants[p] {
		m.least[v] = m.seq
	}
}

func (m *hungModel) seqOf(o *store.Object) int {
	return int(o.RequestedAt.Sub(m.start) / time.Microsecond)
}

func (m *hungModel) check(when string, get func(store.Key) (*store.Object, *store.Index), restarted bool) {
	for p, variants := range m.variants {
		for _, k := range append([]store.Key{p}, variants...) {
			o, _ := get(k)
			if o == nil || o.IsIndex() || restarted && m.seqOf(o) <= m.purged[p] {
				continue
			}
			if m.seqOf(o) < m.least[k] {
				m.t.Fatalf("%s: step %d: number %d is found, which was replaced or deleted by %d", when, m.seq, m.seqOf(o), m.least[k])
			}
		}
	}
}

// crash looks at what another process would find if this one were killed now.
func (m *hungModel) crash() {
	synctest.Wait()
	dir := m.t.TempDir()
	require.NoError(m.t, filepath.WalkDir(m.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "LOCK" {
			return err
		}
		rel, _ := filepath.Rel(m.dir, path)
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(dir, rel)), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, rel), b, 0o600)
		}
		return err
	}))
	d, err := disk.Open(disk.Options{Dir: dir, ScanRate: -1, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(m.t, err)
	m.check("after a crash", func(k store.Key) (*store.Object, *store.Index) {
		o, ok := d.Get(k)
		if !ok {
			return nil, nil
		}
		return o, nil
	}, true)
	require.NoError(m.t, d.Close(context.Background()))
}
