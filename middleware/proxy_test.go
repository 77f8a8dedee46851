package middleware

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// proxied is a real reverse proxy to an origin, behind the cache and on a server.
func proxied(t *testing.T, origin string) *httptest.Server {
	t.Helper()
	u, err := url.Parse(origin)
	require.NoError(t, err)
	mw, err := New(Options{Logger: quietLog()})
	require.NoError(t, err)
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(u) },
		ErrorHandler: ProxyErrorHandler, FlushInterval: -1, Transport: transport,
	}
	srv := httptest.NewServer(mw.Wrap(proxy))
	t.Cleanup(func() {
		srv.Close()
		transport.CloseIdleConnections()
		require.NoError(t, mw.Close(context.Background()))
	})
	return srv
}

// The origin behind a reverse proxy goes away. What is stored and stale stands
// in; what isn't stored is a 502 of the cache's own, on a fetch and past it.
func TestReverseProxyLosesItsOrigin(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=0")
		w.Header().Set("Etag", `"v1"`)
		fmt.Fprint(w, "page")
	}))
	srv := proxied(t, origin.URL)
	r, err := testnet.Do(srv.Client(), "GET", srv.URL)
	require.NoError(t, err)
	require.Equal(t, "page", r.Body)
	origin.Close()
	r, err = testnet.Do(srv.Client(), "GET", srv.URL)
	require.NoError(t, err)
	require.Equal(t, "STALE-ERROR", r.Header.Get("Weir-Cache-Status"))
	require.Equal(t, "page", r.Body)
	for _, method := range []string{"GET", "POST"} {
		r, err = testnet.Do(srv.Client(), method, srv.URL+"/other")
		require.NoError(t, err)
		require.Equal(t, 502, r.Status)
		require.Equal(t, "no-store", r.Header.Get("Cache-Control"))
	}
}

// WebSocket through cache and reverse proxy: a live connection both ways.
func TestWebSocketThroughReverseProxy(t *testing.T) {
	origin := testnet.RawServer(t, func(conn net.Conn, req *http.Request) {
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err == nil {
			fmt.Fprint(conn, "echo "+line)
		}
	})
	srv := proxied(t, origin.URL)
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprint(conn, "GET /ws HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	br := bufio.NewReader(conn)
	resp, err := http.ReadResponse(br, nil)
	require.NoError(t, err)
	require.Equal(t, 101, resp.StatusCode)
	require.Equal(t, "BYPASS", resp.Header.Get("Weir-Cache-Status"))
	fmt.Fprint(conn, "hello\n")
	line, err := br.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "echo hello\n", line)
}

// A handler that copies a file past the cache, on a real connection behind an
// outer writer without ReadFrom.
func TestCopyThroughOuterWriterWithoutReadFrom(t *testing.T) {
	srv := httptest.NewServer(wrapped(t, func(w http.ResponseWriter, r *http.Request) {
		pr, pw := io.Pipe()
		go func() {
			fmt.Fprint(pw, "bytes of a file")
			pw.Close()
		}()
		_, _ = io.Copy(w, pr)
	}))
	defer srv.Close()
	r, err := testnet.Do(srv.Client(), "POST", srv.URL)
	require.NoError(t, err)
	require.Equal(t, "bytes of a file", r.Body)
}
