package disk

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
)

// rewrite changes bytes of a key's file where it is.
func rewrite(t testing.TB, d *Tier, k store.Key, off int64, change func(b []byte), n int) {
	t.Helper()
	f, err := os.OpenFile(d.files.path(&k), os.O_RDWR, 0)
	require.NoError(t, err)
	b := make([]byte, n)
	_, err = f.ReadAt(b, off)
	require.NoError(t, err)
	change(b)
	_, err = f.WriteAt(b, off)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func flip(b []byte) { b[0] ^= 1 << (rand.Uint32() % 8) }

// Every byte of a small file in turn, with the file open and verified before,
// and with a process that hasn't seen it.
func TestEveryFlippedByteIsFound(t *testing.T) {
	for name, o := range map[string]*store.Object{
		"object":  object(key(1), []byte("the body")),
		"empty":   object(key(1), nil),
		"variant": variant(key(2), key(1), []byte("the body"), "accept"),
	} {
		t.Run(name, func(t *testing.T) {
			d := scanned(t, openTier(t, Options{}))
			cold := openTier(t, Options{})
			require.Equal(t, store.Kept, d.Put(o))
			k := key(1)
			whole, err := os.ReadFile(d.files.path(&k))
			require.NoError(t, err)
			require.NoError(t, os.MkdirAll(cold.files.folder(&k), 0o700))
			for i := range whole {
				require.Equal(t, store.Kept, d.Put(o))
				mustHave(t, d, k, o.Body)
				rewrite(t, d, k, int64(i), flip, 1)
				damaged, err := os.ReadFile(d.files.path(&k))
				require.NoError(t, err)
				mustMiss(t, d, k)
				assert.NoFileExists(t, d.files.path(&k))
				mustMiss(t, d, k)

				require.NoError(t, os.WriteFile(cold.files.path(&k), damaged, 0o600))
				cold.scanned.Store(false) // found by its name
				mustMiss(t, cold, k)
				assert.NoFileExists(t, cold.files.path(&k))
			}
			assert.EqualValues(t, len(whole), d.Stats().Corrupt)
			assert.EqualValues(t, len(whole), cold.Stats().Corrupt)
		})
	}
}

func TestARecordWithAFlippedByteIsGone(t *testing.T) {
	d := scanned(t, openTier(t, Options{}))
	p := key(2)
	for i := 0; ; i++ {
		require.Equal(t, store.Kept, d.Put(variant(p, key(1), []byte("b"), "accept")))
		st, err := os.Stat(d.files.path(&p))
		require.NoError(t, err)
		if int64(i) >= st.Size() {
			break
		}
		rewrite(t, d, p, int64(i), flip, 1)
		mustMiss(t, d, key(1))
		mustMiss(t, d, p)
	}
}

// A large body: never a wrong byte, whatever is damaged and whenever. Bytes
// damaged after they were verified are found since the file has changed.
func TestDamageInALargeBody(t *testing.T) {
	t.Parallel()
	const rounds, size = 30, 3<<20 + 123
	body := bytesOf(9, size)
	d := scanned(t, openTier(t, Options{}))
	r := rand.New(rand.NewPCG(1, 2))
	k := key(1)
	for i := range rounds {
		require.Equal(t, store.Kept, d.Put(object(k, body)))
		if i%2 == 0 {
			mustHave(t, d, k, body)
		}
		at := r.Int64N(size)
		rewrite(t, d, k, bodyAt+at, flip, 1)
		o, ok := d.Get(k)
		if !ok {
			assert.Less(t, at, int64(1<<blockLog), "the first block damns the object, others don't")
			continue
		}
		f, err := o.Content.Open()
		require.NoError(t, err)
		got, err := sendAll(f, size)
		require.ErrorIs(t, err, store.ErrCorrupt)
		require.NoError(t, f.Close())
		require.LessOrEqual(t, int64(len(got)), at)
		require.True(t, string(got) == string(body[:len(got)]), "a wrong byte went out")
		mustMiss(t, d, k)
	}
	assert.EqualValues(t, rounds, d.Stats().Corrupt)
}

// A section that doesn't touch the damage is right, one that does fails.
func TestRangesAroundDamage(t *testing.T) {
	body := bytesOf(9, 4<<20)
	d := openTier(t, Options{})
	k := key(1)
	d.Put(object(k, body))
	rewrite(t, d, k, bodyAt+2<<20, flip, 1)
	o, _ := d.Get(k)
	f, err := o.Content.Open()
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	s, err := f.Section(3<<20, 100)
	require.NoError(t, err)
	got, err := io.ReadAll(s)
	require.NoError(t, err)
	assert.Equal(t, body[3<<20:3<<20+100], got)
	_, err = f.Section(2<<20+100_000, 100)
	assert.ErrorIs(t, err, store.ErrCorrupt)
	mustMiss(t, d, k)
}

// Files cut short, empty, of garbage, or under another's name, as a crash of
// the machine may leave them; and one of a later version.
func TestWhatACrashLeaves(t *testing.T) {
	d := openTier(t, Options{})
	body := bytesOf(1, 200_000)
	for i := range 8 {
		require.Equal(t, store.Kept, d.Put(object(key(i), body)))
	}
	path := func(n int) string { k := key(n); return d.files.path(&k) }
	require.NoError(t, os.Truncate(path(0), 0))
	require.NoError(t, os.Truncate(path(1), 150_000))
	require.NoError(t, os.WriteFile(path(2), make([]byte, 200_000), 0o600))
	require.NoError(t, os.WriteFile(path(3), []byte("garbage"), 0o600))
	swapped, err := os.ReadFile(path(5))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path(4), swapped, 0o600))
	later := func(b []byte) {
		b[8]++
		b[12], b[13], b[14], b[15] = le32(checksum(b[:12]))
	}
	rewrite(t, d, key(6), 0, later, slotSize)
	require.NoError(t, os.WriteFile(filepath.Join(d.files.dir, tempName, "old-1"), body, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(d.files.dir, "notes.txt"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path(7)), "README"), nil, 0o600))

	d = scanned(t, reopened(t, d))
	s := d.Stats()
	assert.EqualValues(t, 2, s.Objects)
	assert.EqualValues(t, 5, s.Corrupt)
	assert.EqualValues(t, 1, s.UnknownVersion)
	for i := range 8 {
		if i == 5 || i == 7 {
			mustHave(t, d, key(i), body)
		} else {
			mustMiss(t, d, key(i))
		}
	}
	objects, temps := filesIn(t, d.files.dir)
	assert.Len(t, objects, 3, "the later version's file is left alone")
	assert.Empty(t, temps)
	assert.FileExists(t, filepath.Join(d.files.dir, "notes.txt"))
	assert.FileExists(t, filepath.Join(filepath.Dir(path(7)), "README"))
	require.Equal(t, store.Kept, d.Put(object(key(6), body)))
	mustHave(t, d, key(6), body)
}

// The clock was a day ahead when the response was received and has been set
// right since: it would stay fresh for a day too long.
func TestAResponseFromTheFutureIsGone(t *testing.T) {
	d := openTier(t, Options{})
	o := object(key(1), []byte("x"))
	o.Life.ReceivedAt = time.Now().Add(24 * time.Hour)
	require.Equal(t, store.Kept, d.Put(o))
	mustMiss(t, d, key(1))
}

func TestDamageOnTheOtherHeadIsFoundAfterFreshening(t *testing.T) {
	for _, at := range []int64{0, 20, 130, 200} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			d := openTier(t, Options{})
			d.Put(object(key(1), []byte("x")))
			o, _ := d.Get(key(1))
			require.Equal(t, store.Kept, d.Put(o.Freshened(o.Header.Header(), o.Life, when)))
			rewrite(t, d, key(1), at, flip, 1)
			mustMiss(t, d, key(1))
		})
	}
}
