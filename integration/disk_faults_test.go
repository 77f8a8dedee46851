package integration

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/middleware"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/store/disk"
)

// faultRig is the proxy with a disk in the tests' own process, where its counters
// can be seen. Memory is too small for the large pages.
type faultRig struct {
	*inProcess
	t       *testing.T
	origin  *versioned
	objects string
	journal string
	client  *http.Client
	log     lockedBuffer
	end     func()
	large   *versionedPage
}

func newFaultRig(t *testing.T, objects, journal string) *faultRig {
	r := &faultRig{inProcess: &inProcess{}, t: t, origin: startVersioned(t, 24), objects: objects, journal: journal, client: newClient(t)}
	r.large = r.origin.pages[11]
	require.EqualValues(t, 3<<20, r.large.size)
	r.begin()
	t.Cleanup(func() { r.end() })
	return r
}

func (r *faultRig) begin() {
	r.t.Helper()
	log := slog.New(slog.NewTextHandler(&r.log, nil))
	tier, err := disk.Open(disk.Options{Dir: r.objects, MaxBytes: 256 << 20, Logger: log})
	require.NoError(r.t, err)
	r.end = r.start(r.t, r.origin.url, middleware.Options{
		Store:  store.Options{MemoryBytes: 1 << 20, Disk: tier},
		Purge:  middleware.PurgeOptions{List: purge.Options{Journal: r.journal}, TagFields: []purge.TagField{{Name: "Surrogate-Key"}}},
		Logger: log,
	})
}

func (r *faultRig) restart() {
	r.t.Helper()
	r.client.CloseIdleConnections()
	r.end()
	r.begin()
}

// get expects a whole and current page, and returns the cache's status.
func (r *faultRig) get(p *versionedPage) string {
	r.t.Helper()
	status, err := p.get(r.client, r.url)
	require.NoError(r.t, err)
	require.NotEmpty(r.t, status, "no whole answer for %s", p.path)
	return status
}

// all gets every page some times.
func (r *faultRig) all(times int) {
	r.t.Helper()
	for range times {
		for _, p := range r.origin.pages {
			r.get(p)
		}
	}
}

// settle waits until nothing is to be written to the disk any more.
func (r *faultRig) settle() {
	r.t.Helper()
	eventually(r.t, "all is written", func() bool { return r.mw.Stats().DiskQueued == 0 })
}

// change changes all pages and purges them. What was before must not be seen any
// more, even if the purge can't be written down just now; the error says that.
func (r *faultRig) change() error {
	r.t.Helper()
	for _, p := range r.origin.pages {
		p.version.Add(1)
	}
	_, err := r.mw.Purge(r.t.Context(), purge.Selector{Kind: purge.Tag, Tag: "all"})
	for _, p := range r.origin.pages {
		p.raise(p.version.Load())
	}
	return err
}

// purgeUntilFull purges this and that until the journal can't be written.
func (r *faultRig) purgeUntilFull() {
	r.t.Helper()
	for i := range 1000 {
		_, err := r.mw.Purge(r.t.Context(), purge.Selector{Kind: purge.Tag, Tag: fmt.Sprint("nobody has it ", i)})
		if err != nil {
			require.ErrorIs(r.t, err, purge.ErrNotDurable)
			return
		}
	}
	r.t.Fatal("the journal is written although there's no room")
}

// errorLines are what an operator is told to look after.
func (r *faultRig) errorLines() (lines []string) {
	for line := range strings.Lines(r.log.String()) {
		if strings.Contains(line, "level=ERROR") || strings.Contains(line, "level=WARN") {
			lines = append(lines, line)
		}
	}
	return lines
}

// toldOnce expects one line about the disk, which names the directory and the cause,
// and one fault in the counters.
func (r *faultRig) toldOnce(cause error) {
	r.t.Helper()
	assert.EqualValues(r.t, 1, r.mw.Stats().Disk.SwitchedOff)
	var told []string
	for _, line := range r.errorLines() {
		if strings.Contains(line, "disk cache switched off") {
			told = append(told, line)
		}
	}
	if assert.Len(r.t, told, 1) {
		assert.Contains(r.t, told[0], r.objects)
		assert.Contains(r.t, told[0], cause.Error())
	}
}

// takesAgain waits until the disk keeps large pages again, which only it can.
//
// The tier has waited up to a second, then two, four and so on, so that this takes
// about as long as the fault did; it never waits for more than a minute.
func (r *faultRig) takesAgain() {
	r.t.Helper()
	for end := time.Now().Add(90 * time.Second); r.get(r.large) != "HIT"; {
		require.True(r.t, time.Now().Before(end), "the disk isn't used again")
	}
}

// mountSmall mounts a file system of 16 MiB.
func mountSmall(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	if err := syscall.Mount("tmpfs", root, "tmpfs", 0, "size=16m"); err != nil {
		if os.Getenv("WEIR_REQUIRE_SERVICES") == "1" || !errors.Is(err, fs.ErrPermission) {
			t.Fatalf("mounting a tmpfs: %v", err)
		}
		t.Skipf("mounting a tmpfs isn't permitted: %v; run the tests as root", err)
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(root, syscall.MNT_DETACH)) })
	return root
}

// fillUp takes all room that there is on a file system.
func fillUp(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	for b := make([]byte, 1<<20); len(b) > 0; {
		if _, err := f.Write(b); err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			b = b[:len(b)/2]
		}
	}
	require.NoError(t, f.Close())
}

// The disk is full, of something that isn't the cache's: the journal's too. Requests
// and purges go on, and all is as before once there is room.
func TestDiskFull(t *testing.T) {
	root := mountSmall(t)
	r := newFaultRig(t, filepath.Join(root, "objects"), filepath.Join(root, "purges"))
	ballast := filepath.Join(root, "ballast")
	for _, p := range r.origin.pages[:12] {
		r.get(p)
	}
	r.settle()
	require.Equal(t, "HIT", r.get(r.large))
	fillUp(t, ballast)
	other := r.origin.pages[23]
	require.EqualValues(t, 3<<20, other.size)
	r.get(other)
	eventually(t, "the disk is really full", func() bool {
		fillUp(t, ballast) // what the cache evicts makes room
		r.get(other)
		return r.mw.Stats().Disk.SwitchedOff > 0
	})
	r.all(1)
	fillUp(t, ballast)
	r.all(1)
	r.settle()
	r.toldOnce(syscall.ENOSPC)
	assert.Len(t, r.errorLines(), 1, "%s", &r.log)
	fillUp(t, ballast)
	r.purgeUntilFull()
	require.ErrorIs(t, r.change(), purge.ErrNotDurable)
	r.all(1)
	assert.Len(t, r.errorLines(), 2, "the disk and the journal: %s", &r.log)

	require.NoError(t, os.Remove(ballast))
	r.takesAgain()
	eventually(t, "purges are durable again", func() bool { return r.change() == nil })
	r.takesAgain()
	r.all(1)
	r.toldOnce(syscall.ENOSPC)
	assert.Len(t, r.errorLines(), 2, "%s", &r.log)
	r.restart()
	require.Equal(t, "HIT", r.get(r.large), "after a restart")
	r.all(1)
}

// The directory can't be written to. What is on disk is still served, what was
// purged isn't although it can't be deleted, and once it can be written to it is.
func TestDiskReadOnly(t *testing.T) {
	root := mountSmall(t)
	r := newFaultRig(t, filepath.Join(root, "objects"), filepath.Join(t.TempDir(), "purges"))
	remount := func(flags uintptr) {
		eventually(t, "the file system is mounted anew", func() bool {
			err := syscall.Mount("", root, "", syscall.MS_REMOUNT|flags, "size=16m")
			if err != nil {
				require.ErrorIs(t, err, syscall.EBUSY)
			}
			return err == nil
		})
	}
	r.all(1)
	r.settle()
	remount(syscall.MS_RDONLY)
	require.Equal(t, "HIT", r.get(r.large))
	r.all(1)
	assert.Empty(t, r.errorLines(), "reading works")
	require.NoError(t, r.change())
	r.all(2)
	r.settle()
	assert.NotEqual(t, "HIT", r.get(r.large), "there's no room for it")
	r.toldOnce(syscall.EROFS)
	assert.Len(t, r.errorLines(), 1, "%s", &r.log)

	remount(0)
	r.takesAgain()
	r.toldOnce(syscall.EROFS)
	assert.Len(t, r.errorLines(), 1, "%s", &r.log)
	r.restart()
	require.Equal(t, "HIT", r.get(r.large), "after a restart")
	r.all(1) // the old ones' files are still there, and purged
}

// Somebody deletes the cache's files, or all of the directory. That's no fault.
func TestDiskFilesDeleted(t *testing.T) {
	for name, remove := range map[string]func(r *faultRig) error{
		"the files": func(r *faultRig) error {
			return filepath.WalkDir(r.objects, func(path string, _ fs.DirEntry, err error) error {
				if strings.HasSuffix(path, ".weir") {
					return os.Remove(path)
				}
				return err
			})
		},
		"the directory": func(r *faultRig) error { return os.RemoveAll(r.objects) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := newFaultRig(t, filepath.Join(dir, "objects"), filepath.Join(dir, "purges"))
			r.all(1)
			r.settle()
			require.Equal(t, "HIT", r.get(r.large))
			require.NoError(t, remove(r))
			require.Equal(t, "MISS", r.get(r.large))
			r.all(1)
			require.Equal(t, "HIT", r.get(r.large))
			r.settle()
			require.NoError(t, r.change())
			r.all(2)
			r.settle()
			assert.Zero(t, r.mw.Stats().Disk.SwitchedOff)
			assert.Empty(t, r.errorLines())
			r.restart()
			require.Equal(t, "HIT", r.get(r.large), "after a restart")
		})
	}
}

// Somebody deletes what is known about purges, but not what is stored: nothing that
// was stored counts any more, in the next process and in those after it, even if
// nobody has asked for it meanwhile.
func TestDiskJournalDeleted(t *testing.T) {
	for _, names := range [][]string{{"purges"}, {"purges", "purges.lock", "purges.rules"}} {
		t.Run(strings.Join(names, " "), func(t *testing.T) {
			dir := t.TempDir()
			began := time.Now()
			r := newFaultRig(t, filepath.Join(dir, "objects"), filepath.Join(dir, "purges"))
			r.restart() // the next generation
			r.all(1)
			r.settle()
			require.NoError(t, r.change())
			// Without the lock file the clock tells a new generation from those before:
			// a second for each.
			eventually(t, "two seconds are over", func() bool { return len(names) == 1 || time.Since(began) > 2*time.Second })
			for _, name := range names {
				require.NoError(t, os.Remove(filepath.Join(dir, name)))
			}
			r.restart()
			assert.Contains(t, r.log.String(), "whatever was stored before counts as purged")
			for range 3 {
				r.restart()
			}
			r.all(2)
			require.Equal(t, "HIT", r.get(r.large))
			r.settle()
			r.restart()
			require.Equal(t, "HIT", r.get(r.large))
		})
	}
}

// A second process on the same directory ends at once and says why; the first goes
// on. When that has ended, another has what it stored.
func TestDiskSecondProcess(t *testing.T) {
	o := startVersioned(t, 12)
	dir := t.TempDir()
	first := startProxy(t, o.url, "-disk", dir)
	c := newClient(t)
	ask := func(p *proxy) (hits int) {
		for _, page := range o.pages {
			status, err := page.get(c, p.url)
			require.NoError(t, err)
			require.NotEmpty(t, status)
			if status == "HIT" {
				hits++
			}
		}
		return hits
	}
	ask(first)

	second := exec.CommandContext(t.Context(), proxyBinary, "-listen", "127.0.0.1:0", "-origin", o.url, "-disk", dir)
	var stdout, stderr bytes.Buffer
	second.Stdout, second.Stderr = &stdout, &stderr
	require.Error(t, second.Run())
	assert.Equal(t, 1, second.ProcessState.ExitCode())
	assert.Empty(t, stdout.String(), "it says that it's ready")
	assert.Equal(t, 1, strings.Count(stderr.String(), "\n"), stderr.String())
	assert.Contains(t, stderr.String(), filepath.Join(dir, "objects")+" is in use by process")
	assert.Equal(t, len(o.pages), ask(first))

	first.stop(t)
	asked := o.asked.Load()
	third := startProxy(t, o.url, "-disk", dir)
	assert.Equal(t, len(o.pages), ask(third))
	assert.Equal(t, asked, o.asked.Load(), "requests at the origin")
}
