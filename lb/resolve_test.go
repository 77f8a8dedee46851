package lb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

func TestParseTarget(t *testing.T) {
	for _, c := range []struct{ in, scheme, authority, host string }{
		{"10.0.0.1", "https", "10.0.0.1:443", "10.0.0.1"},
		{"10.0.0.1", "http", "10.0.0.1:80", "10.0.0.1"},
		{"10.0.0.1:8443", "https", "10.0.0.1:8443", "10.0.0.1"},
		{"::1", "https", "[::1]:443", "::1"},
		{"[::1]", "https", "[::1]:443", "::1"},
		{"[2001:db8::1]:8080", "http", "[2001:db8::1]:8080", "2001:db8::1"},
		{"::ffff:10.0.0.1", "https", "10.0.0.1:443", "10.0.0.1"},
		{"Origin.test", "https", "origin.test:443", "origin.test"},
		{"origin.test.", "https", "origin.test:443", "origin.test"},
		{"my_app:3000", "http", "my_app:3000", "my_app"},
		{"fe80::1%eth0", "http", "[fe80::1%eth0]:80", "fe80::1"},
		{"[fe80::1%br-1.2_x]:81", "http", "[fe80::1%br-1.2_x]:81", "fe80::1"},
	} {
		g, err := parseTarget(c.in, c.scheme)
		if assert.NoError(t, err, c.in) {
			assert.Equal(t, []string{c.authority, c.host}, []string{g.authority(), g.host()}, c.in)
		}
	}
	for _, in := range []string{"", ":80", "a b", "http://a", "a/b", "a:0", "a:65536", "a:http", "[::1", "user@a", "a\x00", "::1:80:", "[a]", ".", "..", ".a", "a..b", "a..", "10.0.0.1.",
		"::%[", "[fe80::1%]]:80", "fe80::1%a b", "fe80::1%a/b", "fe80::1%\x00"} {
		_, err := parseTarget(in, "https")
		assert.Error(t, err, "%q", in)
	}
}

func TestHostThatIsSent(t *testing.T) {
	for s, want := range map[string]bool{
		"a.test": true, "a.test:80": true, "A_b.test.": true, "10.0.0.1": true, "10.0.0.1:80": true, "[::1]": true, "[::1]:80": true,
		"": false, "::1": false, "[fe80::1%eth0]": false, "[fe80::1%eth0]:80": false, "a/b": false, "a!b": false, "a:0": false, "a:": false,
	} {
		assert.Equal(t, want, validHost(s), "%q", s)
	}
}

func FuzzParseTarget(f *testing.F) {
	f.Add("[::1]:80")
	f.Add("a.test:443")
	f.Add("::%[")
	f.Fuzz(func(t *testing.T, s string) {
		g, err := parseTarget(s, "https")
		if err != nil {
			return
		}
		again, err := parseTarget(g.authority(), "https")
		if err != nil || again != g {
			t.Fatalf("%q: %v reads back as %v, %v", s, g, again, err)
		}
	})
}

func addrs(s ...string) []netip.Addr {
	var out []netip.Addr
	for _, a := range s {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func TestInterleave(t *testing.T) {
	assert.Equal(t, addrs("2001:db8::1", "10.0.0.1", "2001:db8::2", "10.0.0.2", "10.0.0.3"),
		interleave(addrs("2001:db8::1", "2001:db8::2", "10.0.0.1", "10.0.0.2", "10.0.0.1", "::ffff:10.0.0.3")))
}

// names is a resolver whose answers tests change.
type names struct {
	mu      sync.Mutex
	addrs   []netip.Addr
	err     error
	lookups int
}

func (n *names) set(s ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addrs = addrs(s...)
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lookups++
	if host != "origin.test" {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return n.addrs, n.err
}

// fabric is a network in memory: servers by address.
type fabric struct {
	mu      sync.Mutex
	servers map[string]*testnet.Server
	dialled []string
}

func (f *fabric) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	f.mu.Lock()
	f.dialled = append(f.dialled, address)
	srv, known := f.servers[address]
	f.mu.Unlock()
	switch {
	case !known:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	case srv == nil: // a black hole
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return srv.Listener.DialContext(ctx, "", "")
}

func TestAddressesAreTriedInTurn(t *testing.T) {
	for _, c := range []struct {
		name  string
		addrs []string
		hole  string // takes no connection
		want  string
		took  time.Duration
	}{
		{"first refuses", []string{"10.0.0.9", "10.0.0.1"}, "", "10.0.0.1:80", 0},
		{"first hangs", []string{"10.0.0.8", "10.0.0.1"}, "10.0.0.8:80", "10.0.0.1:80", attemptDelay},
		{"first two hang", []string{"10.0.0.8", "10.0.0.8", "10.0.0.9", "10.0.0.1"}, "10.0.0.8:80", "10.0.0.1:80", attemptDelay},
		{"all refuse", []string{"10.0.0.9", "10.0.0.7"}, "", "", 0},
		{"all hang", []string{"10.0.0.8"}, "10.0.0.8:80", "", DefaultDialTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fabric{servers: map[string]*testnet.Server{"10.0.0.1:80": testnet.Serve(t, http.NotFoundHandler())}}
				if c.hole != "" {
					f.servers[c.hole] = nil
				}
				n := &names{addrs: addrs(c.addrs...)}
				tr := transportTo(t, "origin.test", TransportOptions{Scheme: "http", Resolver: n, DialContext: f.DialContext})
				start := time.Now()
				r := send(tr, newRequest(t, "GET", ""), false)
				assert.Equal(t, c.took, time.Since(start))
				if c.want == "" {
					assert.Contains(t, []Failure{FailureDial, FailureDialTimeout}, FailureOf(r.err))
				} else if assert.NoError(t, r.err) {
					assert.Equal(t, c.want, r.info.Remote.String())
				}
				tr.Close()
				synctest.Wait()
			})
		})
	}
}

func TestUnknownName(t *testing.T) {
	n := &names{}
	for _, host := range []string{"nowhere.test", "origin.test"} { // one is unknown, one has no address
		r := send(transportTo(t, host, TransportOptions{Scheme: "http", Resolver: n}), newRequest(t, "GET", ""), false)
		assert.Equal(t, TransportError{Failure: FailureResolve}, asTransportError(t, r.err))
	}
}

// An origin moves to another address under the same name. Requests that are
// under way end where they are; others go to the new one as soon as the name was
// resolved again, which the connections' lifetime brings about.
func TestNameThatMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := testnet.NewGate()
		serve := func(name string) *testnet.Server {
			return testnet.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/slow" {
					http.NewResponseController(w).Flush()
					gate.Wait(r.Context())
				}
				fmt.Fprint(w, name)
			}))
		}
		f := &fabric{servers: map[string]*testnet.Server{"10.0.0.1:80": serve("old"), "10.0.0.2:80": serve("new")}}
		n := &names{addrs: addrs("10.0.0.1")}
		const lifetime = 10 * time.Minute
		tr := transportTo(t, "origin.test", TransportOptions{
			Scheme: "http", Resolver: n, DialContext: f.DialContext,
			ConnLifetime: lifetime, IdleTimeout: -1, BodyIdle: -1,
		})
		slow := newRequest(t, "GET", "")
		slow.URL.Path = "/slow"
		running, err := tr.RoundTrip(slow)
		require.NoError(t, err)
		require.Equal(t, "old", send(tr, newRequest(t, "GET", ""), false).body)

		n.set("10.0.0.2")
		assert.Equal(t, "old", send(tr, newRequest(t, "GET", ""), false).body, "the connection is young")
		time.Sleep(lifetime * 8 / 10)
		assert.Equal(t, "old", send(tr, newRequest(t, "GET", ""), false).body)
		time.Sleep(lifetime * 6 / 10)
		assert.Equal(t, "new", send(tr, newRequest(t, "GET", ""), false).body)

		gate.Open()
		b, err := io.ReadAll(running.Body)
		require.NoError(t, err)
		assert.Equal(t, "old", string(b))
		assert.Equal(t, "new", send(tr, newRequest(t, "GET", ""), false).body, "the old connection isn't used again")
		tr.Close()
		synctest.Wait()
	})
}

// A new connection resolves the name. Connections to an address that it no longer has
// are retired when no answer has had it for a while, with and without another one.
func TestLookupRetiresOtherAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fabric{servers: map[string]*testnet.Server{
			"10.0.0.1:80": testnet.Serve(t, http.NotFoundHandler()), "10.0.0.2:80": testnet.Serve(t, http.NotFoundHandler())}}
		n := &names{addrs: addrs("10.0.0.1")}
		tr := transportTo(t, "origin.test", TransportOptions{Scheme: "http", Resolver: n, DialContext: f.DialContext})
		require.NoError(t, send(tr, newRequest(t, "GET", ""), false).err)
		n.set("10.0.0.2")
		r := send(tr, newRequest(t, "GET", ""), true)
		require.NoError(t, r.err)
		assert.Equal(t, "10.0.0.2:80", r.info.Remote.String())
		left := func() int { all, _, _, _ := tr.pool.counts(); return all }
		assert.Equal(t, 2, left())
		time.Sleep(addressGrace - 1)
		assert.Equal(t, 2, left())
		time.Sleep(time.Nanosecond)
		require.NoError(t, send(tr, newRequest(t, "GET", ""), true).err)
		assert.Equal(t, 2, left(), "both new")
		n.set("10.0.0.1")
		require.NoError(t, send(tr, newRequest(t, "GET", ""), true).err)
		assert.Equal(t, 3, left())
		time.Sleep(addressGrace + DefaultIdleTimeout/sweepSteps)
		synctest.Wait()
		assert.Equal(t, 1, left(), "the last")
		tr.Close()
		synctest.Wait()
	})
}

// A name server that gives one of several addresses, in turn, doesn't keep connections
// from being used again.
func TestRotatingAddressesKeepConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fabric{servers: map[string]*testnet.Server{}}
		for i := range 3 {
			f.servers[fmt.Sprintf("10.0.0.%d:80", i)] = testnet.Serve(t, after(100*time.Millisecond, "ok"))
		}
		var asked atomic.Int32
		turns := resolverFunc(func() []netip.Addr { return addrs(fmt.Sprintf("10.0.0.%d", asked.Add(1)%3)) })
		tr := transportTo(t, "origin.test", TransportOptions{Scheme: "http", Resolver: turns, DialContext: f.DialContext, ConnLifetime: -1})
		for range 600 { // a minute of sixteen at a time
			require.Zero(t, together(t, tr, 16))
		}
		assert.LessOrEqual(t, asked.Load(), int32(3*16), "what no answer has for 30 s is retired all the same")
		tr.Close()
		synctest.Wait()
	})
}

type resolverFunc func() []netip.Addr

func (f resolverFunc) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return f(), nil
}

// An IP address is never resolved, and its connections don't age.
func TestAddressIsUsedAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fabric{servers: map[string]*testnet.Server{"10.0.0.1:80": testnet.Serve(t, http.NotFoundHandler())}}
		n := &names{}
		tr := transportTo(t, "10.0.0.1", TransportOptions{Scheme: "http", Resolver: n, DialContext: f.DialContext, IdleTimeout: -1})
		for range 3 {
			require.NoError(t, send(tr, newRequest(t, "GET", ""), false).err)
			time.Sleep(time.Hour)
		}
		assert.Equal(t, []string{"10.0.0.1:80"}, f.dialled)
		assert.Zero(t, n.lookups)
		tr.Close()
		synctest.Wait()
	})
}
