package disk

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
)

// The scan may take long: everything is served meanwhile, from the first
// moment on, and what is stored or deleted meanwhile counts.
func TestServesWhileTheScanGoesOn(t *testing.T) {
	d := openTier(t, Options{})
	for i := range 200 {
		require.Equal(t, store.Kept, d.Put(object(key(i), bytesOf(i, 100))))
	}
	require.Equal(t, store.Kept, d.Put(variant(key(1000), key(1001), []byte("v"), "accept")))
	require.NoError(t, d.Close(t.Context()))
	d = openTier(t, Options{Dir: d.files.dir, ScanRate: 1})
	for i := range 50 {
		mustHave(t, d, key(i), bytesOf(i, 100))
	}
	assert.Equal(t, [][]string{{"accept"}}, setsOf(t, d, key(1000)))
	mustHave(t, d, key(1001), []byte("v"))
	assert.True(t, d.Delete(key(100)))
	mustMiss(t, d, key(100))
	require.Equal(t, store.Kept, d.Put(object(key(101), []byte("new"))))
	require.Equal(t, store.Kept, d.Put(object(key(1000), []byte("plain"))))
	mustMiss(t, d, key(1001))
	mustMiss(t, d, key(5000))
	require.False(t, d.scanned.Load())
	start := time.Now()
	require.NoError(t, d.Close(t.Context()))
	assert.Less(t, time.Since(start), time.Minute, "Close ends the scan, which would take a quarter of an hour")

	d = scanned(t, openTier(t, Options{Dir: d.files.dir}))
	assert.EqualValues(t, 200, d.Stats().Objects)
	mustMiss(t, d, key(100))
	mustHave(t, d, key(101), []byte("new"))
	mustHave(t, d, key(1000), []byte("plain"))
}

// The directory was filled under a larger bound.
func TestScanKeepsTheBound(t *testing.T) {
	d := openTier(t, Options{})
	for i := range 600 {
		require.Equal(t, store.Kept, d.Put(object(key(i), make([]byte, 3000))))
	}
	require.NoError(t, d.Close(t.Context()))
	d = scanned(t, openTier(t, Options{Dir: d.files.dir, MaxBytes: 1 << 20}))
	s := d.Stats()
	assert.LessOrEqual(t, s.Bytes, int64(1<<20))
	objects, _ := filesIn(t, d.files.dir)
	assert.Len(t, objects, int(s.Objects))
	assert.EqualValues(t, 256, s.Objects)
}

func TestCloseGivesUpWaiting(t *testing.T) {
	d := openTier(t, Options{})
	scanned(t, d)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(context.Canceled)
	_ = d.WaitScan(ctx)
	require.NoError(t, d.Close(t.Context()))
}

// The scan looks at so many files in a second, and ends at once when it's told to.
func TestScanKeepsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p := pacer{rate: 100, start: began}
		for i := range 10 {
			require.NoError(t, p.wait(t.Context(), scanBatch))
			require.Equal(t, time.Duration(i+1)*scanBatch*10*time.Millisecond, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, p.wait(ctx, scanBatch), context.DeadlineExceeded)
		free := pacer{rate: -1, start: time.Now()}
		before := time.Now()
		require.NoError(t, free.wait(t.Context(), 1<<30))
		require.Zero(t, time.Since(before))
		require.Error(t, free.wait(ctx, 1))
	})
}
