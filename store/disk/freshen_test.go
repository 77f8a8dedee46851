package disk

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
)

// New fields are for the body that they were made for, and for no other that has its key.
func TestOnlyItsOwnBodyIsFreshened(t *testing.T) {
	freshened := func(o *store.Object) *store.Object { return o.Freshened(o.Header.Header(), o.Life, when) }
	t.Run("replaced", func(t *testing.T) {
		d := openTier(t, Options{})
		require.Equal(t, store.Kept, d.Put(object(key(1), []byte("a"))))
		old, ok := d.Get(key(1))
		require.True(t, ok)
		next := object(key(1), []byte("b"))
		next.Status = 203
		require.Equal(t, store.Kept, d.Put(next))
		assert.Equal(t, store.Gone, d.Put(freshened(old)))
		mustHave(t, d, key(1), []byte("b"))
		got, _ := d.Get(key(1))
		assert.Equal(t, 203, got.Status)
	})
	t.Run("could not be deleted", func(t *testing.T) {
		var f faults
		d := scanned(t, openWith(t, Options{}, f.check))
		require.Equal(t, store.Kept, d.Put(object(key(1), []byte("a"))))
		old, ok := d.Get(key(1))
		require.True(t, ok)
		f.set("remove", syscall.EROFS)
		require.True(t, d.Delete(key(1)))
		f.set("", nil)
		d.writes.passed()
		assert.Equal(t, store.Gone, d.Put(freshened(old)))
		mustMiss(t, d, key(1))
	})
	t.Run("varies by something else", func(t *testing.T) {
		d := openTier(t, Options{})
		require.Equal(t, store.Kept, d.Put(variant(key(1), key(2), []byte("a"), "accept")))
		old, ok := d.Get(key(2))
		require.True(t, ok)
		other := freshened(old)
		other.VaryNames = []string{"accept-language"}
		assert.Equal(t, store.BadKey, d.Put(other))
		got, ok := d.Get(key(2))
		require.True(t, ok)
		assert.Equal(t, []string{"accept"}, got.VaryNames)
	})
}

// Where files are forced out to the disk, the new fields are before the head that leads
// to them, and then the head.
func TestNewFieldsAreForcedOutBeforeTheirHead(t *testing.T) {
	for sync, want := range map[Sync][]string{
		SyncNever: {"write", "write"},
		SyncFile:  {"write", "sync", "write", "sync"},
	} {
		var ops []string
		d := scanned(t, openWith(t, Options{Sync: sync}, func(op, _ string) error {
			if op == "write" || op == "sync" {
				ops = append(ops, op)
			}
			return nil
		}))
		require.Equal(t, store.Kept, d.Put(object(key(1), []byte("a"))))
		o, ok := d.Get(key(1))
		require.True(t, ok)
		ops = nil
		require.Equal(t, store.Kept, d.Put(o.Freshened(o.Header.Header(), o.Life, when)))
		assert.Equal(t, want, ops)
	}
}
