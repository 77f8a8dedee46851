package lb

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestBudget(t *testing.T) {
	at := time.Unix(1000, 0)
	var b budget
	for range 3 {
		assert.True(t, b.take(at, 20, 3))
	}
	assert.False(t, b.take(at, 20, 3), "the floor is used up")
	assert.False(t, (&budget{}).take(at, 20, 0))
	for range 10 {
		b.request(at.Add(5 * time.Second))
	}
	at = at.Add(6 * time.Second)
	assert.True(t, b.take(at, 20, 3))
	assert.True(t, b.take(at, 20, 3))
	assert.False(t, b.take(at, 20, 3))
	assert.False(t, b.take(at.Add(-time.Hour), 20, 3), "a clock that goes back gives nothing")
	at = at.Add(4 * time.Second) // the first three are forgotten
	for range 3 {
		assert.True(t, b.take(at, 20, 3))
	}
	assert.False(t, b.take(at, 20, 3))
	at = at.Add(time.Hour)
	for range 3 {
		assert.True(t, b.take(at, 20, 3))
	}
	assert.False(t, b.take(at, 20, 3))
}

// Whenever a repetition is allowed, the ten seconds up to then have had no more of
// them than a fifth of their requests and three; when it isn't, one more would be
// too many.
func TestBudgetIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var b budget
	requests, retries := map[int64]int{}, map[int64]int{}
	for s := int64(5000); s < 5300; s++ {
		at := time.Unix(s, 0)
		for range r.IntN(40) {
			b.request(at)
			requests[s]++
			for range r.IntN(4) {
				req, ret := 0, 0
				for i := s - 9; i <= s; i++ {
					req += requests[i]
					ret += retries[i]
				}
				ok := b.take(at, 20, 3)
				assert.Equal(t, ret+1 <= 3+req/5, ok)
				if ok {
					retries[s]++
				}
			}
		}
	}
}
