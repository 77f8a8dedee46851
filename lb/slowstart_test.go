package lb

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestSlowStartGrowsEvenlyFromOneSixteenth(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		from, length, now time.Duration
		want              int
	}{
		{0, 0, 0, 16},
		{5 * s, 0, 6 * s, 16},
		{10 * s, 30 * s, 9 * s, 1},
		{10 * s, 30 * s, 10 * s, 1},
		{10 * s, 30 * s, 12*s - 1, 1},
		{10 * s, 30 * s, 12 * s, 2},
		{10 * s, 30 * s, 25 * s, 8},
		{10 * s, 30 * s, 40*s - 1, 15},
		{10 * s, 30 * s, 40 * s, 16},
		{10 * s, 30 * s, 1 << 62, 16},
		{0, time.Hour, time.Hour - 1, 15},
		{0, 1, 0, 1},
	} {
		assert.Equal(t, tt.want, slowShare(tt.from, tt.length, tt.now), "%+v", tt)
	}
	last := 0
	for now := time.Duration(0); now <= 31*s; now += 10 * time.Millisecond {
		share := slowShare(s, 30*s, now)
		assert.GreaterOrEqual(t, share, max(last, 1))
		last = share
	}
	assert.Equal(t, fullShare, last)
}
