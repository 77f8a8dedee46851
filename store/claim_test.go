package store_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/store/disk"
)

// Two stores on one tier would give each other's responses to their visitors.
func TestATierIsOneStoresAlone(t *testing.T) {
	open := func() *disk.Tier {
		d, err := disk.Open(disk.Options{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		return d
	}
	refused := func(d *disk.Tier) {
		t.Helper()
		_, err := store.New(store.Options{Disk: d})
		var wrong *store.ConfigError
		require.ErrorAs(t, err, &wrong)
		assert.Equal(t, "Disk", wrong.Field)
		assert.Equal(t, "*disk.Tier", wrong.Value)
		assert.Contains(t, wrong.Reason, "Open a tier for each")
		assert.Contains(t, wrong.Reason, "WrapZone")
	}
	d := open()
	_, err := store.New(store.Options{Disk: d, FillBytes: 1})
	require.Error(t, err, "then it's still the caller's")
	s, err := store.New(store.Options{Disk: d})
	require.NoError(t, err)
	refused(d)
	require.Equal(t, store.Kept, s.Put(response(keyOf(1), bytesOf(1, 100))), "the first goes on")
	require.NoError(t, s.Close(context.Background()))
	refused(d)

	d = open()
	require.NoError(t, d.Close(context.Background()))
	refused(d)
}
