package lb

import (
	"context"
	"encoding/binary"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// served is a dial to an origin that f is the connections of.
func served(f func(net.Conn)) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) {
		c, origin := net.Pipe()
		go func() { defer origin.Close(); f(origin) }()
		return c, nil
	}
}

// A kept connection that the origin closes as a request is put on it is no failure of
// the origin, also where the request isn't repeated.
func TestStaleConnectionsBlameNobody(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		retry  Retry
		next   string
	}{
		"POST":        {"POST", Retry{}, noneMethod},
		"retries off": {"GET", Retry{Attempts: 1}, noneOff},
		"no budget":   {"GET", Retry{}, noneBudget},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				var seen atomic.Int32
				n.add("10.0.0.1:80", saying(200, "")).dialling(served(keptOnce(&seen)))
				n.add("10.0.0.2:80", saying(200, "ok"))
				p := n.pool("p", "10.0.0.1:80", "10.0.0.2:80")
				p.Ejection, p.Breaker = Ejection{Failures: 1}, Breaker{Failures: 1}
				p.Retry = c.retry
				b := newBalancer(t, Options{Pools: []Pool{p}})
				if budget := &b.view.Load().all[0].shared.budget; c.next == noneBudget {
					budget.seconds[budget.turn(time.Now())].taken[1] = 1000
				}
				for range 20 {
					if a := ask(t, b, c.method, "http://shop.test/", ""); a.err != nil {
						assert.Equal(t, []string{"pa: connection lost before the response; " + c.next}, a.trail.attempts())
					}
				}
				assert.EqualValues(t, 10, seen.Load())
				allHealthy(t, b)
			})
		})
	}
}

// So it is with a kept connection that an HTTP/2 origin ends in good order. One that
// it ends before its first answer is its failure.
func TestOrderlyGoawayBlamesNobody(t *testing.T) {
	for name, c := range map[string]struct {
		answers uint32 // for each connection
		want    State
	}{"kept": {1, StateHealthy}, "new": {0, StateCircuitOpen}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				n.add("10.0.0.1:80", saying(200, "")).dialling(served(rawHTTP2(func(conn net.Conn, _ int, head frame) {
					if head.stream < 2*c.answers {
						answer200(conn, head.stream)
						return
					}
					last := binary.BigEndian.AppendUint32(nil, head.stream/2) // the one before
					writeFrame(conn, frame{kind: frameGoAway, data: append(last, 0, 0, 0, 0)})
				})))
				p := n.pool("p", "10.0.0.1:80")
				p.Breaker = Breaker{Failures: 1}
				p.Transport.Protocol = ProtocolHTTP2
				b := newBalancer(t, Options{Pools: []Pool{p}})
				last := answer{}
				for range 2 * c.answers {
					last = ask(t, b, "POST", "http://shop.test/", "")
				}
				if c.answers == 0 {
					last = ask(t, b, "POST", "http://shop.test/", "")
				}
				assert.Equal(t, []string{"pa: rejected unprocessed; " + noneMethod}, last.trail.attempts())
				assert.Equal(t, c.want, b.Status()[0].Origins[0].State)
			})
		})
	}
}
