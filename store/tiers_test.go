package store_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/rfc9111"
	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/store/disk"
)

const big = 300_000 // more than memory keeps in these tests

func keyOf(n int) (k store.Key) {
	r := rand.New(rand.NewPCG(uint64(n), 3))
	for i := 0; i < len(k); i += 8 {
		binary.LittleEndian.PutUint64(k[i:], r.Uint64())
	}
	return k
}

func bytesOf(seed, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(b)
	return b
}

// response is a response received now.
func response(k store.Key, body []byte) *store.Object {
	return &store.Object{
		Key: k, Primary: k, Status: 200, Body: body,
		Header:      store.EncodeBlock(http.Header{"Content-Type": {"text/plain"}}),
		RequestedAt: time.Now(), Life: rfc9111.Life{ReceivedAt: time.Now(), Lifetime: time.Hour},
	}
}

func variantOf(primary, k store.Key, body []byte, names ...string) *store.Object {
	o := response(k, body)
	o.Primary, o.VaryNames, o.Selecting = primary, names, "x"
	return o
}

// both is a store of memory and disk that can be started anew.
type both struct {
	t    *testing.T
	dir  string
	disk *disk.Tier
	*store.Store
}

func newBoth(t *testing.T) *both {
	b := &both{t: t, dir: t.TempDir()}
	b.open()
	return b
}

func (b *both) open() {
	b.t.Helper()
	d, err := disk.Open(disk.Options{Dir: b.dir, ScanRate: -1, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(b.t, err)
	s, err := store.New(store.Options{MemoryBytes: 1 << 20, MaxMemoryObjectBytes: 100_000, Disk: d})
	require.NoError(b.t, err)
	b.disk, b.Store = d, s
}

func (b *both) restart() {
	b.t.Helper()
	require.NoError(b.t, b.Close(context.Background()))
	b.open()
}

// forget evicts everything from memory.
func (b *both) forget() {
	synctest.Wait() // what is to be written behind is
	b.EvictMemory()
}

// body is what is found under k, and whether in memory.
func (b *both) body(k store.Key) (body []byte, inMemory bool) {
	b.t.Helper()
	o, _ := b.Get(k)
	if o == nil {
		return nil, false
	}
	l, err := o.Load()
	require.NoError(b.t, err)
	return l.Body, o.Content == nil
}

func (b *both) has(k store.Key, want []byte, inMemory bool) {
	b.t.Helper()
	got, in := b.body(k)
	require.NotNil(b.t, got, "it's a miss")
	require.True(b.t, bytes.Equal(want, got), "other bytes")
	require.Equal(b.t, inMemory, in, "in memory")
}

func (b *both) misses(k store.Key) {
	b.t.Helper()
	o, x := b.Get(k)
	require.Nil(b.t, o)
	require.Nil(b.t, x)
}

func inBoth(t *testing.T, test func(t *testing.T, b *both)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBoth(t)
		defer func() { assert.NoError(t, b.Close(context.Background())) }()
		test(t, b)
	})
}

func TestLargeObjectsGoToDisk(t *testing.T) {
	inBoth(t, func(t *testing.T, b *both) {
		assert.EqualValues(t, disk.DefaultMaxObjectBytes, b.MaxObject())
		k, body := keyOf(1), bytesOf(1, big)
		require.Equal(t, store.Kept, b.Put(response(k, body)))
		b.has(k, body, false)
		b.has(k, body, false)
		assert.Zero(t, b.Stats().Memory.Objects)
		assert.EqualValues(t, 1, b.Stats().Disk.Objects)
		b.restart()
		b.has(k, body, false)
	})
}

func TestSmallObjectsSurviveARestart(t *testing.T) {
	inBoth(t, func(t *testing.T, b *both) {
		k, body := keyOf(1), bytesOf(1, 1000)
		require.Equal(t, store.Kept, b.Put(response(k, body)))
		b.has(k, body, true)
		b.restart()
		b.has(k, body, true)
		hits := b.Stats().Memory.Hits
		b.has(k, body, true)
		assert.Equal(t, hits+1, b.Stats().Memory.Hits, "it was promoted")
	})
}

func TestEvictedFromMemoryIsOnDisk(t *testing.T) {
	inBoth(t, func(t *testing.T, b *both) {
		p, v, plain := keyOf(1), keyOf(2), keyOf(3)
		b.Put(variantOf(p, v, bytesOf(2, 1000), "accept"))
		b.Put(response(plain, bytesOf(3, 1000)))
		b.forget()
		misses := b.Stats().Memory.Misses
		b.has(plain, bytesOf(3, 1000), true)
		require.Equal(t, misses+1, b.Stats().Memory.Misses, "the test evicts it")
		_, x := b.Get(p)
		require.NotNil(t, x)
		require.Equal(t, [][]string{{"accept"}}, x.Sets)
		b.has(v, bytesOf(2, 1000), true)
		// Once more: the disk's index is as good as the first time.
		b.forget()
		_, x = b.Get(p)
		require.NotNil(t, x)
		b.has(v, bytesOf(2, 1000), true)
		hits := b.Stats().Memory.Hits
		b.has(v, bytesOf(2, 1000), true)
		require.Equal(t, hits+1, b.Stats().Memory.Hits)
		// And when only the variant is asked for.
		for range 2 {
			b.forget()
			b.has(v, bytesOf(2, 1000), true)
			hits = b.Stats().Memory.Hits
			b.has(v, bytesOf(2, 1000), true)
			require.Equal(t, hits+1, b.Stats().Memory.Hits)
		}
	})
}

// Variants of both sizes are found together, in both orders, after a restart
// too, and whatever the index in memory was made from.
func TestVariantsInBothTiers(t *testing.T) {
	for _, sizes := range [][2]int{{1000, big}, {big, 1000}, {big, big}, {1000, 1000}} {
		inBoth(t, func(t *testing.T, b *both) {
			p, v, w := keyOf(1), keyOf(2), keyOf(3)
			check := func(sets ...[]string) {
				t.Helper()
				_, x := b.Get(p)
				require.NotNil(t, x)
				require.Equal(t, sets, x.Sets)
			}
			b.Put(variantOf(p, v, bytesOf(2, sizes[0]), "accept"))
			b.restart()
			b.Put(variantOf(p, w, bytesOf(3, sizes[1]), "cookie"))
			for range 2 {
				check([]string{"cookie"}, []string{"accept"})
				b.has(v, bytesOf(2, sizes[0]), sizes[0] < big)
				b.has(w, bytesOf(3, sizes[1]), sizes[1] < big)
				b.restart()
			}
			require.True(t, b.Delete(p))
			b.misses(p)
			b.misses(v)
			b.misses(w)
			b.restart()
			b.misses(p)
			b.misses(v)
			b.misses(w)
		})
	}
}

// What is stored last under a key is all that is ever found there again.
func TestTheNewerSupersedesInBothTiers(t *testing.T) {
	p, v := keyOf(1), keyOf(2)
	kinds := map[string]func(seed int) *store.Object{
		"small":         func(seed int) *store.Object { return response(p, bytesOf(seed, 1000)) },
		"large":         func(seed int) *store.Object { return response(p, bytesOf(seed, big)) },
		"small variant": func(seed int) *store.Object { return variantOf(p, v, bytesOf(seed, 1000), "accept") },
		"large variant": func(seed int) *store.Object { return variantOf(p, v, bytesOf(seed, big), "accept") },
	}
	for oldKind, older := range kinds {
		for newKind, newer := range kinds {
			for _, written := range []bool{true, false} {
				t.Run(oldKind+", "+newKind, func(t *testing.T) {
					inBoth(t, func(t *testing.T, b *both) {
						require.Equal(t, store.Kept, b.Put(older(1)))
						if written {
							synctest.Wait()
						}
						time.Sleep(time.Second)
						o := newer(2)
						require.Equal(t, store.Kept, b.Put(o))
						small := len(o.Body) < big
						check := func() {
							t.Helper()
							b.has(o.Key, o.Body, small)
							_, x := b.Get(p)
							require.Equal(t, o.Key != p, x != nil, "an index")
							if o.Key == p {
								b.misses(v)
							}
						}
						check()
						b.forget()
						check()
						b.restart()
						check()
					})
				})
			}
		}
	}
}

// When the copy of the newer one isn't written, the older one on disk is gone all
// the same.
func TestTheOldCopyGoesAtOnce(t *testing.T) {
	p, v := keyOf(1), keyOf(2)
	for _, size := range []int{1000, big} {
		for _, c := range []struct{ older, newer *store.Object }{
			{response(p, bytesOf(1, size)), response(p, bytesOf(2, 1000))},
			{response(p, bytesOf(1, size)), variantOf(p, v, bytesOf(2, 1000), "accept")},
			{variantOf(p, v, bytesOf(1, size), "accept"), response(p, bytesOf(2, 1000))},
			{variantOf(p, v, bytesOf(1, size), "accept"), variantOf(p, v, bytesOf(2, 1000), "accept")},
		} {
			inBoth(t, func(t *testing.T, b *both) {
				// Times of this bubble: the disk takes nothing from the future.
				c.older.RequestedAt, c.older.Life.ReceivedAt = time.Now(), time.Now()
				c.newer.RequestedAt, c.newer.Life.ReceivedAt = time.Now(), time.Now()
				require.Equal(t, store.Kept, b.Put(c.older))
				synctest.Wait()
				require.Positive(t, b.disk.Stats().Objects)
				b.StopBehind()
				require.Equal(t, store.Kept, b.Put(c.newer))
				b.has(c.newer.Key, c.newer.Body, true)
				require.EqualValues(t, 1, b.Stats().DiskDropped)
				b.EvictMemory()
				o, _ := b.Get(p)
				require.Nil(t, o)
				o, _ = b.Get(v)
				require.Nil(t, o)
			})
		}
	}
}

func TestDeleteReachesBothTiers(t *testing.T) {
	for _, size := range []int{1000, big} {
		for name, del := range map[string]func(b *both, o *store.Object){
			"Delete":                 func(b *both, o *store.Object) { b.Delete(o.Primary) },
			"DeleteObject, the same": func(b *both, o *store.Object) { b.DeleteObject(o) },
			"DeleteObject, as got": func(b *both, o *store.Object) {
				got, _ := b.Get(o.Key)
				b.DeleteObject(got)
			},
		} {
			t.Run(name, func(t *testing.T) {
				for _, written := range []bool{true, false} {
					inBoth(t, func(t *testing.T, b *both) {
						o, v := response(keyOf(1), bytesOf(1, size)), variantOf(keyOf(2), keyOf(3), bytesOf(2, size), "accept")
						b.Put(o)
						b.Put(v)
						if written {
							synctest.Wait()
						}
						del(b, o)
						del(b, v)
						check := func() {
							b.misses(keyOf(1))
							b.misses(keyOf(3))
						}
						check()
						synctest.Wait()
						check()
						b.restart()
						check()
					})
				}
			})
		}
	}
}

// An older object isn't the one kept any more: to delete it does nothing.
func TestDeleteObjectLeavesANewerOne(t *testing.T) {
	for _, size := range []int{1000, big} {
		inBoth(t, func(t *testing.T, b *both) {
			older := response(keyOf(1), bytesOf(1, size))
			b.Put(older)
			time.Sleep(time.Second)
			b.Put(response(keyOf(1), bytesOf(2, size)))
			b.DeleteObject(older)
			b.has(keyOf(1), bytesOf(2, size), size < big)
			b.restart()
			b.DeleteObject(older)
			b.has(keyOf(1), bytesOf(2, size), size < big)
		})
	}
}

// A 304 for what is on disk writes new fields there and nothing else.
func TestFreshenedOnDisk(t *testing.T) {
	inBoth(t, func(t *testing.T, b *both) {
		p, v := keyOf(1), keyOf(2)
		b.Put(variantOf(p, v, bytesOf(1, big), "accept"))
		got, _ := b.Get(v)
		time.Sleep(time.Second)
		life := rfc9111.Life{ReceivedAt: time.Now(), Lifetime: time.Minute}
		fresh := got.Freshened(http.Header{"X": {"new"}}, life, time.Now())
		require.Equal(t, store.Kept, b.Put(fresh))
		for range 2 {
			b.has(v, bytesOf(1, big), false)
			got, _ = b.Get(v)
			require.Equal(t, http.Header{"X": {"new"}}, got.Header.Header())
			require.Equal(t, time.Minute, got.Life.Lifetime)
			b.restart()
		}
	})
}

// Many look while one deletes and another stores: after a Delete returned, what
// was stored before it is never found again; after a Put, nothing older.
func TestPromotionNeverBringsBackTheOld(t *testing.T) {
	b := newBoth(t)
	defer func() { assert.NoError(t, b.Close(context.Background())) }()
	p, v := keyOf(1), keyOf(2)
	for round := range 150 {
		var o *store.Object
		body := bytesOf(round, 1000)
		if round%2 == 0 {
			o = response(p, body)
		} else {
			o = variantOf(p, v, body, "accept")
		}
		// On disk and not in memory, as after a restart.
		require.Equal(t, store.Kept, b.disk.Put(o))
		var readers sync.WaitGroup
		start := make(chan struct{})
		for range 4 {
			readers.Go(func() {
				<-start
				for range 20 {
					b.Get(p)
					if got, _ := b.Get(o.Key); got != nil {
						l, err := got.Load()
						if err == nil && !bytes.Equal(l.Body, body) {
							t.Errorf("round %d: another round's body", round)
						}
					}
				}
			})
		}
		close(start)
		b.Delete(p)
		got, _ := b.Get(o.Key)
		require.Nil(t, got, "round %d: it was deleted", round)
		readers.Wait()
		got, x := b.Get(o.Key)
		require.Nil(t, got, "round %d: it came back", round)
		require.Nil(t, x)
		_, x = b.Get(p)
		require.Nil(t, x)
	}
}

// A hit in memory costs the same with a disk.
func TestHitWithDiskAllocatesNothing(t *testing.T) {
	b := newBoth(t)
	defer func() { assert.NoError(t, b.Close(context.Background())) }()
	k := keyOf(1)
	b.Put(response(k, bytesOf(1, 1000)))
	b.restart() // after that nothing waits to be written
	require.NoError(t, b.disk.WaitScan(t.Context()))
	b.has(k, bytesOf(1, 1000), true)
	testnet.Allocs(t, 0, func() { b.Get(k) })
}

// PutIf tells what the new response would replace, whichever tier has it.
func TestPutIfTellsWhatIsThere(t *testing.T) {
	p, v, w := keyOf(1), keyOf(2), keyOf(3)
	at := func(o *store.Object, sec int) *store.Object {
		o.RequestedAt = time.Now().Add(time.Duration(sec-100) * time.Second).Round(0)
		return o
	}
	for _, size := range []int{1000, big} {
		for _, evicted := range []bool{false, true} {
			inBoth(t, func(t *testing.T, b *both) {
				told := func(o *store.Object) (there *store.Object) {
					require.Equal(t, store.Withdrawn, b.PutIf(o, func(was *store.Object) bool {
						there = was
						return false
					}))
					return there
				}
				put := func(o *store.Object) *store.Object {
					require.Equal(t, store.Kept, b.PutIf(o, func(*store.Object) bool { return true }))
					if evicted {
						b.forget()
					}
					return o
				}
				plain := func() *store.Object { return at(response(p, bytesOf(1, size)), 50) }
				varying := func(k store.Key) *store.Object { return at(variantOf(p, k, bytesOf(1, size), "accept"), 50) }
				require.Nil(t, told(plain()))
				require.Nil(t, told(varying(v)))
				old := put(at(response(p, bytesOf(2, size)), 60))
				require.True(t, old.Same(told(plain())))
				require.True(t, old.Same(told(varying(v))))
				first := put(at(variantOf(p, v, bytesOf(2, size), "accept"), 70))
				require.True(t, first.Same(told(varying(v))))
				require.Nil(t, told(varying(w)), "another variant isn't replaced")
				newest := put(at(variantOf(p, w, bytesOf(2, size), "accept"), 80))
				require.True(t, first.Same(told(varying(v))))
				require.True(t, newest.RequestedAt.Equal(told(plain()).RequestedAt))
			})
		}
	}
}
