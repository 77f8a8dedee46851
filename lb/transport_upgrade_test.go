package lb

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	upgrade  = []string{"Connection", "Upgrade", "Upgrade", "websocket"}
	insecure = &tls.Config{InsecureSkipVerify: true}
)

// onlyHTTP2WithTLS is an origin of crypto/tls and net/http without HTTP/1: to who
// offers that only, it chooses no protocol and hangs up.
func onlyHTTP2WithTLS(t testing.TB) *httptest.Server {
	s := httptest.NewUnstartedServer(saying(200, "ok"))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP2(true)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = noLog
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// withoutALPN is an origin that chooses no protocol and serves HTTP/1 by f.
func withoutALPN(t testing.TB, f func(net.Conn, *http.Request)) string {
	s := httptest.NewTLSServer(nil)
	t.Cleanup(s.Close)
	config := &tls.Config{Certificates: s.TLS.Certificates}
	return listen(t, func(c net.Conn) {
		tc := tls.Server(c, config)
		defer tc.Close()
		br := bufio.NewReader(tc)
		for {
			req, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			f(tc, req)
		}
	})
}

// An upgrade that an origin with HTTP/2 only can't take is passed over, once that is
// known: the request that finds it out is lost.
func TestUpgradeToHTTP2OnlyOrigin(t *testing.T) {
	tr := transportTo(t, onlyHTTP2WithTLS(t).Listener.Addr().String(), TransportOptions{TLS: insecure})
	got := send(tr, newRequest(t, "GET", "", upgrade...), false)
	assert.Equal(t, FailureClosed, FailureOf(got.err))
	for range 3 {
		got = send(tr, newRequest(t, "GET", "", upgrade...), false)
		assert.Equal(t, reply{status: 200, body: "ok", info: got.info}, got)
		got = send(tr, newRequest(t, "GET", ""), false)
		assert.Equal(t, reply{status: 200, body: "ok", info: got.info}, got)
	}
	tr.silence.until.Store(time.Now().UnixNano())
	got = send(tr, newRequest(t, "GET", "", upgrade...), false)
	assert.Equal(t, FailureClosed, FailureOf(got.err), "HTTP/1 is tried again now and then")

	cert := onlyHTTP2WithTLS(t).TLS.Certificates
	alerting := listen(t, func(c net.Conn) { // says no to HTTP/1 in the handshake
		tls.Server(c, &tls.Config{Certificates: cert, NextProtos: []string{"h3"}}).Handshake()
	})
	tr = transportTo(t, alerting, TransportOptions{TLS: insecure})
	got = send(tr, newRequest(t, "GET", "", upgrade...), false)
	assert.Equal(t, FailureTLS, FailureOf(got.err), "an origin that is broken is to blame")
}

// Clients that want upgrades don't get origins with HTTP/2 only ejected, however many
// come before that is known.
func TestUpgradesBlameNoHTTP2OnlyOrigin(t *testing.T) {
	p := plainPool("p", onlyHTTP2WithTLS(t).Listener.Addr().String(), onlyHTTP2WithTLS(t).Listener.Addr().String())
	p.Transport = TransportOptions{TLS: insecure}
	p.Ejection, p.Breaker = Ejection{}, Breaker{Failures: 3}
	b := newBalancer(t, Options{Pools: []Pool{p}})
	var wg sync.WaitGroup
	for range 24 {
		wg.Go(func() { ask(t, b, "GET", "http://shop.test/", "", wantsUpgrade) })
	}
	wg.Wait()
	allHealthy(t, b)
}

func wantsUpgrade(r *http.Request) {
	r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}
}

// An origin that chooses no protocol and has taken a wish for an upgrade sees it once,
// whatever it did with it, and whether it has HTTP/2 or not.
func TestUpgradeIsNotRepeated(t *testing.T) {
	for name, answer := range map[string]string{"cut": "", "garbage": "not HTTP\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			var seen atomic.Int32
			p := plainPool("p", withoutALPN(t, func(c net.Conn, _ *http.Request) {
				seen.Add(1)
				io.WriteString(c, answer)
				c.Close()
			}))
			p.Transport = TransportOptions{TLS: insecure}
			p.Retry.Attempts = 1
			b := newBalancer(t, Options{Pools: []Pool{p}})
			for i := range 3 { // later ones may use other connections
				a := ask(t, b, "GET", "http://shop.test/", "", wantsUpgrade)
				require.Error(t, a.err)
				assert.Len(t, a.trail.Attempts, 1)
				assert.EqualValues(t, i+1, seen.Load(), "requests that the origin saw")
			}
		})
	}
}

// An origin that has answered over HTTP/1 is not taken for one without it, and is to
// blame for what it loses.
func TestOriginWithoutALPNKeepsUpgrades(t *testing.T) {
	tr := transportTo(t, withoutALPN(t, func(c net.Conn, req *http.Request) {
		if req.Header["Upgrade"] != nil {
			c.Close()
			return
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	}), TransportOptions{TLS: insecure})
	require.NoError(t, send(tr, newRequest(t, "GET", ""), true).err)
	res, err := tr.roundTrip(newRequest(t, "GET", "", upgrade...), true, nil)
	assert.Nil(t, res)
	te := err.(*TransportError)
	assert.Equal(t, []any{FailureClosed, false}, []any{te.Failure, te.blameless()})
	assert.False(t, tr.silence.mute(time.Now()))
}
