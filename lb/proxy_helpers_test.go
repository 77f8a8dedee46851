package lb

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func newProxy(t testing.TB, rt http.RoundTripper) http.Handler {
	t.Helper()
	h, err := NewProxy(ProxyOptions{Transport: rt})
	require.NoError(t, err)
	return h
}

// proxied serves a proxy to a transport on a real socket.
func proxied(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = noLog
	srv.Start()
	t.Cleanup(srv.Close)
	return srv
}

// toOrigin is a proxy server before an origin server.
func toOrigin(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	origin := httptest.NewUnstartedServer(h)
	origin.Config.ErrorLog = noLog
	origin.Start()
	t.Cleanup(origin.Close)
	return proxied(t, newProxy(t, transportTo(t, origin.Listener.Addr().String(), TransportOptions{Scheme: "http"})))
}

// overHTTP2 is a proxy that speaks HTTP/2 with its client and its origin, and a
// client for it.
func overHTTP2(t testing.TB, h http.Handler) (*httptest.Server, *http.Client) {
	t.Helper()
	origin := httptest.NewUnstartedServer(h)
	origin.Config.Protocols = new(http.Protocols)
	origin.Config.Protocols.SetUnencryptedHTTP2(true)
	origin.Config.ErrorLog = noLog
	origin.Start()
	t.Cleanup(origin.Close)
	tr := transportTo(t, origin.Listener.Addr().String(), TransportOptions{Scheme: "http", Protocol: ProtocolHTTP2})
	front := httptest.NewUnstartedServer(newProxy(t, tr))
	front.EnableHTTP2 = true
	front.Config.ErrorLog = noLog
	front.StartTLS()
	t.Cleanup(front.Close)
	return front, front.Client()
}

// overBoth runs a test over HTTP/1.1 and over HTTP/2 on both sides.
func overBoth(t *testing.T, h http.Handler, f func(t *testing.T, url string, c *http.Client)) {
	t.Run("HTTP/1.1", func(t *testing.T) {
		srv := toOrigin(t, h)
		f(t, srv.URL, srv.Client())
	})
	t.Run("HTTP/2", func(t *testing.T) {
		srv, c := overHTTP2(t, h)
		f(t, srv.URL, c)
	})
}
