package purge

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// faultyDisk fails when told to.
type faultyDisk struct {
	osDisk
	readErr error

	mu       sync.Mutex
	err      error
	syncs    int
	noUpdate bool // not even bytes that are there can be changed
	block    chan struct{}
}

func (d *faultyDisk) set(err error) {
	d.mu.Lock()
	d.err = err
	d.mu.Unlock()
}

func (d *faultyDisk) get() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

func (d *faultyDisk) read(path string) ([]byte, error) {
	if d.readErr != nil {
		return nil, d.readErr
	}
	return d.osDisk.read(path)
}

func (d *faultyDisk) create(path string) (file, error) {
	if err := d.get(); err != nil {
		return nil, err
	}
	f, err := d.osDisk.create(path)
	return faultyFile{f, d}, err
}

type faultyFile struct {
	file
	d *faultyDisk
}

func (f faultyFile) WriteAt(b []byte, at int64) (int, error) {
	if f.d.block != nil {
		<-f.d.block
	}
	if err := f.d.get(); err != nil && (at != dirtyAt || f.d.noUpdate) {
		n, _ := f.file.WriteAt(b[:len(b)/2], at)
		return n, err
	}
	return f.file.WriteAt(b, at)
}

func (f faultyFile) Sync() error {
	f.d.mu.Lock()
	f.d.syncs++
	f.d.mu.Unlock()
	return f.file.Sync()
}

// The disk is full for a while: purges work and say that they aren't durable; the
// journal recovers by itself; a crash before it has loses nothing.
func TestDiskFull(t *testing.T) {
	for _, noUpdate := range []bool{false, true} {
		t.Run(fmt.Sprint(noUpdate), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "j")
			synctest.Test(t, func(t *testing.T) {
				d := &faultyDisk{noUpdate: noUpdate}
				o := Options{Journal: path, Logger: quiet()}
				l, err := open(o, d)
				require.NoError(t, err)
				first := l.Now()
				mustAdd(t, l, tagged("before"))
				d.set(syscall.ENOSPC)
				for range 3 {
					res, err := l.Add(background, tagged("full"))
					require.ErrorIs(t, err, ErrNotDurable)
					require.ErrorIs(t, err, syscall.ENOSPC)
					require.Equal(t, 1, res.Applied)
					require.False(t, res.Durable)
					require.Equal(t, Gone, l.Check(NewSubject(Facts{Seq: first, Zone: "z", Tags: []string{"full"}})))
					time.Sleep(2 * time.Second)
				}
				require.True(t, l.Stats().JournalFailed)

				// As a process would see it that begins after a crash now.
				was, err := readJournal(osDisk{}, path)
				require.Error(t, err, "it must not trust the file")
				require.True(t, noUpdate || was.generation == first>>generationBits)

				d.set(nil)
				time.Sleep(retryMost + time.Second)
				require.False(t, l.Stats().JournalFailed, "recovered without a purge")
				require.True(t, mustAdd(t, l, tagged("after")).Durable)
				require.NoError(t, l.Close(background))
				was, err = readJournal(osDisk{}, path)
				require.NoError(t, err)
				require.Len(t, was.purges, 4) // three tags, and everything of before
			})
		})
	}
}

// A rewrite that fails leaves a journal that works.
func TestCompactionFails(t *testing.T) {
	d := &faultyDisk{}
	l, err := open(Options{Journal: filepath.Join(t.TempDir(), "j"), Logger: quiet(), compactAt: 200}, renamesFail{d})
	require.NoError(t, err)
	d.set(errors.New("no rename"))
	for i := range 40 {
		require.True(t, mustAdd(t, l, tagged(fmt.Sprint(i))).Durable)
	}
	require.NoError(t, l.Close(background))
	was, err := readJournal(osDisk{}, l.opt.Journal)
	require.NoError(t, err)
	require.Len(t, was.purges, 41)
}

type renamesFail struct{ d *faultyDisk }

func (r renamesFail) read(path string) ([]byte, error) { return r.d.osDisk.read(path) }
func (r renamesFail) create(path string) (file, error) { return r.d.osDisk.create(path) }
func (r renamesFail) remove(path string) error         { return r.d.remove(path) }
func (r renamesFail) syncDir(path string) error        { return r.d.syncDir(path) }
func (r renamesFail) rename(from, to string) error {
	if err := r.d.get(); err != nil {
		return err
	}
	return r.d.osDisk.rename(from, to)
}

// A disk that hangs holds up no purge longer than its context says, and the memory
// for what waits is bounded; when the disk is back, all of it is durable.
func TestDiskHangs(t *testing.T) {
	t.Parallel()
	d := &faultyDisk{}
	path := filepath.Join(t.TempDir(), "j")
	l, err := open(Options{Journal: path, Logger: quiet(), MaxTombstones: 1 << 20}, d)
	require.NoError(t, err)
	first := l.Now()
	d.block = make(chan struct{})
	ended, cancel := context.WithCancel(background)
	cancel()
	big, long := make([]Selector, MaxSelectors), strings.Repeat("0", 990)
	for i := range 10 {
		for j := range big {
			big[j] = tagged(fmt.Sprint(long, i, " ", j))
		}
		res, err := l.Add(ended, big...)
		require.ErrorIs(t, err, ErrNotDurable)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, len(big), res.Applied)
	}
	l.mu.Lock()
	require.Less(t, len(l.pending.buf), maxPending+2*len(big)*1100)
	l.mu.Unlock()
	close(d.block)
	require.True(t, mustAdd(t, l, tagged("after")).Durable)
	require.NoError(t, l.Close(background))
	l = mustNew(t, Options{Journal: path, MaxTombstones: 1 << 20})
	for i := range 10 {
		tag := fmt.Sprint(long, i, " ", 7)
		require.Equal(t, Gone, l.Check(NewSubject(Facts{Seq: first, Zone: "z", Tags: []string{tag}})))
	}
}

// Many at once wait for few writes.
func TestGroupCommit(t *testing.T) {
	d := &faultyDisk{}
	l, err := open(Options{Journal: filepath.Join(t.TempDir(), "j"), Logger: quiet()}, d)
	require.NoError(t, err)
	d.block = make(chan struct{})
	before := d.syncs
	var wg sync.WaitGroup
	const n = 50
	for i := range n {
		wg.Go(func() { mustAdd(t, l, tagged(fmt.Sprint(i))) })
	}
	for l.Now()&0xff < n {
		runtime.Gosched()
	}
	close(d.block)
	wg.Wait()
	assert.LessOrEqual(t, d.syncs-before, 3)
	require.NoError(t, l.Close(background))
}
