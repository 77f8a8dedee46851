package trace

import "context"

type contextKey struct{}

// NewContext returns a context that carries r. A nil r hides a record that ctx
// carries, which is what a fetch that outlives its client needs.
func NewContext(ctx context.Context, r *Record) context.Context {
	return context.WithValue(ctx, contextKey{}, r)
}

// FromContext returns the record that ctx carries, or nil. It never allocates.
func FromContext(ctx context.Context) *Record {
	r, _ := ctx.Value(contextKey{}).(*Record)
	return r
}
