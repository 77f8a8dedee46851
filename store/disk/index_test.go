package disk

import (
	"container/list"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
)

// The memory of an entry is what MaxObjects is chosen by.
func TestMemoryOfTheIndex(t *testing.T) {
	const n = 1_000_000
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	x := newIndex(1<<40, n)
	for i := range n {
		k := key(i)
		x.set(&k, version{bytes: 4096}, 0)
	}
	each := float64(heap()-before) / n
	runtime.KeepAlive(x)
	t.Logf("%.0f bytes an entry", each)
	assert.Less(t, each, 200.0)
}

// modelIndex is the same policy in the plainest form.
type modelIndex struct {
	x     *index
	lists [2]*list.List // probation, protected
	bytes map[store.Key]int64
}

func (m *modelIndex) find(k store.Key) (*list.List, *list.Element) {
	for _, l := range m.lists {
		for e := l.Front(); e != nil; e = e.Next() {
			if e.Value == k {
				return l, e
			}
		}
	}
	return nil, nil
}

func (m *modelIndex) sum(i int) (n int64) {
	for e := m.lists[i].Front(); e != nil; e = e.Next() {
		n += m.bytes[e.Value.(store.Key)]
	}
	return n
}

func (m *modelIndex) use(k store.Key) bool {
	l, e := m.find(k)
	if e == nil {
		return false
	}
	l.Remove(e)
	m.lists[1].PushFront(k)
	for m.sum(1) > m.x.maxProtected || m.lists[1].Len() > m.x.maxEntries/5*4 {
		m.lists[0].PushFront(m.lists[1].Remove(m.lists[1].Back()))
	}
	return true
}

func (m *modelIndex) evict() (store.Key, bool) {
	for _, l := range m.lists {
		if l.Len() > 0 {
			k := l.Remove(l.Back()).(store.Key)
			delete(m.bytes, k)
			return k, true
		}
	}
	return store.Key{}, false
}

// Random programs of the index against its model.
func TestIndexPrograms(t *testing.T) {
	for seed := range 50 {
		r := rand.New(rand.NewPCG(uint64(seed), 0))
		x := newIndex(100_000, 20)
		m := &modelIndex{x: x, lists: [2]*list.List{list.New(), list.New()}, bytes: map[store.Key]int64{}}
		for range 2000 {
			k, n := key(r.IntN(60)), int64(1+r.IntN(20_000))
			switch r.IntN(6) {
			case 0:
				_, ok := x.use(&k)
				require.Equal(t, m.use(k), ok)
			case 1:
				l, e := m.find(k)
				if e != nil {
					l.Remove(e)
					delete(m.bytes, k)
				}
				require.Equal(t, e != nil, x.remove(&k))
			case 2:
				_, known := m.bytes[k]
				x.note(&k, version{bytes: n})
				if !known {
					m.lists[0].PushFront(k)
					m.bytes[k] = n
				}
			default:
				if _, known := m.bytes[k]; !known {
					m.lists[0].PushFront(k)
				}
				m.bytes[k] = n
				x.set(&k, version{bytes: n}, 0)
			}
			for {
				victim, found := x.excess()
				over := len(m.bytes) > 20 || m.sum(0)+m.sum(1) > 100_000
				require.Equal(t, over, found)
				if !found {
					break
				}
				want, _ := m.evict()
				require.Equal(t, want, victim)
			}
			entries, bytes, _ := x.counts()
			require.EqualValues(t, len(m.bytes), entries)
			require.Equal(t, m.sum(0)+m.sum(1), bytes)
		}
	}
}

// A scan through everything once doesn't push out what is used again.
func TestOnceUsedDoNotPushOutThePopular(t *testing.T) {
	x := newIndex(100*4096, 1000)
	for i := range 20 {
		k := key(i)
		x.set(&k, version{bytes: 4096}, 0)
		x.use(&k)
	}
	for i := 100; i < 2000; i++ {
		k := key(i)
		x.set(&k, version{bytes: 4096}, 0)
		for {
			if _, found := x.excess(); !found {
				break
			}
		}
	}
	for i := range 20 {
		k := key(i)
		_, ok := x.look(&k)
		assert.True(t, ok, fmt.Sprint(i))
	}
}
