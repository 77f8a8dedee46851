package lb

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// switching is an origin that switches protocols and waits for the connection's end,
// which it tells.
func switching(t testing.TB) (address string, ended <-chan struct{}) {
	t.Helper()
	ends := make(chan struct{}, 16)
	return listen(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		io.WriteString(c, switched)
		io.Copy(io.Discard, br)
		ends <- struct{}{}
	}), ends
}

// A ReverseProxy that can't pass a 101 response on forgets its body. The origin's
// place and connection come back with the request's end.
func TestForgottenTunnelEndsWithTheRequest(t *testing.T) {
	for _, c := range []struct {
		name  string
		http2 bool
		asked string // what the origin is asked for
	}{
		{"the client's connection can't be taken over", true, "websocket"},
		{"ReverseProxy compares the whole list", false, "chat, websocket"},
	} {
		t.Run(c.name, func(t *testing.T) {
			address, ended := switching(t)
			p := plainPool("p", address)
			b, err := New(Options{Pools: []Pool{p}})
			require.NoError(t, err)
			front := httptest.NewUnstartedServer(&httputil.ReverseProxy{
				Transport: b, ErrorLog: noLog,
				Rewrite: func(pr *httputil.ProxyRequest) { // a client with HTTP/2 can't ask for it
					pr.Out.Header.Set("Connection", "Upgrade")
					pr.Out.Header.Set("Upgrade", c.asked)
				},
			})
			front.EnableHTTP2 = c.http2
			front.StartTLS()
			defer front.Close()
			for range 3 {
				res, err := front.Client().Get(front.URL)
				require.NoError(t, err)
				res.Body.Close()
				assert.Equal(t, http.StatusBadGateway, res.StatusCode)
				assert.Equal(t, c.http2, res.ProtoMajor == 2)
				select {
				case <-ended:
				case <-time.After(10 * time.Second):
					t.Fatal("the connection to the origin stays open")
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			require.NoError(t, b.Close(ctx), "places are taken")
			assert.Zero(t, b.Status()[0].Origins[0].InFlight)
		})
	}
}

// A tunnel that was closed doesn't hold on to the request's context, and one whose
// context ends gives its place back once.
func TestTunnelEndsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.add("10.0.0.1:80", func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				defer conn.Close()
				io.WriteString(conn, switched)
				io.Copy(io.Discard, conn)
			}
		})
		b := newBalancer(t, Options{Pools: []Pool{n.pool("p", "10.0.0.1:80")}})
		inFlight := func() int { return b.Status()[0].Origins[0].InFlight }
		for _, ends := range [][]string{{"close", "cancel"}, {"cancel", "close"}, {"close", "close"}, {"cancel"}} {
			ctx, cancel := context.WithCancel(t.Context())
			res, err := b.RoundTrip(upgradeRequest("websocket").WithContext(ctx))
			require.NoError(t, err)
			require.Equal(t, http.StatusSwitchingProtocols, res.StatusCode)
			assert.Equal(t, 1, inFlight())
			for _, end := range ends {
				if end == "cancel" {
					cancel()
				} else {
					res.Body.Close()
				}
				synctest.Wait()
				assert.Zero(t, inFlight(), "%v", ends)
			}
			cancel()
		}
	})
}
