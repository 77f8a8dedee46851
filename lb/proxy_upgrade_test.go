package lb

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// echoUpgrade is an origin that takes a connection over and sends back what it
// gets, in capitals.
func echoUpgrade(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") == "" {
		fmt.Fprintf(w, "no upgrade, connection %q", r.Header.Get("Connection"))
		return
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\nSec-WebSocket-Accept: x\r\n\r\n", r.Header.Get("Upgrade"))
	rw.Flush()
	for {
		b, err := rw.ReadByte()
		if err != nil {
			return
		}
		conn.Write(bytes.ToUpper([]byte{b}))
	}
}

func TestProxyUpgrade(t *testing.T) {
	front := map[string]func(t *testing.T) *httptest.Server{
		"plain": func(t *testing.T) *httptest.Server { return toOrigin(t, http.HandlerFunc(echoUpgrade)) },
		// The origin would rather have HTTP/2, which has no upgrades.
		"HTTP/2 origin": func(t *testing.T) *httptest.Server {
			origin := httptest.NewUnstartedServer(http.HandlerFunc(echoUpgrade))
			origin.EnableHTTP2 = true
			origin.StartTLS()
			t.Cleanup(origin.Close)
			tr := transportTo(t, origin.Listener.Addr().String(), TransportOptions{
				RootCAs: origin.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs})
			require.NoError(t, send(tr, newRequest(t, "GET", ""), false).err)
			return proxied(t, newProxy(t, tr))
		},
	}
	for name, serve := range front {
		t.Run(name, func(t *testing.T) {
			testnet.CheckLeaks(t)
			srv := serve(t)
			for range 2 {
				c, err := net.Dial("tcp", srv.Listener.Addr().String())
				require.NoError(t, err)
				io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\r\n")
				br := bufio.NewReader(c)
				res, err := http.ReadResponse(br, nil)
				require.NoError(t, err)
				assert.Equal(t, http.StatusSwitchingProtocols, res.StatusCode)
				assert.Equal(t, "x", res.Header.Get("Sec-Websocket-Accept"))
				for _, s := range []string{"hello", "world"} {
					io.WriteString(c, s)
					b := make([]byte, len(s))
					_, err := io.ReadFull(br, b)
					require.NoError(t, err)
					assert.Equal(t, strings.ToUpper(s), string(b))
				}
				c.Close()
			}
		})
	}
}

// An upgrade that isn't allowed is a plain request; nothing tunnels past.
func TestProxyUpgradeOnlyToKnownProtocols(t *testing.T) {
	srv := toOrigin(t, http.HandlerFunc(echoUpgrade))
	for _, fields := range []string{
		"Connection: Upgrade\r\nUpgrade: h2c\r\n", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n",
		"Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n", "Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n",
		"Connection: Upgrade\r\nUpgrade:\r\n", "Upgrade: websocket\r\n",
	} {
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		require.NoError(t, err)
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.test\r\n"+fields+"\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		b, _ := io.ReadAll(res.Body)
		assert.Equal(t, `no upgrade, connection ""`, string(b), fields)
		c.Close()
	}
}
