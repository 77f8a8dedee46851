package disk

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
)

// storeOf is a store whose disk fails as fault says, and which keeps in memory what has
// no more than 1 KiB.
func storeOf(t *testing.T, sync Sync, fault func(op, path string) error) *store.Store {
	t.Helper()
	d, err := open(Options{Dir: t.TempDir(), Sync: sync, ScanRate: -1, Logger: slog.New(slog.DiscardHandler)}, fault)
	require.NoError(t, err)
	s, err := store.New(store.Options{MaxMemoryObjectBytes: 1 << 10, Disk: scanned(t, d)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	return s
}

// filled is a body that has gone to the disk, and isn't stored yet.
func filled(t *testing.T, s *store.Store) *store.Fill {
	t.Helper()
	f := s.NewFill(-1)
	require.NoError(t, f.Append(t.Context(), bytesOf(1, 300<<10)))
	t.Cleanup(func() { _ = f.End() })
	return f
}

func withoutBody(o *store.Object) *store.Object {
	o.Body = nil
	return o
}

// While a large body is forced out, which may take seconds, nobody waits who is about
// another URL, whatever locks the two share.
func TestNobodyWaitsWhileABodyIsForcedOut(t *testing.T) {
	large, other := key(1), key(2)
	other[31] = large[31]
	v := key(3)
	for name, o := range map[string]*store.Object{"plain": object(large, nil), "variant": variant(large, v, nil, "accept")} {
		for _, sync := range []Sync{SyncFile, SyncName} {
			t.Run(name, func(t *testing.T) {
				var once atomic.Bool
				forcing, goOn := make(chan struct{}), make(chan struct{})
				s := storeOf(t, sync, func(op, _ string) error {
					if op == "sync" && !once.Swap(true) {
						close(forcing)
						<-goOn
					}
					return nil
				})
				f := filled(t, s)
				kept := make(chan store.Rejection, 1)
				go func() { kept <- s.Keep(f, withoutBody(o), nil) }()
				<-forcing
				done := make(chan store.Rejection, 1)
				go func() { done <- s.Put(object(other, []byte("small"))) }()
				select {
				case r := <-done:
					assert.Equal(t, store.Kept, r)
				case <-time.After(10 * time.Second):
					t.Error("another response waits for it")
				}
				close(goOn)
				assert.Equal(t, store.Kept, <-kept)
			})
		}
	}
}

// After Prepare the commit of what doesn't vary only gives the file its name.
func TestPrepareLeavesOnlyTheName(t *testing.T) {
	var ops atomic.Int64
	s := storeOf(t, SyncFile, func(op, _ string) error {
		if op == "sync" || op == "write" {
			ops.Add(1)
		}
		return nil
	})
	f, o := filled(t, s), object(key(1), nil)
	s.Prepare(f, o)
	got, _ := s.Get(key(1))
	assert.Nil(t, got)
	before := ops.Load()
	require.Equal(t, store.Kept, s.Keep(f, o, nil))
	assert.Equal(t, before, ops.Load())
	got, _ = s.Get(key(1))
	require.NotNil(t, got)
	got, err := got.Load()
	require.NoError(t, err)
	assert.True(t, string(got.Body) == string(bytesOf(1, 300<<10)))
}
