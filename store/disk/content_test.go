package disk

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
)

// Many readers of the same files, each at its own offset, with fewer
// descriptors than readers: some share one and read at offsets.
func TestReadersOfOneFile(t *testing.T) {
	t.Parallel()
	d := scanned(t, openTier(t, Options{MaxOpenFiles: 8}))
	const size = 2<<20 + 99
	var bodies [4][]byte
	for i := range bodies {
		bodies[i] = bytesOf(i, size)
		require.Equal(t, store.Kept, d.Put(object(key(i), bodies[i])))
	}
	var wg sync.WaitGroup
	for w := range 24 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 0))
			want := bodies[w%4]
			o, ok := d.Get(key(w % 4))
			if !assert.True(t, ok) {
				return
			}
			f, err := o.Content.Open()
			if !assert.NoError(t, err) {
				return
			}
			defer func() { _ = f.Close() }()
			for range 12 {
				off := r.Int64N(size)
				n := 1 + r.Int64N(size-off)
				var b bytes.Buffer
				got, err := store.CopySection(&b, f, off, n, nil)
				if !assert.NoError(t, err) || !assert.Equal(t, n, got) ||
					!assert.True(t, bytes.Equal(want[off:off+n], b.Bytes())) {
					return
				}
			}
		})
	}
	wg.Wait()
	d.handles.mu.Lock()
	defer d.handles.mu.Unlock()
	assert.LessOrEqual(t, d.handles.open, 8)
}

func TestOpenFilesAreBounded(t *testing.T) {
	d := scanned(t, openTier(t, Options{MaxOpenFiles: 8}))
	var open []store.File
	for i := range 30 {
		require.Equal(t, store.Kept, d.Put(object(key(i), []byte("x"))))
		o, ok := d.Get(key(i))
		require.True(t, ok)
		if i%3 == 0 { // ten are being sent for a long time
			f, err := o.Content.Open()
			require.NoError(t, err)
			open = append(open, f)
		}
	}
	count := func() int {
		d.handles.mu.Lock()
		defer d.handles.mu.Unlock()
		return d.handles.open
	}
	assert.Equal(t, 12, count(), "those in use, and two of those used last")
	for _, f := range open {
		s, err := f.Section(0, 1)
		require.NoError(t, err)
		b, err := io.ReadAll(s)
		require.NoError(t, err)
		assert.Equal(t, "x", string(b))
		require.NoError(t, f.Close())
		require.NoError(t, f.Close())
		_, err = f.Section(0, 1)
		require.ErrorIs(t, err, os.ErrClosed)
	}
	assert.LessOrEqual(t, count(), 8)
	require.NoError(t, d.Close(t.Context()))
	assert.Zero(t, count())
}

// net/http makes a sendfile of a LimitedReader over a file that says how to
// get at its descriptor, and of nothing else.
func TestSectionsAreForSendfile(t *testing.T) {
	d := openTier(t, Options{})
	d.Put(object(key(1), bytesOf(1, 5<<20)))
	o, _ := d.Get(key(1))
	f, err := o.Content.Open()
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	s, err := f.Section(100, 5<<20)
	require.NoError(t, err)
	assert.IsType(t, &os.File{}, s.R)
	assert.LessOrEqual(t, s.N, int64(verifyAhead+1<<blockLog), "not all of it is read before the first byte goes out")
	for range 8 {
		_, err = f.Section(0, 5<<20)
		require.NoError(t, err)
	}
	s, err = f.Section(0, 5<<20)
	require.NoError(t, err)
	assert.EqualValues(t, 5<<20, s.N, "once verified it goes in one piece")
	for _, at := range [][2]int64{{-1, 5}, {0, 0}, {5 << 20, 1}} {
		_, err = f.Section(at[0], at[1])
		assert.Error(t, err)
	}
}

func TestServedOverHTTP(t *testing.T) {
	d := openTier(t, Options{})
	for _, size := range sizes {
		k := key(size)
		body := bytesOf(size, size)
		require.Equal(t, store.Kept, d.Put(object(k, body)))
		s := httptest.NewServer(handler(d, k))
		resp, err := http.Get(s.URL)
		require.NoError(t, err)
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(body, got), size)
		require.NoError(t, resp.Body.Close())
		if size > 1<<blockLog { // a bad later block cuts the connection
			rewrite(t, d, k, bodyAt+int64(size)-1, flip, 1)
			resp, err := http.Get(s.URL)
			require.NoError(t, err)
			got, err := io.ReadAll(resp.Body)
			if resp.StatusCode == http.StatusOK { // else the client tried again by itself
				assert.Error(t, err)
				assert.True(t, bytes.Equal(body[:len(got)], got))
			}
			require.NoError(t, resp.Body.Close())
			mustMiss(t, d, k)
		}
		s.Close()
	}
}

func TestSpoolIsReadWhileItIsWritten(t *testing.T) {
	d := openTier(t, Options{})
	const size = 3<<20 + 5
	body := bytesOf(3, size)
	w, err := d.Create()
	require.NoError(t, err)
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 3 {
		wg.Go(func() {
			var got []byte
			buf := make([]byte, 70_000)
			for len(got) < size {
				n, err := w.ReadAt(buf, int64(len(got)))
				got = append(got, buf[:n]...)
				if n == 0 && !assert.ErrorIs(t, err, io.EOF) {
					return
				}
			}
			assert.True(t, bytes.Equal(body, got))
		})
	}
	go func() { wg.Wait(); close(done) }()
	for off := 0; off < size; off += 9_999 {
		_, err := w.Write(body[off:min(off+9_999, size)])
		require.NoError(t, err)
		mustMiss(t, d, key(1))
	}
	require.Equal(t, store.Kept, w.Commit(object(key(1), nil)))
	mustHave(t, d, key(1), body)
	<-done
	b := make([]byte, 5)
	n, err := w.ReadAt(b, size-5)
	require.NoError(t, err)
	assert.Equal(t, body[size-5:], b[:n])
	assert.Equal(t, store.Gone, w.Commit(object(key(2), nil)), "once only")
	w.Abort()
	require.NoError(t, w.Close())
	mustHave(t, d, key(1), body)
}

// Everything at once. A body is always one that was put under its key, and a
// section that succeeded is of the object that it was asked for.
func TestEverythingAtOnce(t *testing.T) {
	d := openTier(t, Options{MaxBytes: 4 << 20, MaxOpenFiles: 8})
	until := time.Now().Add(2 * time.Second)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 3))
			for time.Now().Before(until) {
				n := r.IntN(30)
				if r.IntN(2) == 0 {
					writeOnce(d, r)
				} else if b, ok := bodyOf(d, key(n)); ok && !wholeKilledBody(b) {
					t.Error("not whole")
					return
				}
			}
		})
	}
	wg.Wait()
	s := d.Stats()
	assert.Zero(t, s.Corrupt)
	assert.Zero(t, s.SwitchedOff)
	assert.LessOrEqual(t, s.Bytes, s.MaxBytes)
	objects, temps := filesIn(t, d.files.dir)
	assert.Empty(t, temps)
	assert.Len(t, objects, int(s.Objects))
}
