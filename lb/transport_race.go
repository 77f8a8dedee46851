package lb

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// attemptDelay is how long one address of a name may take before the next is
// tried beside it (RFC 8305 §8).
const attemptDelay = 250 * time.Millisecond

// dial connects to the first of the origin's addresses that answers.
func (t *transport) dial(ctx context.Context) (net.Conn, netip.AddrPort, error) {
	ctx, cancel := context.WithTimeout(ctx, t.o.DialTimeout)
	defer cancel()
	addrs, err := t.target.resolve(ctx, t.o.Resolver)
	if err != nil {
		return nil, netip.AddrPort{}, &dialError{dialFailure(err), err}
	}
	if t.target.name != "" {
		t.pool.resolved(addrs)
	}
	conn, remote, err := race(ctx, addrs, t.target.port, t.o.DialContext)
	if err != nil {
		return nil, remote, &dialError{dialFailure(err), err}
	}
	return conn, remote, nil
}

// dialed is the end of a connection attempt.
type dialed struct {
	conn   net.Conn
	remote netip.AddrPort
	err    error
}

// race tries addresses one after the other, the next when one fails or is slow,
// and returns the first connection. Later ones are closed (RFC 8305 §5).
func race(ctx context.Context, addrs []netip.Addr, port uint16, dial func(context.Context, string, string) (net.Conn, error)) (net.Conn, netip.AddrPort, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan dialed, len(addrs))
	start := func(a netip.Addr) {
		remote := netip.AddrPortFrom(a, port)
		go func() {
			conn, err := dial(ctx, "tcp", remote.String())
			results <- dialed{conn, remote, err}
		}()
	}
	delay := time.NewTimer(attemptDelay)
	defer delay.Stop()
	start(addrs[0])
	next, running := 1, 1
	var first error
	for running > 0 {
		select {
		case d := <-results:
			running--
			if d.err == nil {
				go closeLate(results, running)
				return d.conn, d.remote, nil
			}
			if first == nil {
				first = d.err
			}
		case <-delay.C:
		case <-ctx.Done():
			go closeLate(results, running)
			return nil, netip.AddrPort{}, ctx.Err()
		}
		if next < len(addrs) {
			start(addrs[next])
			next, running = next+1, running+1
			delay.Reset(attemptDelay)
		}
	}
	return nil, netip.AddrPort{}, first
}

// closeLate closes the connections of n attempts that are still under way.
func closeLate(results <-chan dialed, n int) {
	for range n {
		if d := <-results; d.conn != nil {
			d.conn.Close()
		}
	}
}
