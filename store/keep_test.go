package store_test

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
)

// files is the number of regular files below the disk's directory.
func (b *both) files() (n int) {
	b.t.Helper()
	require.NoError(b.t, filepath.WalkDir(b.dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			n++
		}
		return err
	}))
	return n
}

// A body that arrives is kept on disk, supersedes what was there, and is found
// after a restart; variants by the record.
func TestKeepSpilled(t *testing.T) {
	p, v := keyOf(1), keyOf(2)
	for name, o := range map[string]*store.Object{
		"plain": response(p, nil), "variant": variantOf(p, v, nil, "accept"),
	} {
		for _, older := range []int{0, 1000, big} {
			t.Run(name, func(t *testing.T) {
				inBoth(t, func(t *testing.T, b *both) {
					if older > 0 {
						b.Put(response(p, bytesOf(9, older)))
					}
					body := bytesOf(1, 1<<20)
					f := b.NewFill(-1)
					require.NoError(t, f.Append(t.Context(), body))
					fresh := *response(o.Key, nil)
					fresh.Primary, fresh.VaryNames, fresh.Selecting = o.Primary, o.VaryNames, o.Selecting
					require.Equal(t, store.Kept, b.Keep(f, &fresh, nil))
					require.NoError(t, f.End())
					for range 2 {
						b.has(o.Key, body, false)
						_, x := b.Get(p)
						require.Equal(t, o.Key == v, x != nil)
						got, _ := b.Get(o.Key)
						require.Equal(t, "1048576", got.Length)
						b.restart()
					}
				})
			})
		}
	}
}

// A small body in a fill is kept as ever.
func TestKeepSmall(t *testing.T) {
	inBoth(t, func(t *testing.T, b *both) {
		f := b.NewFill(-1)
		require.NoError(t, f.Append(t.Context(), []byte("page")))
		require.Equal(t, store.Kept, b.Keep(f, response(keyOf(1), nil), nil))
		require.NoError(t, f.End())
		b.has(keyOf(1), []byte("page"), true)
		short := b.NewFill(10)
		require.NoError(t, short.Append(t.Context(), []byte("page")))
		require.Equal(t, store.Incomplete, b.Keep(short, response(keyOf(2), nil), nil))
		require.Error(t, short.End())
		b.misses(keyOf(2))
	})
}

// A body that breaks off leaves nothing on the disk.
func TestBrokenBodyLeavesNoFile(t *testing.T) {
	inBoth(t, func(t *testing.T, b *both) {
		before := b.files()
		f := b.NewFill(-1)
		r, _ := f.Reader(0)
		require.NoError(t, f.Append(t.Context(), bytesOf(1, 1<<20)))
		require.Equal(t, before+1, b.files())
		f.Fail(errors.New("broken"))
		r.Close()
		require.Equal(t, before, b.files())
		require.Zero(t, b.disk.Stats().Bytes)

		f = b.NewFill(2 << 20)
		require.NoError(t, f.Append(t.Context(), bytesOf(1, 1<<20)))
		require.ErrorIs(t, f.End(), store.ErrShort)
		require.Equal(t, before, b.files())
	})
}

// A reader may go on in a body that the disk has evicted or replaced since.
func TestReaderOfADeletedBody(t *testing.T) {
	inBoth(t, func(t *testing.T, b *both) {
		body := bytesOf(1, 1<<20)
		f := b.NewFill(-1)
		r, _ := f.Reader(0)
		require.NoError(t, f.Append(t.Context(), body))
		require.Equal(t, store.Kept, b.Keep(f, response(keyOf(1), nil), nil))
		require.NoError(t, f.End())
		require.True(t, b.Delete(keyOf(1)))
		var got []byte
		for {
			p, err := r.Next(t.Context())
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			got = append(got, p...)
		}
		assert.Equal(t, string(body), string(got))
		r.Close()
		b.misses(keyOf(1))
	})
}
