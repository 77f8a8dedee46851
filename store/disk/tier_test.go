package disk

import (
	"fmt"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
)

// sizes are those at which something changes: nothing, the first read, blocks,
// spans.
var sizes = []int{0, 1, 511, 4096, firstRead - bodyAt, firstRead, 1<<blockLog - 1, 1 << blockLog, 1<<blockLog + 1,
	3 << blockLog, verifyAhead + 5, 3*verifyAhead + 77}

func TestEveryFieldAndByteComesBack(t *testing.T) {
	for _, size := range sizes {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			d := openTier(t, Options{})
			o := object(key(1), bytesOf(1, size))
			require.Equal(t, store.Kept, d.Put(o))
			mustHave(t, d, key(1), o.Body)
			d = reopened(t, d)
			mustHave(t, d, key(1), o.Body)
			got, _ := d.Get(key(1))
			assert.Nil(t, got.Body)
			assert.EqualValues(t, size, got.Content.Size())
			assert.Equal(t, fmt.Sprint(size), got.Length)
			assert.Equal(t, o.Header, got.Header)
			assert.Equal(t, o.Facts, got.Facts)
			assert.True(t, o.RequestedAt.Equal(got.RequestedAt))
		})
	}
}

func TestReplaceAndDelete(t *testing.T) {
	d := scanned(t, openTier(t, Options{}))
	mustMiss(t, d, key(1))
	assert.False(t, d.Delete(key(1)))
	require.Equal(t, store.Kept, d.Put(object(key(1), []byte("old"))))
	mustHave(t, d, key(1), []byte("old"))
	require.Equal(t, store.Kept, d.Put(object(key(1), []byte("newer"))))
	mustHave(t, d, key(1), []byte("newer"))
	assert.True(t, d.Delete(key(1)))
	mustMiss(t, d, key(1))
	assert.False(t, d.Delete(key(1)))
	objects, temps := filesIn(t, d.files.dir)
	assert.Empty(t, objects)
	assert.Empty(t, temps)
	s := d.Stats()
	assert.Zero(t, s.Objects)
	assert.Zero(t, s.Bytes)
	assert.EqualValues(t, 2, s.Puts)
}

// An object that was got before its replacement was put must not be sent with
// the replacement's bytes.
func TestContentOfAReplacedObjectIsGone(t *testing.T) {
	d := openTier(t, Options{})
	d.Put(object(key(1), bytesOf(1, 500_000)))
	old, ok := d.Get(key(1))
	require.True(t, ok)
	opened, err := old.Content.Open()
	require.NoError(t, err)
	d.Put(object(key(1), bytesOf(2, 500_000)))
	_, err = old.Content.Open()
	assert.ErrorIs(t, err, store.ErrGone)
	// Who had it open goes on with the old bytes.
	got, err := sendAll(opened, 500_000)
	require.NoError(t, err)
	assert.True(t, string(got) == string(bytesOf(1, 500_000)))
	require.NoError(t, opened.Close())
	mustHave(t, d, key(1), bytesOf(2, 500_000))
}

func TestFreshenSharesTheBody(t *testing.T) {
	d := openTier(t, Options{})
	body := bytesOf(1, 300_000)
	require.Equal(t, store.Kept, d.Put(object(key(1), body)))
	path := d.files.path(&[]store.Key{key(1)}[0])
	before, _ := os.Stat(path)
	for i := range 20 {
		o, ok := d.Get(key(1))
		require.True(t, ok)
		life := o.Life
		life.Lifetime = time.Duration(i+2) * time.Hour
		h := o.Header.Header()
		h.Set("X-Round", fmt.Sprint(i, string(make([]byte, 10*i))))
		require.Equal(t, store.Kept, d.Put(o.Freshened(h, life, when.Add(time.Duration(i)))))
		if i%5 == 4 {
			d = reopened(t, d)
		}
		got, ok := d.Get(key(1))
		require.True(t, ok)
		assert.Equal(t, life.Lifetime, got.Life.Lifetime)
		assert.Equal(t, h, got.Header.Header())
		assert.True(t, when.Add(time.Duration(i)).Equal(got.RequestedAt))
		// The older object's content is the same body.
		f, err := o.Content.Open()
		if i%5 != 4 {
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
		mustHave(t, d, key(1), body)
	}
	after, _ := os.Stat(path)
	assert.True(t, os.SameFile(before, after))
	assert.Less(t, after.Size()-before.Size(), int64(4096), "the file mustn't grow with every validation")
	o, _ := d.Get(key(1))
	d.Delete(key(1))
	assert.Equal(t, store.Gone, d.Put(o.Freshened(o.Header.Header(), o.Life, when)))
}

func TestDeleteObjectOnlyIfItIsTheOne(t *testing.T) {
	d := openTier(t, Options{})
	old := object(key(1), []byte("a"))
	d.Put(old)
	first, _ := d.Get(key(1))
	next := object(key(1), []byte("b"))
	next.RequestedAt = when.Add(time.Second)
	d.Put(next)
	assert.False(t, d.DeleteObject(first))
	assert.False(t, d.DeleteObject(old))
	later := object(key(1), []byte("b"))
	later.RequestedAt, later.Life.ReceivedAt = next.RequestedAt, when.Add(time.Minute)
	assert.False(t, d.DeleteObject(later), "received at another instant")
	again, _ := d.Get(key(1))
	d.Put(next)
	assert.False(t, d.DeleteObject(again), "its file has been replaced, though the times are the same")
	mustHave(t, d, key(1), []byte("b"))
	assert.True(t, d.DeleteObject(next), "an object in memory is told by its times")
	mustMiss(t, d, key(1))
}

func TestRefusals(t *testing.T) {
	d := openTier(t, Options{MaxBytes: 1 << 20, MaxObjectBytes: 2000})
	bad := object(key(1), nil)
	bad.Primary = key(2)
	tests := []struct {
		name string
		o    *store.Object
		want store.Rejection
	}{
		{"a body larger than the largest", object(key(1), make([]byte, 2001)), store.TooLarge},
		{"under a variant's key without varying", bad, store.BadKey},
		{"varying under the primary key", variant(key(1), key(1), nil, "accept"), store.BadKey},
		{"names out of order", variant(key(1), key(2), nil, "b", "a"), store.BadKey},
		{"names in capitals", variant(key(1), key(2), nil, "Accept"), store.BadKey},
		{"an index", (&store.Record{}).Object(key(1)), store.BadKey},
		{"no status", &store.Object{}, store.BadKey},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, d.Put(tt.o), tt.name)
	}
	s := d.Stats()
	assert.EqualValues(t, 1, s.Rejected(store.TooLarge))
	assert.EqualValues(t, 6, s.Rejected(store.BadKey))
	assert.Zero(t, s.Objects)
	assert.Zero(t, s.Bytes)
}

func TestBoundsHold(t *testing.T) {
	for name, o := range map[string]Options{
		"bytes": {MaxBytes: 1 << 20},
		"files": {MaxObjects: 16}, // a hundred thousand small ones take all inodes
	} {
		t.Run(name, func(t *testing.T) {
			d := scanned(t, openTier(t, o))
			for i := range 200 {
				require.Equal(t, store.Kept, d.Put(object(key(i), bytesOf(i, 20_000))))
				mustHave(t, d, key(i), bytesOf(i, 20_000))
				mustHave(t, d, key(0), bytesOf(0, 20_000)) // popular
			}
			s := d.Stats()
			assert.LessOrEqual(t, s.Bytes, s.MaxBytes)
			objects, temps := filesIn(t, d.files.dir)
			assert.Len(t, objects, int(s.Objects))
			assert.Empty(t, temps)
			assert.LessOrEqual(t, len(objects), d.o.MaxObjects)
			assert.EqualValues(t, 200-s.Objects, s.Evictions)
			var sum int64
			for _, f := range objects {
				st, err := os.Stat(f)
				require.NoError(t, err)
				sum += onDisk(st.Size())
			}
			assert.Equal(t, sum, s.Bytes)
		})
	}
}

// What is being written counts, and can't push everything else out.
func TestRoomOfBodiesBeingWritten(t *testing.T) {
	d := scanned(t, openTier(t, Options{MaxBytes: 2 << 20, MaxObjectBytes: 1 << 20}))
	require.Equal(t, store.Kept, d.Put(object(key(1), make([]byte, 400_000))))
	a, err := d.Create()
	require.NoError(t, err)
	_, err = a.Write(make([]byte, 1<<20))
	require.NoError(t, err)
	b, err := d.Create()
	require.NoError(t, err)
	_, err = b.Write(make([]byte, 600_000))
	var rejected *store.RejectedError
	require.ErrorAs(t, err, &rejected)
	assert.Equal(t, store.NoRoom, rejected.Reason)
	assert.Equal(t, store.NoRoom, b.Commit(object(key(2), nil)))
	require.NoError(t, b.Close())
	assert.LessOrEqual(t, d.Stats().Bytes, int64(2<<20))
	a.Abort()
	require.NoError(t, a.Close())
	mustHave(t, d, key(1), make([]byte, 400_000))
	_, temps := filesIn(t, d.files.dir)
	assert.Empty(t, temps)
	assert.Equal(t, onDisk(400_000+512), d.Stats().Bytes)
}

func TestOptionErrors(t *testing.T) {
	_, err := Open(Options{MaxBytes: 1, MaxObjects: 1, MaxObjectBytes: -1, MaxVariants: -1, MaxOpenFiles: 1, Sync: 9})
	for _, field := range []string{"Dir", "MaxBytes", "MaxObjects", "MaxObjectBytes", "MaxVariants", "MaxOpenFiles", "Sync"} {
		assert.ErrorContains(t, err, "disk."+field+" = ")
	}
	for _, s := range []Sync{SyncFile, SyncName} {
		d := openTier(t, Options{Sync: s})
		require.Equal(t, store.Kept, d.Put(variant(key(1), key(2), []byte("x"), "accept")))
		mustHave(t, d, key(2), []byte("x"))
	}
}

// full returns a value of v's type with no field left at zero, except those
// that aren't kept.
func full(v reflect.Value, skip map[string]bool) {
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i)
		if skip[name.Name] || !name.IsExported() {
			continue
		}
		switch {
		case name.Type == reflect.TypeFor[time.Time]():
			f.Set(reflect.ValueOf(when.Add(time.Duration(i))))
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		case f.CanInt():
			f.SetInt(int64(200 + i))
		case f.CanUint():
			f.SetUint(uint64(1 + i%3))
		case f.Kind() == reflect.Struct:
			full(f, nil)
		case f.Kind() == reflect.Array:
			f.Index(0).SetUint(uint64(i))
		case name.Type == reflect.TypeFor[store.Block]():
			f.SetString(string(store.EncodeBlock(map[string][]string{"A": {fmt.Sprint(i)}})))
		case f.Kind() == reflect.String:
			f.SetString(fmt.Sprint(i))
		case f.Kind() == reflect.Slice && name.Type.Elem().Kind() == reflect.String:
			f.Set(reflect.ValueOf([]string{"a", fmt.Sprint("b", i)}))
		case f.Kind() == reflect.Slice:
			f.SetBytes([]byte(fmt.Sprint(i)))
		default:
			panic("a field of a new kind: " + name.Name)
		}
	}
}

// A field added to Object or Life must be kept, or named here.
func TestNoFieldIsForgotten(t *testing.T) {
	var o store.Object
	full(reflect.ValueOf(&o).Elem(), map[string]bool{"Body": true, "Content": true, "Length": true, "Attached": true})
	h := head{key: o.Key, primary: o.Primary}
	got, lineage, err := decodeFields(&h, encodeFields(&o, 42))
	require.NoError(t, err)
	assert.EqualValues(t, 42, lineage)
	v, w := reflect.ValueOf(&o).Elem(), reflect.ValueOf(got).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i)
		switch {
		case !name.IsExported() || name.Name == "Length":
		case name.Name == "Life":
			l, m := v.Field(i), w.Field(i)
			for j := range l.NumField() {
				same(t, l.Type().Field(j).Name, l.Field(j), m.Field(j))
			}
		default:
			same(t, name.Name, v.Field(i), w.Field(i))
		}
	}
}

func same(t *testing.T, name string, a, b reflect.Value) {
	if at, ok := a.Interface().(time.Time); ok {
		assert.True(t, at.Equal(b.Interface().(time.Time)), name)
		return
	}
	assert.Equal(t, a.Interface(), b.Interface(), name)
}
