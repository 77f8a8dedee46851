package lb

import (
	"context"
	"net/netip"
)

// requestContext is the context of WithRequest.
type requestContext struct {
	context.Context
	key    [32]byte
	client netip.Addr
	trail  Trail
}

// WithRequest is [WithKey], [WithClientAddr] and [WithTrail] at once, for one
// allocation. key is zero and client invalid if there is none.
func WithRequest(ctx context.Context, key [32]byte, client netip.Addr) (context.Context, *Trail) {
	c := &requestContext{Context: ctx, key: key, client: client}
	return c, &c.trail
}

// Value implements [context.Context].
func (c *requestContext) Value(k any) any {
	switch k {
	case keyContext:
		if c.key == [32]byte{} {
			return nil
		}
		return &c.key
	case clientContext:
		return &c.client
	case trailContext:
		return &c.trail
	}
	return c.Context.Value(k)
}
