package store

import (
	"slices"
	"sync/atomic"
)

// maxNameSets bounds the sets of selecting header fields remembered for one
// primary key. An origin that varies by more than eight different sets loses
// the oldest set's variants, which is a miss and never a wrong answer.
const maxNameSets = 8

// Index is what a primary key leads to when its responses vary. Immutable.
type Index struct {
	// Sets are the different sets of selecting header fields (lower case,
	// sorted) seen in responses for this key, most recently stored first.
	Sets [][]string

	variants []Key // in the order of storing, oldest first
	lineage  *lineage
}

// lineage is common to an index, those that follow it, and the variants that
// they name. It ends when the primary key leads nowhere or to something else:
// the tier may drop an index before its variants, and then nobody knows any
// more which ones a purge of the primary key has to remove. Those of a lineage
// that has ended are never found again.
type lineage struct {
	ended atomic.Bool
}

// orphaned reports whether o is a variant that no index leads to any more.
func (o *Object) orphaned() bool {
	l := o.lineage.Load()
	return l != nil && l.ended.Load()
}

// endLineage ends the lineage if o is an index.
func (o *Object) endLineage() {
	if o.index != nil {
		o.index.lineage.ended.Store(true)
	}
}

// with returns a copy of x that also knows variant k with the given names,
// and the variants that fell out by the bound on their number.
func (x *Index) with(k Key, names []string, maxVariants int) (next *Index, dropped []Key) {
	next = &Index{Sets: [][]string{names}}
	if x == nil {
		next.lineage = new(lineage)
	} else {
		next.lineage = x.lineage
		for _, set := range x.Sets {
			if !slices.Equal(set, names) && len(next.Sets) < maxNameSets {
				next.Sets = append(next.Sets, set)
			}
		}
		next.variants = make([]Key, 0, len(x.variants)+1)
		for _, v := range x.variants {
			if v != k {
				next.variants = append(next.variants, v)
			}
		}
	}
	next.variants = append(next.variants, k)
	if over := len(next.variants) - maxVariants; over > 0 {
		dropped = slices.Clone(next.variants[:over])
		next.variants = slices.Clone(next.variants[over:])
	}
	return next, dropped
}
