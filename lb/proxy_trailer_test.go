package lb

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// headOnly are fields that mean something in a head, and nothing after the content.
var headOnly = []string{
	"Content-Length", "Transfer-Encoding", "Trailer", "Te", "Host", "Connection", "Keep-Alive", "Upgrade", "Proxy-Connection",
	"Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie", "Www-Authenticate", "Location", "Content-Encoding", "Content-Type",
	"Cache-Control", "Range", "Expect", "Max-Forwards",
	"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Prefix", "X-Real-Ip",
	"X_Forwarded_For", "X_real-ip", "X-User", "X_user", "Via",
}

func trailerLines(names []string) string {
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "%s: forged\r\n", name)
	}
	return b.String() + "X-Sum: 4\r\n\r\n"
}

// declarable are the names that net/http lets a Trailer field have.
func declarable() []string {
	var names []string
	for _, name := range headOnly {
		if name != "Content-Length" && name != "Transfer-Encoding" && name != "Trailer" {
			names = append(names, name)
		}
	}
	return names
}

// Of the trailers, those pass that may come there; whether they were announced or
// not, to both sides.
func TestProxyForgedTrailers(t *testing.T) {
	for name, declared := range map[string][]string{"announced": append(declarable(), "X-Sum"), "not announced": {"X-Sum"}} {
		t.Run(name, func(t *testing.T) {
			trailer := "Trailer: " + strings.Join(declared, ", ") + "\r\n"
			came := make(chan http.Header, 1)
			addr := listen(t, func(c net.Conn) {
				req, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				io.Copy(io.Discard, req.Body)
				came <- req.Trailer
				io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"+trailer+"\r\n2\r\nok\r\n0\r\n"+trailerLines(headOnly))
				io.Copy(io.Discard, c)
			})
			h, err := NewProxy(ProxyOptions{Transport: newBalancer(t, Options{Pools: []Pool{plainPool("p", addr)}}), Protect: []string{"X-User"}})
			require.NoError(t, err)
			front := proxied(t, h)
			c, err := net.Dial("tcp", front.Listener.Addr().String())
			require.NoError(t, err)
			defer c.Close()
			io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n"+trailer+"\r\n2\r\nok\r\n0\r\n"+trailerLines(headOnly))
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			require.NoError(t, err)
			b, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			assert.Equal(t, "ok", string(b))
			assert.Equal(t, []string{"X-Sum"}, slices.Collect(maps.Keys(res.Trailer)), "to the client")
			assert.Equal(t, http.Header{"X-Sum": {"4"}}, <-came, "to the origin")
		})
	}
}

// A Trailer field with what is no name is the client's fault: nobody is asked.
func TestBadTrailerNameIsTheClientsFault(t *testing.T) {
	b, front := http2Front(t)
	for range 4 * DefaultEjectionFailures {
		c, err := net.Dial("tcp", front.Listener.Addr().String())
		require.NoError(t, err)
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nTrailer: bad name\r\n\r\n2\r\nok\r\n0\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		assert.Equal(t, 400, res.StatusCode)
		c.Close()
	}
	allHealthy(t, b)
}

// Whatever net/http refuses to send is the request's fault, over either protocol.
func TestRequestsThatCantBeSent(t *testing.T) {
	plain := newSite(t, saying(200, "ok")).address()
	for name, change := range map[string]func(*http.Request){
		"trailer's name":   func(r *http.Request) { r.Trailer = http.Header{"Bad name": nil} },
		"field's name":     func(r *http.Request) { r.Header["Bad name"] = []string{"x"} },
		"field's value":    func(r *http.Request) { r.Header["X"] = []string{"a\nb"} },
		"method":           func(r *http.Request) { r.Method = "GET IT" },
		"too short a body": func(r *http.Request) { r.ContentLength = 50 },
		"too long a body":  func(r *http.Request) { r.ContentLength = 3 },
		"forbidden trailer": func(r *http.Request) {
			r.ContentLength, r.Trailer = -1, http.Header{"Content-Length": nil}
		},
		"host": func(r *http.Request) { r.Host = "a b" },
	} {
		for proto, addr := range map[Protocol]string{ProtocolHTTP1: plain, ProtocolHTTP2: onlyHTTP2(t)} {
			tr := transportTo(t, addr, TransportOptions{Scheme: "http", Protocol: proto})
			for range 2 { // on a new connection, and a kept one
				req := newRequest(t, "POST", "hello")
				change(req)
				r := send(tr, req, false)
				if r.err == nil && (name == "host" || strings.Contains(name, "body")) {
					continue // net/http cuts it off, or there was an answer before the end
				}
				assert.Equal(t, FailureRequest, FailureOf(r.err), "%s, protocol %v: %v", name, proto, r.err)
				require.NoError(t, send(tr, newRequest(t, "GET", ""), false).err)
			}
		}
	}
}
