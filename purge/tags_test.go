package purge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTagReader(t *testing.T) {
	r, err := NewTagReader(TagField{Name: "cache-tag"}, TagField{Name: "Surrogate-Key"}, TagField{Name: "xkey"},
		TagField{Name: "X-Tags", Separators: Spaces})
	require.NoError(t, err)
	assert.Equal(t, []string{"Cache-Tag", "Surrogate-Key", "Xkey", "X-Tags"}, r.Fields())
	many := strings.Repeat("a,", MaxTags)
	tests := []struct {
		name   string
		header []string
		want   Facts
	}{
		{"none", nil, Facts{}},
		{"empty", []string{"Cache-Tag", "", "Cache-Tag", " , ,"}, Facts{}},
		{"commas", []string{"Cache-Tag", "a, B c ,,d", "Cache-Tag", "e"}, Facts{Tags: []string{"a", "B c", "d", "e"}}},
		{"spaces", []string{"Surrogate-Key", " a,b  c\td"}, Facts{Tags: []string{"a,b", "c", "d"}}},
		{"both", []string{"Xkey", "a b,c , d"}, Facts{Tags: []string{"a", "b", "c", "d"}}},
		{"as told", []string{"X-Tags", "a b"}, Facts{Tags: []string{"a", "b"}}},
		{"other field", []string{"Edge-Cache-Tag", "a"}, Facts{}},
		{"groups", []string{"Cache-Groups", `"a b", "c"`, "Cache-Tag", "d"}, Facts{Tags: []string{"d"}, Groups: []string{"a b", "c"}}},
		{"malformed groups", []string{"Cache-Groups", `"a`, "Cache-Tag", "d"}, Facts{Tags: []string{"d"}}},
		{"1000 tags", []string{"Cache-Tag", many}, Facts{Tags: strings.Split(strings.TrimSuffix(many, ","), ",")}},
		{"1001 tags", []string{"Cache-Tag", many + "a"}, Facts{AllTags: true}},
		{"1000 tags and a group", []string{"Cache-Tag", many, "Cache-Groups", `"g"`}, Facts{AllTags: true}},
		{"too much text", []string{"Cache-Tag", strings.Repeat(" ", MaxTagTextBytes) + "a"}, Facts{AllTags: true}},
		{"too much text of groups", []string{"Cache-Groups", strings.Repeat(" ", MaxTagTextBytes) + `"a"`}, Facts{AllTags: true}},
		{"a long tag", []string{"Cache-Tag", "b," + strings.Repeat("a", MaxTagBytes+1)}, Facts{AllTags: true}},
		{"a tag that can't be purged", []string{"Cache-Tag", "a\tb"}, Facts{AllTags: true}},
	}
	for _, tt := range tests {
		f := Facts{Tags: []string{"before"}, AllTags: true}
		r.Read(header(tt.header...), &f)
		assert.Equal(t, tt.want, f, tt.name)
	}
	_, err = NewTagReader(TagField{Name: "a b"}, TagField{Name: "Cache-Groups"}, TagField{Name: "x", Separators: 9})
	for i := range 3 {
		assert.ErrorContains(t, err, fmt.Sprintf("TagFields[%d]", i))
	}
}

// A response with too many tags is purged with every tag of its zone.
func TestTooManyTags(t *testing.T) {
	l := mustNew(t, Options{})
	f := Facts{Seq: l.Now(), Zone: "z", AllTags: true}
	a := NewSubject(f)
	f.AllTags, f.Tags = false, make([]string, MaxTags+1)
	b := NewSubject(f)
	mustAdd(t, l, Selector{Kind: Tag, Zone: "other", Tag: "x"}, Selector{Kind: Host, Zone: "z", Host: "h"})
	assert.Equal(t, Valid, l.Check(a))
	soft := tagged("x")
	soft.Soft = true
	mustAdd(t, l, soft)
	assert.Equal(t, Stale, l.Check(a))
	assert.Equal(t, Stale, l.Check(b))
	mustAdd(t, l, Selector{Kind: Group, Zone: "z", Origin: "https://h", Tag: "g"})
	assert.Equal(t, Gone, l.Check(a))
	assert.Equal(t, Gone, l.Check(b))
}
