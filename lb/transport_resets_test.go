package lb

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// limiting is an HTTP/2 origin that answers after a second, and ends a connection with
// all it has there at a number of resets.
func limiting(resets int, connections *int) func(net.Conn) {
	type stream struct {
		conn int
		id   uint32
	}
	var mu sync.Mutex
	seen, waiting := map[int]int{}, map[stream]bool{}
	return rawFrames(func(c net.Conn, conn int, fr frame) {
		mu.Lock()
		defer mu.Unlock()
		*connections = max(*connections, conn)
		at := stream{conn, fr.stream}
		switch fr.kind {
		case frameHeaders:
			waiting[at] = true
			time.AfterFunc(time.Second, func() {
				mu.Lock()
				defer mu.Unlock()
				if waiting[at] && seen[conn] < resets {
					answer200(c, fr.stream)
				}
			})
		case frameReset:
			delete(waiting, at)
			if seen[conn]++; seen[conn] == resets {
				writeFrame(c, frame{kind: frameGoAway, data: []byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 11}})
				c.Close()
			}
		}
	})
}

// leaving sends requests one after the other, whose client leaves after 5 ms.
func leaving(t *testing.T, b *Balancer, n int) {
	for range n {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		ask(t, b, "GET", "http://shop.test/", "", func(r *http.Request) { *r = *r.WithContext(ctx) })
		cancel()
	}
}

// Clients that leave don't make an HTTP/2 origin end the connection that others use:
// it gets no more requests before that.
func TestManyResetsRetireTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connections := 0
		n := newNetwork(t)
		n.add("10.0.0.1:80", saying(200, "")).dialling(served(limiting(2*maxResets, &connections)))
		p := n.pool("p", "10.0.0.1:80")
		p.Transport.Protocol = ProtocolHTTP2
		b := newBalancer(t, Options{Pools: []Pool{p}})
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						assert.NoError(t, ask(t, b, "POST", "http://shop.test/", "").err)
					}
				}
			})
		}
		synctest.Wait()
		leaving(t, b, 10*maxResets)
		close(stop)
		wg.Wait()
		assert.GreaterOrEqual(t, connections, 5)
		assert.LessOrEqual(t, connections, 11)
	})
}

// An origin that ends a connection after a number of resets isn't blamed for what else
// it had there. One that does without is.
func TestOriginFedUpWithResetsIsNotBlamed(t *testing.T) {
	for resets, want := range map[int]State{2 * someResets: StateHealthy, 1: StateCircuitOpen} {
		synctest.Test(t, func(t *testing.T) {
			connections := 0
			n := newNetwork(t)
			n.add("10.0.0.1:80", saying(200, "")).dialling(served(limiting(resets, &connections)))
			p := n.pool("p", "10.0.0.1:80")
			p.Transport.Protocol = ProtocolHTTP2
			p.Breaker = Breaker{Failures: 1}
			b := newBalancer(t, Options{Pools: []Pool{p}})
			var wg sync.WaitGroup
			wg.Go(func() {
				err := ask(t, b, "POST", "http://shop.test/", "").err
				assert.Contains(t, []Failure{FailureClosed, FailureProtocol}, FailureOf(err), "%v", err)
			})
			time.Sleep(2 * learnFor)
			leaving(t, b, resets)
			wg.Wait()
			assert.Equal(t, want, b.Status()[0].Origins[0].State, resets)
		})
	}
}
