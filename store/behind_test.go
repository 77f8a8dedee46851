package store

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slowDisk is a disk whose Put waits for the gate.
type slowDisk struct {
	fakeDisk
	gate chan struct{}
	mu   sync.Mutex
	got  map[Key]*Object
}

func (d *slowDisk) Put(o *Object) Rejection {
	<-d.gate
	d.mu.Lock()
	defer d.mu.Unlock()
	d.got[o.Key] = o
	return Kept
}

func behindStore(t *testing.T, memory int64) (*slowDisk, *Store) {
	d := &slowDisk{gate: make(chan struct{}), got: map[Key]*Object{}}
	d.max = 64 << 20
	s, err := New(Options{MemoryBytes: memory, Disk: d})
	require.NoError(t, err)
	s.Put(plain(apart(0), 10))
	synctest.Wait() // it's being written, with its family's lock
	return d, s
}

// apart makes a key of another family than number 0's.
func apart(n int) Key {
	k := Key{byte(n), byte(n >> 8)}
	k[31] = byte(min(n, 1))
	return k
}

// What waits to be written is bounded; requests don't wait; what is deleted or
// replaced meanwhile isn't written.
func TestBehindIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := behindStore(t, 16<<20)
		const more = 10
		for i := 1; i <= maxBehind+more; i++ {
			require.Equal(t, Kept, s.Put(plain(apart(i), 10)))
		}
		st := s.Stats()
		assert.Equal(t, []int64{maxBehind + 1, more}, []int64{st.DiskQueued, st.DiskDropped})
		require.True(t, s.Delete(apart(5)))
		o, _ := s.Get(apart(6))
		s.DeleteObject(o)
		s.Put(plain(apart(7), 20)) // is dropped, but takes the place of the one that waits
		close(d.gate)
		synctest.Wait()
		for i := range maxBehind + more + 1 {
			_, ok := d.got[apart(i)]
			assert.Equal(t, i <= maxBehind && i != 5 && i != 6 && i != 7, ok, i)
		}
		st = s.Stats()
		assert.Equal(t, []int64{0, more + 1}, []int64{st.DiskQueued, st.DiskDropped})
		require.NoError(t, s.Close(t.Context()))
	})
}

func TestBehindIsBoundedInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := behindStore(t, 8<<20)
		for i := 1; i <= 5; i++ {
			require.Equal(t, Kept, s.Put(plain(apart(i), 400<<10)))
		}
		st := s.Stats()
		assert.Equal(t, []int64{3, 3}, []int64{st.DiskQueued, st.DiskDropped})
		close(d.gate)
		require.NoError(t, s.Close(t.Context()))
		assert.Len(t, d.got, 3)
	})
}

// Close writes what waits, but not longer than it may.
func TestCloseDropsWhatItMayNotWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := behindStore(t, 8<<20)
		for i := 1; i <= 5; i++ {
			s.Put(plain(apart(i), 10))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		go func() {
			synctest.Wait()
			close(d.gate) // the one that is being written ends
		}()
		require.NoError(t, s.Close(ctx))
		assert.Len(t, d.got, 1)
	})
}
