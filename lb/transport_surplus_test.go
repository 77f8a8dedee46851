package lb

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	otherAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL"
	rightAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood"
)

// surplus are answers after which more comes than HTTP has a place for.
func surplus() map[string]struct{ method, answer string } {
	long := strings.Repeat("x", 100_000)
	full := func(size int) string { // as a reader's buffer
		const head = "HTTP/1.1 200 OK\r\nContent-Length: %04d\r\n\r\n"
		body := size - len(fmt.Sprintf(head, 0))
		return fmt.Sprintf(head, body) + long[:body]
	}
	return map[string]struct{ method, answer string }{
		"a body after HEAD":               {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 42\r\n\r\n" + otherAnswer},
		"more than Content-Length":        {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + otherAnswer},
		"far more than Content-Length":    {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + strings.Repeat(otherAnswer, 3000)},
		"after a full buffer":             {"GET", full(4096) + otherAnswer},
		"after a body past the buffer":    {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + long + otherAnswer},
		"more than an empty body":         {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" + otherAnswer},
		"a body of 204":                   {"GET", "HTTP/1.1 204 No Content\r\n\r\n" + otherAnswer},
		"a body of 304":                   {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 42\r\n\r\n" + otherAnswer},
		"1xx after the final head":        {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 103 Early Hints\r\n\r\n" + otherAnswer},
		"after the last chunk":            {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + otherAnswer},
		"garbage after the last chunk":    {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n\r\nxx" + otherAnswer},
		"the beginning of another's head": {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nX-Body: EVIL\r\nX-Rest: "},
		"one byte":                        {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\r"},
	}
}

// saysAnswers is an origin that gives an answer by the path, and another one else.
func saysAnswers(extra string, wrongly *atomic.Int32) func(net.Conn) {
	return func(c net.Conn) {
		br := bufio.NewReader(c)
		for spoiled := false; ; {
			req, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			if spoiled {
				wrongly.Add(1)
			}
			answer := rightAnswer
			if req.URL.Path == "/more" {
				answer, spoiled = extra, true
			}
			io.WriteString(c, answer)
		}
	}
}

func overTLS(t *testing.T, f func(net.Conn)) (func(net.Conn), TransportOptions) {
	s := httptest.NewTLSServer(nil)
	t.Cleanup(s.Close)
	cfg := &tls.Config{Certificates: s.TLS.Certificates}
	o := TransportOptions{TLS: &tls.Config{InsecureSkipVerify: true}, Protocol: ProtocolHTTP1}
	return func(c net.Conn) {
		tc := tls.Server(c, cfg)
		f(tc)
		tc.Close()
	}, o
}

// What an origin sends beyond its response is never the response to another
// request, and its connection gets no other request.
func TestSurplusIsNobodysResponse(t *testing.T) {
	const clients, rounds = 4, 25
	for name, tc := range surplus() {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, TLS %v", name, secure), func(t *testing.T) {
				var reused atomic.Int32
				f, o := saysAnswers(tc.answer, &reused), TransportOptions{Scheme: "http"}
				if secure {
					f, o = overTLS(t, f)
				}
				tr := transportTo(t, listen(t, f), o)
				var wg sync.WaitGroup
				for range clients {
					wg.Go(func() {
						for range rounds {
							more := newRequest(t, tc.method, "")
							more.URL.Path = "/more"
							send(tr, more, false)
							got := send(tr, newRequest(t, "GET", ""), false)
							assert.Equal(t, reply{status: 200, body: "good", info: got.info}, got)
						}
					})
				}
				wg.Wait()
				assert.Zero(t, reused.Load(), "requests on a connection that is out of step")
			})
		}
	}
}

// The same when a client leaves in the middle of a response.
func TestRestOfResponseIsNobodysResponse(t *testing.T) {
	var reused atomic.Int32
	tr := transportTo(t, listen(t, saysAnswers("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\nx"+strings.Repeat(otherAnswer, 120), &reused)), TransportOptions{Scheme: "http"})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				more := newRequest(t, "GET", "")
				more.URL.Path = "/more"
				if res, err := tr.RoundTrip(more); err == nil {
					io.ReadFull(res.Body, make([]byte, 1))
					res.Body.Close()
				}
				got := send(tr, newRequest(t, "GET", ""), false)
				assert.Equal(t, reply{status: 200, body: "good", info: got.info}, got)
			}
		})
	}
	wg.Wait()
	assert.Zero(t, reused.Load())
}

// Connections are kept all the same, one request after the other on a single one.
func TestConnectionIsKeptForNextRequest(t *testing.T) {
	for _, secure := range []bool{false, true} {
		for _, blind := range []bool{false, true} {
			var conns, reused atomic.Int32
			f, o := saysAnswers("", &reused), TransportOptions{Scheme: "http"}
			if secure {
				f, o = overTLS(t, f)
			}
			if blind {
				o.DialContext = dialBlind
			}
			tr := transportTo(t, listen(t, func(c net.Conn) { conns.Add(1); f(c) }), o)
			for i := range 200 {
				got := send(tr, newRequest(t, "GET", ""), false)
				require.NoError(t, got.err)
				assert.Equal(t, i > 0, got.info.Reused)
			}
			assert.EqualValues(t, 1, conns.Load(), "TLS %v, blind %v", secure, blind)
		}
	}
}
