package lb

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// Balancer sends requests to origins. It is an [http.RoundTripper], so that
//
//	httputil.ReverseProxy{Transport: balancer, Rewrite: (*httputil.ProxyRequest).SetXForwarded}
//
// is all it takes; [NewProxy] does more. Its methods may be called from any goroutine.
type Balancer struct {
	clock func() time.Duration
	view  atomic.Pointer[view]

	// active is how many requests are under way, and closed added once it is
	// closed.
	active atomic.Int64
	idle   chan struct{} // closed when active is closed and nothing else

	mu     sync.Mutex // of Update and Close
	pools  map[string]*shared
	loads  map[place]*load // also of origins taken out, as long as they have requests
	ending sync.WaitGroup  // healths of pools that were taken out
	shut   bool
}

// closed is what Close adds to Balancer.active.
const closed = -1 << 62

// New returns a balancer and starts what its pools need. All problems with the
// options are reported at once.
func New(o Options) (*Balancer, error) {
	b := &Balancer{clock: newClock(), idle: make(chan struct{}), pools: map[string]*shared{}}
	if err := b.Update(o); err != nil {
		return nil, err
	}
	return b, nil
}

// Update replaces the options, at once for all requests that come after it; those
// in flight go on as they were. Of pools and origins that stay, counters, health
// and connections are kept; connections of what is taken out are closed when their
// requests have ended. If the options are refused, nothing changes.
func (b *Balancer) Update(o Options) error {
	cfg, errs := o.resolve()
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shut {
		return ErrClosed
	}
	n := update{b: b}
	groups, err := n.groups(cfg)
	if err != nil {
		n.undo()
		return err
	}
	n.apply(cfg, groups)
	return nil
}

// RoundTrip sends the request to an origin of the first of its host's pools that
// has enough eligible ones, and to the next origin if that fails and the request
// may be repeated. The host is the request's Host, or its URL's if that is empty.
// Redirects are returned, never followed. The errors are [TransportError],
// [NoOriginError] and [ErrClosed]; the first is the last attempt's.
//
// The body of a 101 response is an [io.ReadWriteCloser], which is closed with the
// request's context at the latest.
//
// An [httptrace.ClientTrace]'s Got1xxResponse is called on a goroutine of its own, one
// response after the other, before RoundTrip returns. It may wait for a client: that
// stops no other request. While it does, up to 8 responses are kept for it, and more are
// dropped. It doesn't get the fields of the origin's connection.
func (b *Balancer) RoundTrip(req *http.Request) (*http.Response, error) {
	if t := httptrace.ContextClientTrace(req.Context()); t != nil && t.Got1xxResponse != nil {
		return roundTripHinted(req, t, b.send)
	}
	return b.send(req)
}

// send is RoundTrip, with a hook for 1xx responses that doesn't wait.
func (b *Balancer) send(req *http.Request) (*http.Response, error) {
	if !b.enter() {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, ErrClosed
	}
	c := &call{b: b, req: req, host: hostOf(req), notes: notes{trail: TrailFrom(req.Context())}}
	c.tried = c.triedBuf[:0]
	if host := cmp.Or(req.Host, req.URL.Host); host != "" && !validAuthority(host) {
		c.giveUp() // it might pass for a host of the list
		c.done()
		return nil, &NoOriginError{Host: host, UnknownHost: true}
	}
	res, err := c.run()
	if err != nil {
		c.done()
		return nil, err
	}
	return res, nil
}

func (b *Balancer) enter() bool {
	if b.active.Add(1) > 0 {
		return true
	}
	b.leave()
	return false
}

func (b *Balancer) leave() {
	if b.active.Add(-1) == closed {
		b.signalIdle()
	}
}

// signalIdle says that nothing is under way; it may come several times.
func (b *Balancer) signalIdle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.idle:
	default:
		close(b.idle)
	}
}

// Close refuses new requests, ends health checks, and waits until the requests in
// flight have ended, or ctx has. It returns ctx's error then; what is left is
// released when it ends. Calling it again waits again.
func (b *Balancer) Close(ctx context.Context) error {
	b.mu.Lock()
	first := !b.shut
	b.shut = true
	var healths []*health
	for _, s := range b.pools {
		healths = append(healths, s.health)
	}
	b.mu.Unlock()
	if first && b.active.Add(closed) == closed {
		b.signalIdle()
	}
	var errs []error
	for _, h := range healths {
		if err := h.close(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	ended := make(chan struct{})
	go func() { b.ending.Wait(); close(ended) }()
	for _, wait := range []<-chan struct{}{b.idle, ended} {
		select {
		case <-wait:
		case <-ctx.Done():
			errs = append(errs, ctx.Err())
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.pools {
		for _, l := range s.links {
			l.close()
		}
	}
	return errors.Join(errs...)
}
