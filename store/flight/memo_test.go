package flight

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func memoOf(n int) memoKey { return memoKey{key: named(n)} }

// order returns the keys in the order of remembering, after it tested both
// directions.
func (s *memos) order(t *testing.T) (keys []memoKey) {
	t.Helper()
	for m := s.first; m != nil; m = m.next {
		keys = append(keys, m.memoKey)
		require.Same(t, m, s.byKey[m.memoKey])
		require.True(t, m.prev != nil || m == s.first)
		require.True(t, m.next != nil || m == s.last)
	}
	require.Len(t, keys, len(s.byKey))
	var back []memoKey
	for m := s.last; m != nil; m = m.prev {
		back = append(back, m.memoKey)
	}
	slices.Reverse(back)
	require.Equal(t, keys, back)
	return keys
}

// Which key goes when there are too many: the one remembered longest ago. A
// popular one that is remembered again and again stays.
func TestMemosAreBounded(t *testing.T) {
	var s memos
	until := t0.Add(time.Hour)
	for i := range maxMemos {
		s.put(memoOf(i), until)
	}
	s.put(memoOf(0), until)
	s.remove(memoOf(1))
	s.put(memoOf(maxMemos), until)
	assert.True(t, s.has(memoOf(2), t0), "there was room")
	s.put(memoOf(maxMemos+1), until)
	assert.False(t, s.has(memoOf(2), t0))
	for i := range 3000 {
		s.put(memoOf(0), until)
		s.put(memoOf(10_000+i), until)
	}
	assert.True(t, s.has(memoOf(0), t0))
	assert.Len(t, s.byKey, maxMemos)
	s.order(t)
}

func TestMemoExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[int]
		k := named(1)
		g.Remember(k, 0, time.Now().Add(10*time.Second))
		g.Remember(k, 1, time.Now().Add(time.Second))
		time.Sleep(10*time.Second - time.Nanosecond)
		assert.True(t, g.Remembered(k, 0, time.Now()))
		assert.False(t, g.Remembered(k, 1, time.Now()))
		f, role := g.Claim(k, 0, time.Now())
		assert.Nil(t, f)
		assert.Equal(t, Alone, role)
		time.Sleep(time.Nanosecond)
		assert.False(t, g.Remembered(k, 0, time.Now()))
		_, role = g.Claim(k, 0, time.Now())
		assert.Equal(t, Leader, role)
		assert.Empty(t, g.shard(&k.Primary).memos.byKey, "those that are over are gone")
	})
}

// Random programs against a list.
func TestMemoPrograms(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	type entry struct {
		k     memoKey
		until time.Time
	}
	var s memos
	var model []entry
	for step := range 5_000 {
		k, now := memoOf(rnd.IntN(maxMemos+200)), t0.Add(time.Duration(step))
		i := slices.IndexFunc(model, func(e entry) bool { return e.k == k })
		switch rnd.IntN(8) {
		case 0:
			s.remove(k)
			if i >= 0 {
				model = slices.Delete(model, i, i+1)
			}
		case 1, 2:
			want := i >= 0 && now.Before(model[i].until)
			require.Equal(t, want, s.has(k, now))
			if i >= 0 && !want {
				model = slices.Delete(model, i, i+1)
			}
		default:
			until := now.Add(time.Duration(rnd.IntN(20_000)))
			s.put(k, until)
			if i >= 0 {
				model = slices.Delete(model, i, i+1)
			}
			if len(model) == maxMemos {
				model = model[1:]
			}
			model = append(model, entry{k, until})
		}
		if step%1000 == 0 {
			order := s.order(t)
			require.Len(t, order, len(model))
			for i, e := range model {
				require.Equal(t, e.k, order[i])
			}
		}
	}
}
