package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestIndexBounds(t *testing.T) {
	a, b := []string{"accept"}, []string{"accept", "cookie"}
	var x *Index
	x, dropped := x.with(key(1), a, 3)
	assert.Empty(t, dropped)
	first := x.lineage
	require.NotNil(t, first)
	x, _ = x.with(key(2), b, 3)
	assert.Equal(t, [][]string{b, a}, x.Sets, "the newest first")
	old := x
	x, dropped = x.with(key(1), a, 3)
	assert.Empty(t, dropped, "it was there already")
	assert.Equal(t, [][]string{a, b}, x.Sets)
	assert.Equal(t, []Key{key(2), key(1)}, x.variants)
	assert.Equal(t, []Key{key(1), key(2)}, old.variants, "an index doesn't change")
	x, _ = x.with(key(3), a, 3)
	x, dropped = x.with(key(4), a, 3)
	assert.Equal(t, []Key{key(2)}, dropped, "the one stored longest ago")
	x, dropped = x.with(key(4), a, 1)
	assert.Equal(t, []Key{key(1), key(3)}, dropped)
	for i := range 20 {
		x, _ = x.with(key(100+i), []string{fmt.Sprint(i)}, 64)
		assert.LessOrEqual(t, len(x.Sets), maxNameSets)
		assert.Equal(t, fmt.Sprint(i), x.Sets[0][0])
	}
	assert.Same(t, first, x.lineage)
}

// An index that grew to its bound takes no more memory from then on.
func TestIndexMemoryIsBounded(t *testing.T) {
	var x *Index
	for i := range 5000 {
		x, _ = x.with(key(i), []string{"accept"}, 64)
		assert.LessOrEqual(t, cap(x.variants), 80)
	}
}

// Random programs against a list.
func TestIndexPrograms(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		bound := 1 + rnd.IntN(6)
		var x *Index
		var variants []Key
		var sets [][]string
		for range 200 {
			k, names := key(rnd.IntN(10)), []string{fmt.Sprint(rnd.IntN(12))}
			next, dropped := x.with(k, names, bound)
			variants = append(slices.DeleteFunc(variants, func(v Key) bool { return v == k }), k)
			var out []Key
			for len(variants) > bound {
				out, variants = append(out, variants[0]), variants[1:]
			}
			sets = slices.DeleteFunc(sets, func(s []string) bool { return slices.Equal(s, names) })
			sets = slices.Insert(sets, 0, names)
			sets = sets[:min(len(sets), maxNameSets)]
			require.Equal(t, variants, next.variants)
			require.Equal(t, sets, next.Sets)
			require.Equal(t, out, dropped)
			x = next
		}
	}
}
