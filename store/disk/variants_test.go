package disk

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
)

func setsOf(t *testing.T, d *Tier, primary store.Key) [][]string {
	t.Helper()
	o, ok := d.Get(primary)
	if !ok {
		return nil
	}
	require.True(t, o.IsIndex())
	return o.Sets()
}

// A lookup of the primary key leads to the variants, before and after the scan
// and after a restart.
func TestVariantsSurviveARestart(t *testing.T) {
	d := openTier(t, Options{})
	p := key(1)
	require.Equal(t, store.Kept, d.Put(variant(p, key(2), []byte("a"), "accept")))
	require.Equal(t, store.Kept, d.Put(variant(p, key(3), []byte("b"), "accept", "cookie")))
	want := [][]string{{"accept", "cookie"}, {"accept"}}
	for round := range 3 {
		assert.Equal(t, want, setsOf(t, d, p), round)
		mustHave(t, d, key(2), []byte("a"))
		mustHave(t, d, key(3), []byte("b"))
		d = reopened(t, d)
		if round == 1 {
			scanned(t, d)
		}
	}
	assert.EqualValues(t, 3, scanned(t, d).Stats().Objects, "variants and record")
}

func TestAPurgedVariantNeverComesBack(t *testing.T) {
	d := openTier(t, Options{})
	p := key(1)
	require.Equal(t, store.Kept, d.Put(variant(p, key(2), []byte("old"), "accept")))
	require.Equal(t, store.Kept, d.Put(variant(p, key(3), []byte("old"), "accept")))
	// The process is killed after the record is gone and before the variants.
	d.remove(&p)
	mustMiss(t, d, key(2))
	d = reopened(t, d)
	mustMiss(t, d, key(2))
	require.Equal(t, store.Kept, d.Put(variant(p, key(3), []byte("new"), "accept")))
	assert.Equal(t, [][]string{{"accept"}}, setsOf(t, d, p))
	mustMiss(t, d, key(2))
	mustHave(t, d, key(3), []byte("new"))

	assert.True(t, d.Delete(p))
	assert.Nil(t, setsOf(t, d, p))
	mustMiss(t, d, key(3))
}

func TestAnObjectThatDoesNotVaryReplacesTheVariants(t *testing.T) {
	d := openTier(t, Options{})
	p := key(1)
	d.Put(variant(p, key(2), []byte("a"), "accept"))
	require.Equal(t, store.Kept, d.Put(object(p, []byte("plain"))))
	mustHave(t, d, p, []byte("plain"))
	mustMiss(t, d, key(2))
	require.Equal(t, store.Kept, d.Put(variant(p, key(3), []byte("b"), "accept")))
	assert.Equal(t, [][]string{{"accept"}}, setsOf(t, d, p))
	mustHave(t, d, key(3), []byte("b"))
	mustMiss(t, d, key(2))
	objects, _ := filesIn(t, d.files.dir)
	assert.Len(t, objects, 2)
}

func TestVariantsAreBounded(t *testing.T) {
	d := openTier(t, Options{MaxVariants: 4})
	p := key(1)
	for i := range 10 {
		require.Equal(t, store.Kept, d.Put(variant(p, key(100+i), fmt.Append(nil, i), "accept")))
	}
	for i := range 6 {
		mustMiss(t, d, key(100+i))
	}
	for i := 6; i < 10; i++ {
		mustHave(t, d, key(100+i), fmt.Append(nil, i))
	}
	objects, _ := filesIn(t, d.files.dir)
	assert.Len(t, objects, 5)
}

// Storing the newest variant again writes no record: refreshing a popular page
// costs one file.
func TestTheSameVariantAgainLeavesTheRecord(t *testing.T) {
	d := openTier(t, Options{})
	p := key(1)
	d.Put(variant(p, key(2), []byte("a"), "accept"))
	before, _ := d.index.look(&p)
	d.Put(variant(p, key(2), []byte("b"), "accept"))
	after, _ := d.index.look(&p)
	assert.Equal(t, before, after)
	mustHave(t, d, key(2), []byte("b"))
}

func TestAFreshenedVariantStays(t *testing.T) {
	d := openTier(t, Options{})
	p := key(1)
	d.Put(variant(p, key(2), []byte("a"), "accept"))
	o, _ := d.Get(key(2))
	life := o.Life
	life.Lifetime = 2 * time.Hour
	require.Equal(t, store.Kept, d.Put(o.Freshened(o.Header.Header(), life, when)))
	d = reopened(t, d)
	o, ok := d.Get(key(2))
	require.True(t, ok)
	assert.Equal(t, 2*time.Hour, o.Life.Lifetime)
}
