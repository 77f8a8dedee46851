package middleware

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

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
	trusted []netip.Prefix
	wrap    func(store.SpoolTier) store.SpoolTier // the disk, if set

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
	var tier store.SpoolTier = openDisk(d.t, filepath.Join(d.dir, "objects"))
	if d.wrap != nil {
		tier = d.wrap(tier)
	}
	mw, err := New(Options{
		Store:   store.Options{Disk: tier},
		Purge:   PurgeOptions{List: purge.Options{Journal: filepath.Join(d.dir, "purges"), Sync: purge.SyncOS}, TagFields: []purge.TagField{{Name: "Cache-Tag"}}},
		Default: d.route, TrustedProxies: d.trusted,
		Logger: slog.New(slog.DiscardHandler),
		Hook:   func(r *trace.Record) { d.records <- r.Clone() },
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
	// Growing it as io.ReadAll does is most of a test's time under the race detector.
	body := bytes.NewBuffer(make([]byte, 0, max(resp.ContentLength, 0)+bytes.MinRead))
	_, err = body.ReadFrom(resp.Body)
	return resp, body.Bytes(), err
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
