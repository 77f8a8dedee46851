package purge

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Tags that are inherited count once, however often, so that what has many
// predecessors with the same tags doesn't end up with too many.
func TestInheritedTagsCountOnce(t *testing.T) {
	tags := func(from, to int) (out []string) {
		for i := from; i < to; i++ {
			out = append(out, fmt.Sprint("t", i))
		}
		return out
	}
	s := NewSubject(Facts{Tags: tags(0, 600)})
	for range 10 {
		next := NewSubject(Facts{Tags: tags(300, 900)})
		next.Inherit(s)
		s = next
	}
	require.False(t, s.allTags)
	require.Len(t, s.tags, 900)
	next := NewSubject(Facts{Tags: tags(900, 1001)})
	next.Inherit(s)
	require.True(t, next.allTags, "too many")
	all := NewSubject(Facts{Tags: tags(0, 1)})
	all.Inherit(next)
	require.True(t, all.allTags)
}
