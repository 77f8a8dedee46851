package lb

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// onlyHTTP2 is an origin that speaks nothing else and takes headers of about 4 KiB.
func onlyHTTP2(t testing.TB) string {
	s := httptest.NewUnstartedServer(saying(200, "ok"))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Config.MaxHeaderBytes = 4096
	s.Config.ErrorLog = noLog
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// http2Front is a proxy before four such origins, which may be ejected.
func http2Front(t *testing.T) (*Balancer, *httptest.Server) {
	p := plainPool("p", onlyHTTP2(t), onlyHTTP2(t), onlyHTTP2(t), onlyHTTP2(t))
	p.Transport.Protocol = ProtocolHTTP2
	p.Ejection = Ejection{}
	b := newBalancer(t, Options{Pools: []Pool{p}})
	return b, proxied(t, newProxy(t, b))
}

func allHealthy(t *testing.T, b *Balancer) {
	t.Helper()
	for _, o := range b.Status()[0].Origins {
		assert.Equal(t, StateHealthy, o.State, "%s: %s", o.ID, o.Trouble)
		assert.Zero(t, o.InFlight)
	}
}

// A header that is more than what an HTTP/2 origin takes isn't sent. The client is
// told, nobody is blamed, and no other origin is asked.
func TestHeaderTooLongForHTTP2(t *testing.T) {
	b, front := http2Front(t)
	client := front.Client()
	get := func(n int) int {
		req := mustRequest("GET", front.URL)
		req.Header.Set("X-Long", strings.Repeat("x", n))
		res, err := client.Do(req)
		require.NoError(t, err)
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
		return res.StatusCode
	}
	require.Equal(t, 200, get(1)) // the origin has told its limit now
	for range 4 * DefaultEjectionFailures {
		require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, get(20000))
	}
	a := ask(t, b, "GET", "http://shop.test/", "", func(r *http.Request) { r.Header.Set("X-Long", strings.Repeat("x", 20000)) })
	assert.Equal(t, FailureRequest, FailureOf(a.err))
	assert.Equal(t, []string{"pa: request failed; " + noneRequest}, a.trail.attempts())
	allHealthy(t, b)
	assert.Equal(t, 200, get(1))
}

// HTTP/2 has no Upgrade: the wish isn't passed on, and an ordinary response comes.
func TestUpgradeWishAtHTTP2Origins(t *testing.T) {
	b, front := http2Front(t)
	for range 4 * DefaultEjectionFailures {
		c, err := net.Dial("tcp", front.Listener.Addr().String())
		require.NoError(t, err)
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		text, err := io.ReadAll(res.Body)
		c.Close()
		require.NoError(t, err)
		require.Equal(t, "200 ok", res.Status[:3]+" "+string(text))
	}
	allHealthy(t, b)
	h := http.Header{"Upgrade": {"websocket"}, "Connection": {"Upgrade"}}
	ask(t, b, "GET", "http://shop.test/", "", func(r *http.Request) { r.Header = h })
	assert.Len(t, h, 2, "the caller's header stays as it is")
}
