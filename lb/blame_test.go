package lb

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// impatient is an origin that gives up waiting for a body, without an answer.
func impatient(c net.Conn) {
	br := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		c.SetReadDeadline(time.Time{})
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	}
}

// Clients that begin uploads and send no more of them don't get origins ejected, nor
// circuits opened.
func TestStalledUploadsBlameNobody(t *testing.T) {
	p := plainPool("p", listen(t, impatient), listen(t, impatient))
	p.Ejection, p.Breaker = Ejection{}, Breaker{Failures: 3}
	b := newBalancer(t, Options{Pools: []Pool{p}})
	front := proxied(t, newProxy(t, b))
	var wg sync.WaitGroup
	for range 24 {
		wg.Go(func() {
			c, err := net.Dial("tcp", front.Listener.Addr().String())
			if !assert.NoError(t, err) {
				return
			}
			defer c.Close()
			io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100\r\n\r\nab")
			go func() { // slowly, until the origin has given up
				for range 90 {
					if _, err := io.WriteString(c, "c"); err != nil {
						return
					}
					time.Sleep(100 * time.Millisecond)
				}
			}()
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if assert.NoError(t, err) {
				assert.Equal(t, http.StatusBadGateway, res.StatusCode)
			}
		})
	}
	wg.Wait()
	allHealthy(t, b)
}

// Handshakes and streams that fail are load, and repeated within the budget only;
// what reached nobody is repeated more often, but not without a bound.
func TestUnansweredAttemptsAreBounded(t *testing.T) {
	hangsUp := func(c net.Conn) { io.ReadFull(c, make([]byte, 1)) }
	refuses := rawHTTP2(func(c net.Conn, _ int, h frame) {
		writeFrame(c, frame{kind: frameReset, stream: h.stream, data: []byte{0, 0, 0, 7}})
	})
	const n = 100
	for name, tc := range map[string]struct {
		f    func(net.Conn)
		o    TransportOptions
		most int
	}{
		"TLS":            {hangsUp, TransportOptions{TLS: &tls.Config{InsecureSkipVerify: true}}, n + n/5 + 3},
		"REFUSED_STREAM": {refuses, TransportOptions{Scheme: "http", Protocol: ProtocolHTTP2}, n + n/5 + 3},
		"refused":        {nil, TransportOptions{Scheme: "http"}, 2*n + 3},
	} {
		p := plainPool("p", deadAddress(t), deadAddress(t), deadAddress(t))
		if tc.f != nil {
			p = plainPool("p", listen(t, tc.f), listen(t, tc.f), listen(t, tc.f))
		}
		p.Transport = tc.o
		b := newBalancer(t, Options{Pools: []Pool{p}})
		attempts := 0
		for range n {
			attempts += len(ask(t, b, "GET", "http://x.test/", "").trail.Attempts)
		}
		assert.LessOrEqual(t, attempts, tc.most, name)
		assert.Greater(t, attempts, n, name)
	}
}

// A kept connection that breaks after the origin has begun to work isn't stale: the
// request isn't repeated free of charge.
func TestLossLongAfterRequestIsntStale(t *testing.T) {
	var worked atomic.Int32
	p := plainPool("p", listen(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			if req.URL.Path == "/crash" {
				worked.Add(1)
				time.Sleep(2 * staleWithin)
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	}))
	p.Retry.Floor, p.Retry.Percent = -1, -1
	p.Ejection.Off = true
	b := newBalancer(t, Options{Pools: []Pool{p}})
	for range 5 {
		require.NoError(t, ask(t, b, "GET", "http://x.test/ok", "").err)
		assert.Equal(t, FailureClosed, FailureOf(ask(t, b, "GET", "http://x.test/crash", "").err))
	}
	assert.EqualValues(t, 5, worked.Load())
	assert.Equal(t, 60*time.Millisecond, staleFor(5*time.Millisecond))
	assert.Equal(t, time.Second, staleFor(time.Minute))
}
