package lb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

func (p *pool) counts() (all, idle, wants, dials int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.all), len(p.idle), p.wants.Len(), p.dials
}

func inBubble(t *testing.T, o TransportOptions, h http.Handler, f func(t *testing.T, tr *transport)) {
	synctest.Test(t, func(t *testing.T) {
		srv := testnet.Serve(t, h)
		o.Scheme, o.DialContext = "http", srv.Listener.DialContext
		tr, err := newTransport("192.0.2.1", o)
		require.NoError(t, err)
		f(t, tr)
		tr.Close()
		synctest.Wait()
		all, idle, wants, dials := tr.pool.counts()
		assert.Zero(t, [4]int{all, idle, wants, dials}, "what is left")
	})
}

func TestIdleConnectionsEnd(t *testing.T) {
	const limit = 40 * time.Second
	inBubble(t, TransportOptions{IdleTimeout: limit}, http.NotFoundHandler(), func(t *testing.T, tr *transport) {
		for range 5 { // not while it is in use now and then
			require.NoError(t, send(tr, newRequest(t, "GET", ""), false).err)
			time.Sleep(limit * 9 / 10)
		}
		all, _, _, _ := tr.pool.counts()
		assert.Equal(t, 1, all)
		time.Sleep(limit*7/10 + limit/sweepSteps)
		all, _, _, _ = tr.pool.counts()
		assert.Zero(t, all)
	})
}

// together sends n requests at the same time and returns how many failed.
func together(t *testing.T, tr *transport, n int) int {
	var failed atomic.Int32
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if insist(t, tr, "GET") != nil {
				failed.Add(1)
			}
		})
	}
	wg.Wait()
	return int(failed.Load())
}

// insist sends a request until no stream is refused: a new connection is filled before
// the origin has said how much it takes, and a stream that has ended here may not have
// ended there yet. Repeating is the balancer's affair, not the transport's.
func insist(t *testing.T, tr *transport, method string) error {
	for {
		err := send(tr, newRequest(t, method, ""), false).err
		if te, ok := errors.AsType[*TransportError](err); !ok || te.Failure != FailureRejected {
			return err
		}
	}
}

func TestIdleConnectionsAreBounded(t *testing.T) {
	for limit, want := range map[int]int{3: 3, -1: 0} {
		slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) })
		inBubble(t, TransportOptions{IdleConnections: limit}, slow, func(t *testing.T, tr *transport) {
			require.Zero(t, together(t, tr, 10))
			synctest.Wait()
			all, idle, _, _ := tr.pool.counts()
			assert.Equal(t, []int{want, want}, []int{all, idle})
		})
	}
}

// A request whose client gives up while it waits for a connection leaves no trace,
// and the connection is there for the next one.
func TestWaitingRequestLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := testnet.Serve(t, http.NotFoundHandler())
		tr, err := newTransport("192.0.2.1", TransportOptions{Scheme: "http",
			DialContext: func(ctx context.Context, n, a string) (net.Conn, error) {
				time.Sleep(time.Second)
				return srv.Listener.DialContext(ctx, n, a)
			}})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(background, time.Second/2)
		defer cancel()
		r := send(tr, newRequest(t, "GET", "").WithContext(ctx), false)
		assert.Equal(t, TransportError{Failure: FailureDeadline}, asTransportError(t, r.err))
		_, _, wants, dials := tr.pool.counts()
		assert.Equal(t, []int{0, 1}, []int{wants, dials})
		time.Sleep(time.Second)
		_, idle, _, _ := tr.pool.counts()
		assert.Equal(t, 1, idle)
		start := time.Now()
		require.NoError(t, send(tr, newRequest(t, "GET", ""), false).err)
		assert.Zero(t, time.Since(start))
		tr.Close()
		synctest.Wait()
	})
}

// A closed transport refuses, ends who waits, and lets who is served finish.
func TestCloseLetsRequestsFinish(t *testing.T) {
	gate := make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "half")
		http.NewResponseController(w).Flush()
		<-gate
		io.WriteString(w, "whole")
	})
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	tr := transportTo(t, srv.Listener.Addr().String(), TransportOptions{Scheme: "http"})
	res, err := tr.RoundTrip(newRequest(t, "GET", ""))
	require.NoError(t, err)
	require.NoError(t, tr.Close())
	r := send(tr, newRequest(t, "GET", ""), false)
	assert.Equal(t, TransportError{Failure: FailureShutdown}, asTransportError(t, r.err))
	close(gate)
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.Equal(t, "halfwhole", string(b))
	all, _, _, _ := tr.pool.counts()
	assert.Zero(t, all)
	require.NoError(t, tr.Close())
}

// Over HTTP/2 requests share a connection. Beyond the origin's limit of streams
// they get another, without waiting for those that hold the first.
func TestHTTP2StreamsAreShared(t *testing.T) {
	const limit = 10
	var conns, held atomic.Int32
	gate := make(chan struct{})
	origin := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			held.Add(1)
			<-gate
		}
	}))
	origin.Config.Protocols = new(http.Protocols)
	origin.Config.Protocols.SetUnencryptedHTTP2(true)
	origin.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: limit}
	origin.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	origin.Start()
	t.Cleanup(origin.Close)
	tr := transportTo(t, origin.Listener.Addr().String(), TransportOptions{Scheme: "http", Protocol: ProtocolHTTP2})
	require.NoError(t, send(tr, newRequest(t, "GET", ""), false).err, "the first one learns the limit")
	// net/http ends its stream in a goroutine of its own.
	require.Eventually(t, func() bool {
		tr.pool.mu.Lock()
		defer tr.pool.mu.Unlock()
		for c := range tr.pool.all {
			return c.cc.Available() == limit
		}
		return false
	}, 10*time.Second, time.Millisecond)
	var wg sync.WaitGroup
	for range limit {
		wg.Go(func() { assert.NoError(t, insist(t, tr, "POST")) })
	}
	for held.Load() < limit {
		time.Sleep(time.Millisecond)
	}
	assert.EqualValues(t, 1, conns.Load())
	assert.NoError(t, send(tr, newRequest(t, "GET", ""), false).err)
	assert.EqualValues(t, 2, conns.Load())
	assert.Zero(t, together(t, tr, 4*limit))
	close(gate)
	wg.Wait()
	// A stream that was reset is given back when its goroutine ends.
	assert.Eventually(t, func() bool {
		tr.pool.mu.Lock()
		defer tr.pool.mu.Unlock()
		for c := range tr.pool.all {
			if c.streams != 0 {
				return false
			}
		}
		return true
	}, 10*time.Second, time.Millisecond)
}

// An origin that closes connections as it likes, under load: every failure is a
// stale connection and is reported, no request is seen twice, none is lost, and
// nothing is left over.
func TestOriginThatClosesConnections(t *testing.T) {
	testnet.CheckLeaks(t)
	var mu sync.Mutex
	seen := map[string]int{}
	var served atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.Header.Get("X-Id")]++
		mu.Unlock()
		if served.Add(1)%7 == 0 {
			w.Header().Set("Connection", "close")
		}
		if served.Load()%5 == 0 {
			c, _, _ := http.NewResponseController(w).Hijack()
			c.Close()
			return
		}
		fmt.Fprint(w, "ok")
	}))
	t.Cleanup(srv.Close)
	tr := transportTo(t, srv.Listener.Addr().String(), TransportOptions{Scheme: "http"})
	var wg sync.WaitGroup
	var good, bad atomic.Int32
	for worker := range 8 {
		wg.Go(func() {
			for i := range 100 {
				r := send(tr, newRequest(t, "GET", "", "X-Id", fmt.Sprint(worker, "/", i), "Idempotency-Key", "1"), false)
				switch te, failed := errors.AsType[*TransportError](r.err); {
				case r.err == nil:
					good.Add(1)
				case failed && te.Failure == FailureClosed:
					bad.Add(1)
				default:
					t.Errorf("%v", r.err)
				}
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, 800, good.Load()+bad.Load())
	mu.Lock()
	defer mu.Unlock()
	for id, n := range seen {
		assert.Equal(t, 1, n, id)
	}
	assert.Eventually(t, func() bool { // a dial may outlast the request that it was for
		_, _, wants, dials := tr.pool.counts()
		return wants+dials == 0
	}, 10*time.Second, time.Millisecond)
}

func TestTransportOptionsAreChecked(t *testing.T) {
	_, err := newTransport("a b", TransportOptions{
		Scheme: "ftp", Protocol: 9, Host: "a/b", DialTimeout: -1, TLSTimeout: -1, MaxHeadBytes: -1,
	})
	for _, field := range []string{"Scheme", "Protocol", "Host", "DialTimeout", "TLSTimeout", "MaxHeadBytes", "Address"} {
		assert.ErrorContains(t, err, "lb: "+field+" = ")
	}
	_, err = newTransport("a", TransportOptions{Scheme: "http", ServerName: "b"})
	assert.ErrorContains(t, err, "Scheme")
	_, err = newTransport("a", TransportOptions{})
	assert.NoError(t, err)
}

func TestConfiguredHostReplacesTheVisitors(t *testing.T) {
	var got []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = append(got, r.Host) }))
	t.Cleanup(srv.Close)
	addr := srv.Listener.Addr().String()
	for _, o := range []TransportOptions{{Scheme: "http"}, {Scheme: "http", Host: "origin.test"}} {
		require.NoError(t, send(transportTo(t, addr, o), newRequest(t, "GET", "", "Host", "header.test"), false).err)
	}
	assert.Equal(t, []string{"shop.test", "origin.test"}, got)
}
