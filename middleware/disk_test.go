package middleware

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/store/disk"
	"github.com/weirhttp/weir/trace"
)

const fiveMiB = 5 << 20

func randomBytes(seed, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
	return b
}

func openDisk(t testing.TB, dir string) *disk.Tier {
	t.Helper()
	d, err := disk.Open(disk.Options{Dir: dir, ScanRate: -1, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return d
}

// journalIn are the options of a list whose journal is in a directory.
func journalIn(dir string) PurgeOptions {
	return PurgeOptions{
		List:      purge.Options{Journal: filepath.Join(dir, "purges"), Sync: purge.SyncOS},
		TagFields: []purge.TagField{{Name: "Cache-Tag"}},
	}
}

// diskRig is a cache with a disk on a real server, which can be started anew, in
// front of an origin whose every path has the same body.
type diskRig struct {
	t       *testing.T
	dir     string
	body    []byte
	header  map[string]string
	asked   atomic.Int64
	files   atomic.Int64 // copies that the server was asked to make from a file
	records chan *trace.Record
	hold    func(w http.ResponseWriter) // in the middle of the body, if set
	route   Route

	mw  *Middleware
	srv *httptest.Server
}

func newDiskRig(t *testing.T) *diskRig {
	t.Helper()
	d := &diskRig{
		t: t, dir: t.TempDir(), body: randomBytes(1, fiveMiB),
		header: map[string]string{"Cache-Control": "public, max-age=3600", "Content-Type": "video/mp4", "Etag": `"v1"`},
	}
	d.start()
	t.Cleanup(d.stop)
	return d
}

func (d *diskRig) start() {
	d.t.Helper()
	d.records = make(chan *trace.Record, 100)
	mw, err := New(Options{
		Store:   store.Options{Disk: openDisk(d.t, filepath.Join(d.dir, "objects"))},
		Purge:   PurgeOptions{List: purge.Options{Journal: filepath.Join(d.dir, "purges"), Sync: purge.SyncOS}, TagFields: []purge.TagField{{Name: "Cache-Tag"}}},
		Default: d.route,
		Logger:  slog.New(slog.DiscardHandler),
		Hook:    func(r *trace.Record) { d.records <- r.Clone() },
	})
	require.NoError(d.t, err)
	d.mw = mw
	cached := mw.Wrap(http.HandlerFunc(d.origin))
	d.srv = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cached.ServeHTTP(&copySpy{w, &d.files}, r)
	}))
	d.srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	d.srv.Start()
}

func (d *diskRig) stop() {
	d.srv.Close()
	require.NoError(d.t, d.mw.Close(context.Background()))
}

func (d *diskRig) restart() {
	d.t.Helper()
	d.stop()
	d.start()
}

func (d *diskRig) origin(w http.ResponseWriter, r *http.Request) {
	d.asked.Add(1)
	if r.Method == http.MethodPost {
		return
	}
	for name, value := range d.header {
		w.Header().Set(name, value)
	}
	if r.Header.Get("If-None-Match") == d.header["Etag"] {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if r.URL.Query().Has("length") {
		w.Header().Set("Content-Length", strconv.Itoa(len(d.body)))
	}
	half := len(d.body) / 2
	_, _ = w.Write(d.body[:half])
	if d.hold != nil {
		d.hold(w)
	}
	_, _ = w.Write(d.body[half:])
}

// copySpy counts the copies that would be a sendfile: those of a limited part of a
// file.
type copySpy struct {
	http.ResponseWriter
	files *atomic.Int64
}

func (c *copySpy) ReadFrom(src io.Reader) (int64, error) {
	if l, ok := src.(*io.LimitedReader); ok {
		if _, ok := l.R.(*os.File); ok {
			c.files.Add(1)
		}
	}
	return c.ResponseWriter.(io.ReaderFrom).ReadFrom(src)
}

func (c *copySpy) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// do sends a request and returns the whole answer. An error is one of the body.
func (d *diskRig) do(method, path string, header ...string) (*http.Response, []byte, error) {
	d.t.Helper()
	req, err := http.NewRequest(method, d.srv.URL+path, nil)
	require.NoError(d.t, err)
	req.Host = "example.com" // whatever the port: part of the key
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := d.srv.Client().Do(req)
	require.NoError(d.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, body, err
}

// get expects the status word and the whole body.
func (d *diskRig) get(word, path string) *http.Response {
	d.t.Helper()
	resp, body, err := d.do("GET", path)
	require.NoError(d.t, err)
	require.Equal(d.t, word, resp.Header.Get("Weir-Cache-Status"))
	require.Equal(d.t, 200, resp.StatusCode)
	require.True(d.t, bytes.Equal(d.body, body), "%d other bytes", len(body))
	rec := <-d.records
	require.EqualValues(d.t, len(body), rec.BytesSent)
	require.Equal(d.t, trace.Complete, rec.Outcome)
	return resp
}

func (d *diskRig) askedOrigin(n int64) {
	d.t.Helper()
	require.Equal(d.t, n, d.asked.Swap(0), "requests at the origin")
}

// objects are the paths of the disk's files of objects.
func (d *diskRig) objects() (paths []string) {
	d.t.Helper()
	require.NoError(d.t, filepath.WalkDir(d.dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".weir") {
			paths = append(paths, path)
		}
		return err
	}))
	return paths
}

func TestHitFromDisk(t *testing.T) {
	for _, path := range []string{"/", "/?length"} {
		d := newDiskRig(t)
		d.get("MISS", path)
		require.Zero(t, d.files.Load())
		d.askedOrigin(1)
		for round := range 3 {
			resp := d.get("HIT", path)
			require.Equal(t, int64(fiveMiB), resp.ContentLength)
			require.Equal(t, "video/mp4", resp.Header.Get("Content-Type"))
			require.EqualValues(t, 5, d.files.Swap(0), "pieces of 1 MiB, each from the file to the connection")
			if round == 1 {
				d.restart()
			}
		}
		d.askedOrigin(0)
		require.Zero(t, d.mw.Stats().Memory.Objects)
		require.EqualValues(t, 1, d.mw.Stats().Disk.Objects)
	}
}

// Small responses survive a restart too, and are in memory again after the first
// hit; variants as well.
func TestSmallHitAfterRestart(t *testing.T) {
	d := newDiskRig(t)
	d.body = []byte("a page, not large")
	d.header["Vary"] = "Accept"
	d.get("MISS", "/")
	d.restart()
	d.get("HIT", "/")
	hits := d.mw.Stats().Memory.Hits
	d.get("HIT", "/")
	require.Equal(t, hits+2, d.mw.Stats().Memory.Hits, "index and variant")
	d.askedOrigin(1)
}

func TestVariantsFromDisk(t *testing.T) {
	d := newDiskRig(t)
	d.header["Vary"] = "Accept"
	for round := range 3 {
		for _, accept := range []string{"a", "b"} {
			resp, body, err := d.do("GET", "/", "Accept", accept)
			require.NoError(t, err)
			require.True(t, bytes.Equal(d.body, body))
			require.Equal(t, round > 0, resp.Header.Get("Weir-Cache-Status") == "HIT")
		}
		if round == 1 {
			d.restart()
		}
	}
	d.askedOrigin(2)
	_, _, err := d.do("POST", "/")
	require.NoError(t, err)
	require.Empty(t, d.objects(), "a purge reaches the disk")
}

func TestPartsFromDisk(t *testing.T) {
	d := newDiskRig(t)
	d.get("MISS", "/")
	for _, c := range []struct {
		ask        string
		status     int
		start, end int // of the body
	}{
		{"bytes=0-0", 206, 0, 1},
		{"bytes=100-1999999", 206, 100, 2_000_000},
		{"bytes=5000000-", 206, 5_000_000, fiveMiB},
		{"bytes=-7", 206, fiveMiB - 7, fiveMiB},
		{"bytes=9999999-", 416, 0, 0},
		{"bytes=5-2", 200, 0, fiveMiB},
	} {
		d.files.Store(0)
		resp, body, err := d.do("GET", "/", "Range", c.ask)
		require.NoError(t, err)
		rec := <-d.records
		require.Equal(t, c.status, resp.StatusCode, c.ask)
		require.Equal(t, "HIT", resp.Header.Get("Weir-Cache-Status"))
		require.True(t, bytes.Equal(d.body[c.start:c.end], body), c.ask)
		require.EqualValues(t, len(body), resp.ContentLength)
		require.EqualValues(t, len(body), rec.BytesSent)
		require.EqualValues(t, (c.end-c.start+1<<20-1)>>20, d.files.Load(), c.ask)
		want := fmt.Sprintf("bytes %d-%d/%d", c.start, c.end-1, fiveMiB)
		switch c.status {
		case 200:
			want = ""
		case 416:
			want = fmt.Sprintf("bytes */%d", fiveMiB)
		}
		require.Equal(t, want, resp.Header.Get("Content-Range"), c.ask)
	}

	resp, body, err := d.do("HEAD", "/")
	require.NoError(t, err)
	require.Equal(t, []any{200, int64(fiveMiB), 0, "HIT"}, []any{resp.StatusCode, resp.ContentLength, len(body), resp.Header.Get("Weir-Cache-Status")})
	resp, _, err = d.do("GET", "/", "If-None-Match", `"v1"`)
	require.NoError(t, err)
	require.Equal(t, []any{304, "HIT"}, []any{resp.StatusCode, resp.Header.Get("Weir-Cache-Status")})
	d.askedOrigin(1)
}

func TestSeveralPartsFromDisk(t *testing.T) {
	d := newDiskRig(t)
	d.get("MISS", "/")
	d.files.Store(0)
	resp, body, err := d.do("GET", "/", "Range", "bytes=10-1999999, 3000000-3000009,-5")
	require.NoError(t, err)
	rec := <-d.records
	require.Equal(t, 206, resp.StatusCode)
	require.EqualValues(t, len(body), resp.ContentLength)
	require.EqualValues(t, len(body), rec.BytesSent)
	require.EqualValues(t, 4, d.files.Load())
	_, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	require.NoError(t, err)
	mr := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for _, part := range [][2]int{{10, 2_000_000}, {3_000_000, 3_000_010}, {fiveMiB - 5, fiveMiB}} {
		p, err := mr.NextPart()
		require.NoError(t, err)
		b, err := io.ReadAll(p)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("bytes %d-%d/%d", part[0], part[1]-1, fiveMiB), p.Header.Get("Content-Range"))
		require.True(t, bytes.Equal(d.body[part[0]:part[1]], b))
	}
	_, err = mr.NextPart()
	require.Equal(t, io.EOF, err)
}

// A 304 for what is on disk gives it new fields there, and the body is sent from
// there.
func TestRevalidatedOnDisk(t *testing.T) {
	d := newDiskRig(t)
	d.header["Cache-Control"] = "public, no-cache"
	d.header["X-Version"] = "1"
	d.get("MISS", "/")
	d.header["X-Version"] = "2"
	resp := d.get("REVALIDATED", "/")
	require.Equal(t, "2", resp.Header.Get("X-Version"))
	d.askedOrigin(2)
	d.header["Cache-Control"] = "public, max-age=3600"
	d.get("REVALIDATED", "/")
	d.restart()
	resp = d.get("HIT", "/")
	require.Equal(t, "2", resp.Header.Get("X-Version"))
	d.askedOrigin(1)
	require.Len(t, d.objects(), 1)
}

// Whatever happens to the file, nobody ever gets a wrong byte: what can be found
// before the head is a miss, what is found later cuts the connection, and then it's
// a miss.
func TestDamagedOnDisk(t *testing.T) {
	flip := func(at int64) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			require.NoError(t, err)
			defer f.Close()
			var b [1]byte
			_, err = f.ReadAt(b[:], at)
			require.NoError(t, err)
			b[0] ^= 4
			_, err = f.WriteAt(b[:], at)
			require.NoError(t, err)
		}
	}
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, path string)
		cut    bool
	}{
		{"head", flip(5), false},
		{"first block", flip(20_000), false},
		{"first piece", flip(900_000), false},
		{"later", flip(4_000_000), true},
		{"cut", func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 3<<20)) }, false},
		{"deleted", func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) }, false},
	} {
		for _, warm := range []bool{true, false} {
			t.Run(fmt.Sprint(c.name, " warm ", warm), func(t *testing.T) {
				d := newDiskRig(t)
				d.get("MISS", "/")
				if warm {
					d.get("HIT", "/")
				} else {
					d.restart()
				}
				require.Len(t, d.objects(), 1)
				c.damage(t, d.objects()[0])
				d.askedOrigin(1)
				if c.cut {
					_, body, err := d.do("GET", "/")
					require.Error(t, err)
					require.True(t, bytes.HasPrefix(d.body, body), "wrong bytes")
					rec := <-d.records
					require.Equal(t, trace.Aborted, rec.Outcome)
					require.GreaterOrEqual(t, rec.BytesSent, int64(len(body)))
					d.askedOrigin(0)
				}
				d.get("MISS", "/")
				d.askedOrigin(1)
				d.get("HIT", "/")
				d.askedOrigin(0)
			})
		}
	}
}

// gone is a disk whose contents can never be opened.
type gone struct{ store.SpoolTier }

type noContent struct{ store.Content }

func (noContent) Open() (store.File, error) { return nil, store.ErrGone }

func (g gone) Get(k store.Key) (*store.Object, bool) {
	o, ok := g.SpoolTier.Get(k)
	if ok && o.Content != nil {
		c := o.Freshened(o.Header.Header(), o.Life, o.RequestedAt)
		c.Content = noContent{o.Content}
		return c, true
	}
	return o, ok
}

// DeleteObject deletes nothing: what can't be read is found again and again.
func (gone) DeleteObject(*store.Object) bool { return false }

func TestUnreadableIsFetchedInTheEnd(t *testing.T) {
	for _, control := range []string{"public, max-age=60", "public, no-cache"} {
		mw, err := New(Options{Store: store.Options{Disk: gone{openDisk(t, t.TempDir())}}, Purge: journalIn(t.TempDir())})
		require.NoError(t, err)
		defer func() { require.NoError(t, mw.Close(context.Background())) }()
		body, asked := randomBytes(1, fiveMiB), 0
		h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			w.Header().Set("Cache-Control", control)
			w.Header().Set("Etag", `"v1"`)
			if r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(304)
				return
			}
			_, _ = w.Write(body)
		}))
		for range 3 {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "http://example.com/", nil))
			require.Equal(t, 200, w.Code)
			require.True(t, bytes.Equal(body, w.Body.Bytes()))
		}
		require.LessOrEqual(t, asked, 1+2*(maxLost+1))
	}
}

// A large stale response on disk is served at once and refreshed behind, also by
// somebody who has loaded its fields anew.
func TestStaleOnDiskIsRefreshed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mw, err := New(Options{Store: store.Options{Disk: openDisk(t, t.TempDir())}, Purge: journalIn(t.TempDir())})
		require.NoError(t, err)
		defer func() { require.NoError(t, mw.Close(context.Background())) }()
		version := 1
		h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=10, stale-while-revalidate=600")
			_, _ = w.Write(randomBytes(version, fiveMiB))
		}))
		get := func(version int) string {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "http://example.com/", nil))
			synctest.Wait()
			assert.True(t, bytes.Equal(randomBytes(version, fiveMiB), w.Body.Bytes()))
			return w.Header().Get("Weir-Cache-Status")
		}
		assert.Equal(t, "MISS", get(1))
		version = 2
		time.Sleep(11 * time.Second)
		assert.Equal(t, "STALE", get(1))
		assert.Equal(t, "HIT", get(2))
	})
}

// A client that takes nothing holds nobody up: the origin is done, another client
// has it all, it's stored; and the first still gets all of it.
func TestStuckClientOfALargeBody(t *testing.T) {
	d := newDiskRig(t)
	d.body = randomBytes(1, 50<<20)
	half := make(chan struct{})
	d.hold = func(http.ResponseWriter) { <-half }
	conn, err := net.Dial("tcp", d.srv.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	// It leads once the head is there.
	first := make([]byte, 1)
	_, err = io.ReadFull(conn, first)
	require.NoError(t, err)
	var second sync.WaitGroup
	second.Go(func() {
		resp, body, err := d.do("GET", "/")
		assert.NoError(t, err)
		assert.Equal(t, "COLLAPSED", resp.Header.Get("Weir-Cache-Status"))
		assert.True(t, bytes.Equal(d.body, body))
	})
	require.Eventually(t, func() bool { return d.mw.Stats().FillBytes == 0 }, 10*time.Second, time.Millisecond)
	close(half)
	second.Wait()
	d.get2("HIT")
	rest, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.True(t, strings.Contains(string(rest[:2000]), "Weir-Cache-Status: MISS"))
	d.askedOrigin(1)
}

// get2 is get without the record: others are under way.
func (d *diskRig) get2(word string) {
	d.t.Helper()
	resp, body, err := d.do("GET", "/")
	require.NoError(d.t, err)
	require.Equal(d.t, word, resp.Header.Get("Weir-Cache-Status"))
	require.True(d.t, bytes.Equal(d.body, body))
}

// A purge while a large body arrives: it isn't stored.
func TestPurgedWhileItSpills(t *testing.T) {
	d := newDiskRig(t)
	d.hold = func(w http.ResponseWriter) {
		_, _, err := d.do("POST", "/")
		assert.NoError(t, err)
	}
	_, body, err := d.do("GET", "/")
	require.NoError(t, err)
	require.True(t, bytes.Equal(d.body, body))
	d.hold = nil
	d.mw.fetches.Wait()
	require.Empty(t, d.objects())
	d.get2("MISS")
}

// A body that breaks off isn't stored, and leaves no file.
func TestBrokenWhileItSpills(t *testing.T) {
	d := newDiskRig(t)
	d.hold = func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	_, body, err := d.do("GET", "/")
	require.Error(t, err)
	require.True(t, bytes.HasPrefix(d.body, body))
	<-d.records
	d.mw.fetches.Wait()
	require.Empty(t, d.objects())
	temps, err := os.ReadDir(filepath.Join(d.dir, "objects", "tmp"))
	require.NoError(t, err)
	require.Empty(t, temps)
	require.Zero(t, d.mw.Stats().Disk.Bytes)
}
