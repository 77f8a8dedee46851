package disk

import (
	"context"
	"encoding/binary"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/store"
)

// The test binary is also the processes that are killed, locked out, or send
// requests: see the functions of these names.
func TestMain(m *testing.M) {
	switch os.Getenv("WEIR_DISK_CHILD") {
	case "":
		os.Exit(m.Run())
	case "write":
		writeForEver()
	case "lock":
		openOnce()
	case "client":
		requestForEver()
	}
}

// key makes a key that looks like a digest.
func key(n int) (k store.Key) {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	for i := 0; i < len(k); i += 8 {
		binary.LittleEndian.PutUint64(k[i:], r.Uint64())
	}
	return k
}

// bytesOf are n bytes that depend on the seed, all places different.
func bytesOf(seed, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
	_, _ = r.Read(b)
	return b
}

var when = time.Now().Add(-time.Minute).Truncate(time.Nanosecond)

func object(k store.Key, body []byte) *store.Object {
	return &store.Object{
		Key: k, Primary: k, Status: 200, Body: body,
		Header:      store.EncodeBlock(http.Header{"Content-Type": {"text/plain"}, "Etag": {`"1"`}}),
		RequestedAt: when, Life: rfc9111.Life{ReceivedAt: when, Lifetime: time.Hour, Source: rfc9111.FromMaxAge},
		Facts: []byte("facts"),
	}
}

func variant(primary, k store.Key, body []byte, names ...string) *store.Object {
	o := object(k, body)
	o.Primary, o.VaryNames, o.Selecting = primary, names, "x"
	return o
}

func openTier(t testing.TB, o Options) *Tier {
	t.Helper()
	return openWith(t, o, nil)
}

func openWith(t testing.TB, o Options, fault func(op, path string) error) *Tier {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.ScanRate == 0 {
		o.ScanRate = -1
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	d, err := open(o, fault)
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	return d
}

// scanned waits for the scan.
func scanned(t testing.TB, d *Tier) *Tier {
	t.Helper()
	require.NoError(t, d.WaitScan(t.Context()))
	return d
}

// reopened closes the tier and opens its directory again.
func reopened(t testing.TB, d *Tier) *Tier {
	t.Helper()
	require.NoError(t, d.Close(t.Context()))
	o := d.o
	return openTier(t, o)
}

// bodyOf reads the whole body; ok is false if that's a miss or an abort.
func bodyOf(d *Tier, k store.Key) (b []byte, ok bool) {
	o, ok := d.Get(k)
	if !ok {
		return nil, false
	}
	o, err := o.Load()
	if err != nil {
		return nil, false
	}
	return o.Body, true
}

func mustHave(t testing.TB, d *Tier, k store.Key, want []byte) {
	t.Helper()
	got, ok := bodyOf(d, k)
	require.True(t, ok, "it's a miss")
	require.Equal(t, len(want), len(got))
	require.True(t, string(want) == string(got), "the body differs")
}

func mustMiss(t testing.TB, d *Tier, k store.Key) {
	t.Helper()
	_, ok := d.Get(k)
	require.False(t, ok, "it's a hit")
}

// filesIn returns the paths of all files of objects, and of temporary ones.
func filesIn(t testing.TB, dir string) (objects, temps []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil || e.IsDir():
			return err
		case strings.HasSuffix(path, suffix):
			objects = append(objects, path)
		case filepath.Base(filepath.Dir(path)) == tempName:
			temps = append(temps, path)
		}
		return nil
	})
	require.NoError(t, err)
	return objects, temps
}

func sendAll(f store.File, n int64) ([]byte, error) {
	var b strings.Builder
	_, err := store.CopySection(struct{ io.Writer }{&b}, f, 0, n, nil)
	return []byte(b.String()), err
}

// privileged skips a test that may not do what only root may.
func privileged(t *testing.T, err error, what string) {
	t.Helper()
	if err == nil {
		return
	}
	if os.Getenv("WEIR_REQUIRE_SERVICES") == "1" {
		t.Fatalf("%s isn't permitted (%v), and WEIR_REQUIRE_SERVICES is 1; run the tests as root", what, err)
	}
	t.Skipf("%s isn't permitted: %v; run the tests as root", what, err)
}
