package lb

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/weirhttp/weir/internal/testnet"
)

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}

// network is origins in memory, for bubbles of testing/synctest, by address.
type network struct {
	t     *testing.T
	mu    sync.Mutex
	hosts map[string]*host
}

// host is one address of the network.
type host struct {
	n       *network
	up      *life
	dial    func(context.Context) (net.Conn, error) // instead of connecting
	seen    map[string]int                          // by X-Request
	total   int
	handler http.Handler
}

// life is one life of a host's server.
type life struct {
	*http.Server
	l *testnet.PipeListener
}

func newNetwork(t *testing.T) *network {
	n := &network{t: t, hosts: map[string]*host{}}
	t.Cleanup(func() {
		for _, h := range n.hosts {
			h.kill()
		}
	})
	return n
}

// add makes a host that answers by h.
func (n *network) add(address string, h http.HandlerFunc) *host {
	x := &host{n: n, seen: map[string]int{}, handler: h}
	n.mu.Lock()
	n.hosts[address] = x
	n.mu.Unlock()
	x.start()
	return x
}

// DialContext connects to a host by address and port.
func (n *network) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	x := n.hosts[address]
	if x == nil {
		n.mu.Unlock()
		return nil, errRefused
	}
	up, dial := x.up, x.dial
	n.mu.Unlock()
	if dial != nil {
		return dial(ctx)
	}
	if up == nil {
		return nil, errRefused
	}
	c, err := up.l.Dial(ctx)
	if err != nil && ctx.Err() == nil {
		err = errRefused
	}
	return c, err
}

func (x *host) serve(w http.ResponseWriter, r *http.Request) {
	x.n.mu.Lock()
	x.seen[r.Header.Get("X-Request")]++
	x.total++
	h := x.handler
	x.n.mu.Unlock()
	h.ServeHTTP(w, r)
}

func (x *host) handle(h http.HandlerFunc) {
	x.n.mu.Lock()
	defer x.n.mu.Unlock()
	x.handler = h
}

func (x *host) count() int {
	x.n.mu.Lock()
	defer x.n.mu.Unlock()
	return x.total
}

// ids returns how often each X-Request came.
func (x *host) ids() map[string]int {
	x.n.mu.Lock()
	defer x.n.mu.Unlock()
	return maps.Clone(x.seen)
}

func (x *host) running() bool {
	x.n.mu.Lock()
	defer x.n.mu.Unlock()
	return x.up != nil
}

func (x *host) dialling(f func(context.Context) (net.Conn, error)) {
	x.n.mu.Lock()
	defer x.n.mu.Unlock()
	x.dial = f
}

// start lets the host take connections.
func (x *host) start() {
	s := &life{&http.Server{Handler: http.HandlerFunc(x.serve), ErrorLog: noLog}, testnet.NewPipeListener()}
	go s.Serve(s.l)
	x.n.mu.Lock()
	defer x.n.mu.Unlock()
	x.up = s
}

func (x *host) stop() *life {
	x.n.mu.Lock()
	defer x.n.mu.Unlock()
	s := x.up
	x.up = nil
	return s
}

// shutdown is a decent stop: no new connections, what is under way is finished.
func (x *host) shutdown() {
	if s := x.stop(); s != nil {
		s.Shutdown(context.Background())
	}
}

// kill cuts all connections.
func (x *host) kill() {
	if s := x.stop(); s != nil {
		s.Server.Close()
		s.l.Close()
	}
}

// hang never connects.
func hang(ctx context.Context) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// pause sleeps, but not longer than ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// after answers with a text after some time.
func after(d time.Duration, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		select {
		case <-time.After(d):
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, text)
	}
}

// netPool is a pool of hosts of the network.
func (n *network) pool(name string, addresses ...string) Pool {
	p := plainPool(name, addresses...)
	p.Transport.DialContext = n.DialContext
	p.Policy = RoundRobin
	p.Ejection = Ejection{}
	return p
}
