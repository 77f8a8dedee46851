package trace

import "sync"

var pool = sync.Pool{New: func() any { return new(Record) }}

// Get returns an empty record from the pool. Give it back with [Put].
func Get() *Record {
	return pool.Get().(*Record)
}

// Put resets r and gives it back to the pool. Nobody may use r afterwards, so
// only the one who called [Get] calls Put, and only once. A nil r is ignored.
func Put(r *Record) {
	if r == nil {
		return
	}
	r.Reset()
	pool.Put(r)
}
