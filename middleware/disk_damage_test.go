package middleware

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/trace"
)

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

// shy is a disk of which nothing can be opened while it's shut, although it's found: the
// process has no more files, say.
type shy struct {
	store.SpoolTier
	shut *atomic.Bool
}

type shyContent struct {
	store.Content
	shut *atomic.Bool
}

func (c shyContent) Open() (store.File, error) {
	if c.shut.Load() {
		return nil, store.ErrUnavailable
	}
	return c.Content.Open()
}

func (s *shy) Get(k store.Key) (*store.Object, bool) {
	o, ok := s.SpoolTier.Get(k)
	if ok && !o.IsIndex() {
		o = o.Freshened(o.Header.Header(), o.Life, o.RequestedAt)
		o.Content = shyContent{o.Content, s.shut}
	}
	return o, ok
}

// What can't be opened just now is a miss, and is there again later.
func TestWhatCannotBeOpenedIsNotDeleted(t *testing.T) {
	d := newDiskRig(t)
	var shut atomic.Bool
	d.wrap = func(tier store.SpoolTier) store.SpoolTier { return &shy{tier, &shut} }
	d.restart()
	d.get("MISS", "/a")
	d.get("HIT", "/a")
	shut.Store(true)
	d.header["Cache-Control"] = "no-store" // or the answer would take its place
	resp, body, err := d.do("GET", "/a")
	require.NoError(t, err)
	require.NotEqual(t, "HIT", resp.Header.Get("Weir-Cache-Status"))
	<-d.records
	require.True(t, bytes.Equal(d.body, body))
	shut.Store(false)
	d.get("HIT", "/a")
	d.askedOrigin(2)
}
