package store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What is kept in memory alone replaces just what its owner expects to be there, is
// found again, varying or not, and is never written to the disk.
func TestPutMemory(t *testing.T) {
	s, err := New(Options{Disk: &fakeDisk{failAfter: -1, max: 64 << 20}})
	require.NoError(t, err)
	only := func(want *Object) func(*Object) bool {
		return func(there *Object) bool { return there == want }
	}
	first, second := &Object{Key: key(1), Primary: key(1)}, &Object{Key: key(1), Primary: key(1)}
	require.Equal(t, Withdrawn, s.PutMemory(first, only(second)))
	require.Equal(t, Kept, s.PutMemory(first, only(nil)))
	require.Equal(t, Withdrawn, s.PutMemory(second, only(nil)))
	require.Same(t, first, s.GetMemory(key(1)))
	require.False(t, s.DeleteMemoryObject(second))
	require.Equal(t, Kept, s.PutMemory(second, only(first)))
	require.False(t, s.DeleteMemoryObject(first))
	require.Same(t, second, s.GetMemory(key(1)))
	require.True(t, s.DeleteMemoryObject(second))
	require.False(t, s.DeleteMemoryObject(second))
	require.Nil(t, s.GetMemory(key(1)))

	variant := &Object{Key: key(3), Primary: key(2), VaryNames: []string{"accept"}}
	require.Equal(t, Kept, s.PutMemory(variant, nil))
	o, index := s.Get(key(2))
	require.Nil(t, o)
	require.NotNil(t, index)
	o, _ = s.Get(key(3))
	require.Same(t, variant, o)
	st := s.Stats()
	require.Zero(t, st.DiskQueued+st.DiskDropped)
	require.NoError(t, s.Close(t.Context()))
}
