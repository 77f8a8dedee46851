package trace

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/weirhttp/weir/internal/testnet"
)

func TestStatus(t *testing.T) {
	tests := []struct {
		status    Status
		text      string
		fromCache bool
	}{
		{Undecided, "UNDECIDED", false},
		{Hit, "HIT", true},
		{Miss, "MISS", false},
		{Expired, "EXPIRED", false},
		{Revalidated, "REVALIDATED", false},
		{Stale, "STALE", true},
		{StaleError, "STALE-ERROR", true},
		{Collapsed, "COLLAPSED", true},
		{Bypass, "BYPASS", false},
		{Dynamic, "DYNAMIC", false},
		{Shed, "SHED", false},
		{statusCount, "INVALID", false},
		{255, "INVALID", false},
	}
	seen := map[Status]bool{}
	for _, tt := range tests {
		assert.Equal(t, tt.text, tt.status.String())
		assert.Equal(t, tt.fromCache, tt.status.ServedFromCache(), tt.text)
		seen[tt.status] = true
	}
	for s := range statusCount {
		assert.True(t, seen[s], "no row for %v", s)
	}
}

func TestForwardTokens(t *testing.T) {
	want := []string{"none", "bypass", "method", "uri-miss", "vary-miss", "miss", "request", "stale", "partial"}
	for f := range forwardCount {
		assert.Equal(t, want[f], f.String())
	}
	assert.Len(t, want, int(forwardCount))
	assert.Equal(t, "invalid", forwardCount.String())
}

func TestOutcome(t *testing.T) {
	want := []string{"complete", "client gone", "aborted"}
	for o := range outcomeCount {
		assert.Equal(t, want[o], o.String())
	}
	assert.Len(t, want, int(outcomeCount))
	assert.Equal(t, "invalid", outcomeCount.String())
}

func TestStringsDoNotAllocate(t *testing.T) {
	var sink string
	testnet.Allocs(t, 0, func() {
		for i := range 256 {
			sink = Status(i).String()
			sink = Forward(i).String()
			sink = Outcome(i).String()
		}
	})
	_ = sink
}
