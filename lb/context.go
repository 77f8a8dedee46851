package lb

import (
	"context"
	"net/netip"
)

type contextKey int

const (
	keyContext contextKey = iota
	clientContext
	trailContext
)

// WithKey returns a context whose requests are placed by key under [HashKey].
// It is the cache's key, or any other digest that says what is asked for.
func WithKey(ctx context.Context, key [32]byte) context.Context {
	return context.WithValue(ctx, keyContext, &key)
}

func keyFrom(ctx context.Context) ([32]byte, bool) {
	if k, _ := ctx.Value(keyContext).(*[32]byte); k != nil {
		return *k, true
	}
	return [32]byte{}, false
}

// WithClientAddr returns a context whose requests come from addr, for
// [HashClient]. Without it, the request's RemoteAddr is used, which is the last
// proxy's address if there is one in front.
func WithClientAddr(ctx context.Context, addr netip.Addr) context.Context {
	return context.WithValue(ctx, clientContext, &addr)
}

func clientFrom(ctx context.Context) (netip.Addr, bool) {
	if a, _ := ctx.Value(clientContext).(*netip.Addr); a != nil {
		return *a, a.IsValid()
	}
	return netip.Addr{}, false
}

// WithTrail returns a context in which a [Balancer] notes what became of the
// request, and where it does so. Use a fresh one for each request: a second round
// trip with the same context replaces the first one's notes, and ends them if that
// goes on still.
func WithTrail(ctx context.Context) (context.Context, *Trail) {
	t := &Trail{}
	return context.WithValue(ctx, trailContext, t), t
}

// TrailFrom returns the context's trail, or nil.
func TrailFrom(ctx context.Context) *Trail {
	t, _ := ctx.Value(trailContext).(*Trail)
	return t
}
