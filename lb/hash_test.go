package lb

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// named makes a set of these origins, all of the same weight.
func named(weight int, ids ...string) *set {
	es := make([]entry, len(ids))
	for i, id := range ids {
		es[i] = entry{&load{}, digestString(id), uint16(i), uint8(weight), fullShare}
	}
	s := newSet(es)
	return &s
}

// placed returns the key's whole list, by name.
func placed(s *set, ids []string, key string) []string {
	seq := sequence{set: s, order: byKey, key: digestString(key)}
	var out []string
	for i, ok := seq.next(); ok; i, ok = seq.next() {
		out = append(out, ids[i])
	}
	return out
}

// The vectors in docs/load-balancing.md. They must never change.
func TestHashVectors(t *testing.T) {
	assert.Equal(t, hashVectors, vectorsText())
}

const hashVectors = `origin ID   digest
a           53a469d9dd2f7617
b           9f4f8a3c3dcfe510
c           10befd9efca17aea

key           digest            a, weight 1       a, weight 8       b, weight 1       b, weight 8       c, weight 1       c, weight 8       order at weight 1
              a6a1f9f5b94913af  4e95d26c719542b1  d8cd146e8f33e65e  2be2c96aa49cd83d  f12a8a6b4bd59016  2257e2c1447fedf7  d87aa0c4896e586b  a b c
/             f810636eac859f32  c0921682c8dbdd4b  fcc63cce163ec91a  6377ee0d7d97fbfa  e635617e07664a06  8d933b3d3dae76fb  dfcceba073c8ac57  a c b
/products/1   2f35821ed5340bb6  6bced6ee70c07888  dd3b18a695d7192f  031ca6e09c0885e8  f79a0c69c6a2724e  9bb88e49d0b0a5c8  e18caaf25166597f  c a b
198.51.100.7  6f7e43ad028daecd  681af6edeb072a0c  e37daa5937ac22a5  2db9c22ebd888d83  fb05058e86387250  1bc63ee8ba78f979  f9eaea0ad6f13b2d  a b c
`

// vectorsText writes the table of the docs.
func vectorsText() string {
	ids := []string{"a", "b", "c"}
	out := "origin ID   digest\n"
	for _, id := range ids {
		out += fmt.Sprintf("%-10s  %016x\n", id, digestString(id))
	}
	out += fmt.Sprintf("\n%-12s  %-16s", "key", "digest")
	for _, id := range ids {
		out += fmt.Sprintf("  %-16s  %-16s", id+", weight 1", id+", weight 8")
	}
	out += "  order at weight 1\n"
	for _, key := range []string{"", "/", "/products/1", "198.51.100.7"} {
		out += fmt.Sprintf("%-12s  %016x", key, digestString(key))
		for _, id := range ids {
			for _, w := range []int{1, 8} {
				out += fmt.Sprintf("  %016x", score(digestString(key), digestString(id), w))
			}
		}
		out += "  " + strings.Join(placed(named(1, ids...), ids, key), " ") + "\n"
	}
	return out
}

// Two nodes with the origins in another order place every key alike.
func TestNodesAgreeOnEveryKey(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	ids := []string{"a", "b", "c", "d", "e", "f", "g"}
	other := slices.Clone(ids)
	for range 50 {
		r.Shuffle(len(other), func(i, j int) { other[i], other[j] = other[j], other[i] })
		one, two := named(3, ids...), named(3, other...)
		for range 200 {
			key := fmt.Sprint(r.Uint64())
			require.Equal(t, placed(one, ids, key), placed(two, other, key))
		}
	}
}

// Losing one of ten moves a tenth of the keys, and none of the others.
func TestLosingOneMovesItsKeysOnly(t *testing.T) {
	const keys = 4000
	ids := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	for lost := range ids {
		rest := slices.Delete(slices.Clone(ids), lost, lost+1)
		before, after := named(1, ids...), named(1, rest...)
		moved := 0
		for k := range keys {
			key := fmt.Sprint(k)
			was, is := placed(before, ids, key), placed(after, rest, key)
			if was[0] == ids[lost] {
				moved++
				require.Equal(t, was[1], is[0], "it goes to the next of its list")
			} else {
				require.Equal(t, was[0], is[0])
			}
		}
		assert.InDelta(t, keys/10, moved, 5*19)
	}
}

// More weight only attracts keys: none moves between the other origins.
func TestWeightMovesKeysToItsOriginOnly(t *testing.T) {
	const keys = 60_000
	es := entries(2, 3, 4)
	before := newSet(slices.Clone(es))
	es[1].weight = 4
	after := newSet(es)
	moved := 0
	for k := range keys {
		a := sequence{set: &before, order: byKey, key: mix(uint64(k))}
		b := sequence{set: &after, order: byKey, key: mix(uint64(k))}
		i, _ := a.next()
		j, _ := b.next()
		if i != j {
			moved++
			require.Equal(t, 1, j)
		}
	}
	assert.InDelta(t, keys*(4.0/10-3.0/9), moved, 5*70)
}

// No origin gets more than a quarter above its share, as long as there is a key
// for which others have room; keys go home when their origin has room again.
func TestBoundedLoad(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	es := entries(1, 2, 1, 4)
	s := newSet(es)
	const n = 400
	for range n {
		// One hot key for half of the requests.
		key := r.Uint64()
		if r.IntN(2) == 0 {
			key = 42
		}
		seq := sequence{set: &s, order: byKey, key: key, bound: 125}
		i, _ := seq.next()
		es[i].load.inFlight.Add(1)
	}
	for i, e := range es {
		most := max(n*125*int(e.weight)/100/8+1, roomFor*int(e.weight))
		assert.LessOrEqual(t, int(e.load.inFlight.Load()), most, "origin %d", i)
	}
	home := sequence{set: &s, order: byKey, key: 42}
	h, _ := home.next()
	es[h].load.inFlight.Store(n)
	bounded := sequence{set: &s, order: byKey, key: 42, bound: 125}
	i, _ := bounded.next()
	require.NotEqual(t, h, i)
	assert.Equal(t, h+1, bounded.crowded)
	for _, e := range es {
		e.load.inFlight.Store(0)
	}
	bounded = sequence{set: &s, order: byKey, key: 42, bound: 125}
	i, _ = bounded.next()
	assert.Equal(t, h, i)
	assert.Zero(t, bounded.crowded)
}

// In slow start a key comes to its origin once and stays.
func TestSlowStartIsSteadyForKeys(t *testing.T) {
	es := entries(1, 1, 1)
	there := map[uint64]bool{}
	for share := 1; share <= fullShare; share++ {
		for i := range es {
			es[i].share = fullShare
		}
		es[0].share = uint8(share)
		s := newSet(slices.Clone(es))
		for k := range uint64(2000) {
			seq := sequence{set: &s, order: byKey, key: mix(k)}
			i, _ := seq.next()
			if there[k] {
				require.Zero(t, i)
			}
			there[k] = i == 0
		}
	}
}

// The mix is a permutation: what it does can be undone, so that no two of an
// origin's draws are the same.
func TestMixIsAPermutation(t *testing.T) {
	unshift := func(x uint64, n int) uint64 { return x ^ x>>n ^ x>>(2*n) }
	for k := range uint64(1000) {
		x := k * golden
		y := mix(x)
		y = unshift(y, 31) * 0x319642b2d24d8ec3
		y = unshift(y, 27) * 0x96de1b173f119089
		assert.Equal(t, x, unshift(y, 30))
	}
	assert.Equal(t, binary.LittleEndian.Uint64([]byte{0xaf, 0x13, 0x49, 0xb9, 0xf5, 0xf9, 0xa1, 0xa6}), digestString(""), "BLAKE3's own test vector")
}
