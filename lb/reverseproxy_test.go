package lb

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The balancer is all that a ReverseProxy needs, and NewProxy works with it: over
// real sockets, with a first origin that refuses, bodies both ways and an upgrade.
func TestAsTransportOfAProxy(t *testing.T) {
	good := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			c, brw, _ := w.(http.Hijacker).Hijack()
			defer c.Close()
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			line, _ := brw.ReadString('\n')
			io.WriteString(c, "echo "+line)
			return
		}
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s %d", r.Method, r.Host, r.URL, r.Header.Get("X-Forwarded-For"), len(b))
	})
	p := plainPool("p", deadAddress(t), good.address())
	p.Retry.Unsent = true
	p.Retry.Floor = 100
	b := newBalancer(t, Options{Pools: []Pool{p}})
	own, err := NewProxy(ProxyOptions{Transport: b})
	require.NoError(t, err)
	for name, h := range map[string]http.Handler{
		"ReverseProxy": &httputil.ReverseProxy{Transport: b, Rewrite: (*httputil.ProxyRequest).SetXForwarded},
		"NewProxy":     own,
	} {
		t.Run(name, func(t *testing.T) {
			front := httptest.NewServer(h)
			defer front.Close()
			for _, m := range []string{"GET", "PUT", "POST", "DELETE"} {
				var body io.Reader
				n := 0
				if strings.HasPrefix(m, "P") {
					n = 200_000
					body = strings.NewReader(strings.Repeat("x", n))
				}
				req, _ := http.NewRequest(m, front.URL+"/a%2Fb?x=1;y", body)
				req.Host = "shop.test"
				res, err := front.Client().Do(req)
				require.NoError(t, err)
				text, err := io.ReadAll(res.Body)
				require.NoError(t, err)
				res.Body.Close()
				got := strings.Replace(string(text), "?x=1;y", "", 1) // ReverseProxy cleans queries
				got = strings.Replace(got, "?x=1", "", 1)
				assert.Equal(t, fmt.Sprintf("%s shop.test /a%%2Fb 127.0.0.1 %d", m, n), strings.Replace(got, "?", "", 1))
			}
			c, err := net.Dial("tcp", front.Listener.Addr().String())
			require.NoError(t, err)
			defer c.Close()
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			br := bufio.NewReader(c)
			res, err := http.ReadResponse(br, nil)
			require.NoError(t, err)
			require.Equal(t, 101, res.StatusCode)
			io.WriteString(c, "hello\n")
			line, err := br.ReadString('\n')
			require.NoError(t, err)
			assert.Equal(t, "echo hello\n", line)
		})
	}
}

// Origins that accept connections and then fall silent in the TLS handshake, or
// before the head, over real sockets.
func TestSilentSockets(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	good := httptest.NewTLSServer(saying(200, "good"))
	defer good.Close()
	p := plainPool("p", silent.Addr().String(), good.Listener.Addr().String())
	p.Transport = TransportOptions{
		RootCAs: good.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, VerifyName: "example.com",
		TLSTimeout: 50 * time.Millisecond,
	}
	// The good origin's handshake has no such limit.
	p.Origins[1].ID = "good"
	q := p
	q.Name, q.Origins, q.Transport.TLSTimeout = "q", p.Origins[1:], time.Minute
	p.Origins = p.Origins[:1]
	b := newBalancer(t, Options{Pools: []Pool{p, q}})
	a := ask(t, b, "GET", "https://shop.test/", "")
	require.NoError(t, a.err)
	assert.Equal(t, "good", a.body)
	assert.Equal(t, []string{"pa: TLS timeout; next origin", "good: OK; "}, a.trail.attempts())
	a = ask(t, b, "POST", "https://shop.test/", "x")
	assert.Equal(t, FailureTLSTimeout, FailureOf(a.err))

	p.Transport = TransportOptions{Scheme: "http", HeadTimeout: 50 * time.Millisecond}
	require.NoError(t, b.Update(Options{Pools: []Pool{p, q}}))
	a = ask(t, b, "GET", "https://shop.test/", "")
	assert.Equal(t, "good", a.body)
	assert.Equal(t, []string{"pa: response head timeout; next origin", "good: OK; "}, a.trail.attempts())
}

// moving resolves every name to an address that changes.
type moving struct{ to atomic.Pointer[netip.Addr] }

func (m *moving) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{*m.to.Load()}, nil
}

// An origin restarts on another address under the same name: the next requests go
// there.
func TestOriginMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		first := n.add("10.0.0.1:80", saying(200, "first"))
		n.add("10.0.0.2:80", saying(200, "second"))
		m := &moving{}
		one, two := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
		m.to.Store(&one)
		p := n.pool("p", "app.internal:80")
		p.Transport.Resolver = m
		b := newBalancer(t, Options{Pools: []Pool{p}})
		assert.Equal(t, "first", ask(t, b, "GET", "http://shop.test/", "").body)
		m.to.Store(&two)
		first.kill()
		synctest.Wait()
		a := ask(t, b, "GET", "http://shop.test/", "")
		require.NoError(t, a.err)
		assert.Equal(t, "second", a.body)
		assert.Equal(t, "10.0.0.2:80", a.trail.Attempts[0].Remote)
	})
}

// Two-choice counts under real concurrency return to zero, and the trail is
// readable while it is written.
func TestManyAtOnce(t *testing.T) {
	var sites []*site
	var addresses []string
	for range 3 {
		s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			switch r.Header.Get("X-Do") {
			case "abort":
				panic(http.ErrAbortHandler)
			case "503":
				w.WriteHeader(503)
			}
			io.WriteString(w, strings.Repeat("x", 10_000))
		})
		sites, addresses = append(sites, s), append(addresses, s.address())
	}
	for _, policy := range []Policy{TwoChoices, LeastConnections, Latency, HashPath, WeightedRoundRobin, Random} {
		p := plainPool("p", addresses...)
		p.Policy = policy
		b := newBalancer(t, Options{Pools: []Pool{p}})
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range 40 {
					ctx, cancel := context.WithCancel(context.Background())
					ctx, trail := WithTrail(ctx)
					m := []string{"GET", "PUT", "POST"}[(g+i)%3]
					var body io.Reader
					if m != "GET" {
						body = struct{ io.Reader }{strings.NewReader("data")}
					}
					req, _ := http.NewRequestWithContext(ctx, m, fmt.Sprintf("http://shop.test/%d", i), body)
					id := fmt.Sprint(policy, g, i)
					req.Header.Set("X-Request", m+id)
					req.Header.Set("X-Do", []string{"", "", "abort", "503"}[(g*7+i)%4])
					go trail.Record()
					res, err := b.RoundTrip(req)
					if err == nil {
						if i%3 == 0 {
							cancel()
						}
						io.Copy(io.Discard, res.Body)
						res.Body.Close()
					}
					cancel()
				}
			})
		}
		wg.Wait()
		for _, o := range b.Status()[0].Origins {
			assert.Zero(t, o.InFlight, policy)
		}
	}
	for id, n := range merged(sites) {
		most := 3
		if strings.HasPrefix(id, "POST") {
			most = 1
		}
		assert.LessOrEqual(t, n, most, id)
	}
}

// merged counts requests by X-Request over all sites.
func merged(sites []*site) map[string]int {
	all := map[string]int{}
	for _, s := range sites {
		s.mu.Lock()
		for id, n := range s.ids {
			all[id] += n
		}
		s.mu.Unlock()
	}
	return all
}
