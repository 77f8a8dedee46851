package store

import "sync/atomic"

// Budget bounds the memory of all fills of a store together. Each fill has
// freeWindow bytes outside it, so that a fill always gets on and small
// responses can always be stored. Fills that keep no more than a window for
// slow readers may use half of the budget only: slow downloads of large files
// must not stop others from being stored.
type Budget struct {
	max  int64
	used atomic.Int64
}

func (b *Budget) take(n int64, window bool) bool {
	limit := b.max
	if window {
		limit /= 2
	}
	if n > 0 && b.used.Add(n) > limit {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *Budget) giveBack(n int64) { b.used.Add(-n) }
