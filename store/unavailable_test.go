package store_test

import (
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/store/disk"
)

// shy is a disk of which nothing can be opened while it's shut, although it's found.
type shy struct {
	store.SpoolTier
	shut atomic.Bool
}

type shyContent struct {
	store.Content
	d *shy
}

func (c shyContent) Open() (store.File, error) {
	if c.d.shut.Load() {
		return nil, store.ErrUnavailable
	}
	return c.Content.Open()
}

func (d *shy) Get(k store.Key) (*store.Object, bool) {
	o, ok := d.SpoolTier.Get(k)
	if ok && !o.IsIndex() {
		o = o.Freshened(o.Header.Header(), o.Life, o.RequestedAt)
		o.Content = shyContent{o.Content, d}
	}
	return o, ok
}

// What can't be loaded into memory just now is a miss, and stays on disk.
func TestWhatCannotBeOpenedStays(t *testing.T) {
	d, err := disk.Open(disk.Options{Dir: t.TempDir(), ScanRate: -1, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	s := &shy{SpoolTier: d}
	c, err := store.New(store.Options{Disk: s})
	require.NoError(t, err)
	defer c.Close(t.Context())
	require.Equal(t, store.Kept, d.Put(response(keyOf(1), []byte("small"))))
	s.shut.Store(true)
	o, _ := c.Get(keyOf(1))
	assert.Nil(t, o)
	s.shut.Store(false)
	o, _ = c.Get(keyOf(1))
	require.NotNil(t, o)
	assert.Equal(t, "small", string(o.Body))
}
