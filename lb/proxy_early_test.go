package lb

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// A status that no HTTP/1 response can have, and that net/http's server panics for.
func TestStatusAboveTheRangeOverHTTP2(t *testing.T) {
	for _, status := range []string{"1000", "99", "0"} {
		addr := listen(t, rawHTTP2(func(c net.Conn, _ int, h frame) {
			head := append([]byte{0x08, byte(len(status))}, status...) // HPACK: a literal :status
			writeFrame(c, frame{kind: frameHeaders, flags: flagEndStream | flagEndHeaders, stream: h.stream, data: head})
		}))
		tr := transportTo(t, addr, TransportOptions{Scheme: "http", Protocol: ProtocolHTTP2})
		_, err := tr.RoundTrip(newRequest(t, "GET", ""))
		assert.Equal(t, TransportError{Failure: FailureProtocol, Wrote: true}, asTransportError(t, err), status)
	}
}

// tunnelEnd is the origin's end of a tunnel.
type tunnelEnd struct {
	over   io.Reader
	came   []byte
	closed chan struct{}
}

func (e *tunnelEnd) Read(p []byte) (int, error)  { return e.over.Read(p) }
func (e *tunnelEnd) Write(p []byte) (int, error) { e.came = append(e.came, p...); return len(p), nil }
func (e *tunnelEnd) CloseWrite() error           { close(e.closed); return nil }
func (e *tunnelEnd) Close() error                { return nil }

// What the server has read of a body that nobody asked for is no part of the tunnel.
func TestTunnelDoesntBeginWithTheBody(t *testing.T) {
	over, end := io.Pipe()
	e := &tunnelEnd{over: over, closed: make(chan struct{})}
	srv := proxied(t, newProxy(t, roundTripFunc(func(*http.Request) (*http.Response, error) {
		h := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}
		return &http.Response{StatusCode: http.StatusSwitchingProtocols, Header: h, Body: e}, nil
	})))
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 4\r\n\r\nbody")
	br := bufio.NewReader(c)
	res, err := http.ReadResponse(br, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, res.StatusCode)
	io.WriteString(c, "tunnel")
	c.(*net.TCPConn).CloseWrite()
	<-e.closed
	assert.Equal(t, "tunnel", string(e.came))
	end.Close()
	rest, err := io.ReadAll(br)
	assert.Equal(t, []any{"", nil}, []any{string(rest), err})
}

// One direction of a tunnel may end before the other, also where the client's first
// bytes came with its request.
func TestTunnelEndsOneWayAtATime(t *testing.T) {
	for _, early := range []string{"", "early "} {
		came := make(chan string, 1)
		addr := listen(t, func(c net.Conn) {
			br := bufio.NewReader(c)
			if _, err := http.ReadRequest(br); err != nil {
				return
			}
			io.WriteString(c, switched+"bye")
			c.(*net.TCPConn).CloseWrite()
			b, _ := io.ReadAll(br)
			came <- string(b)
		})
		srv := proxied(t, newProxy(t, transportTo(t, addr, TransportOptions{Scheme: "http"})))
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		require.NoError(t, err)
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"+early)
		br := bufio.NewReader(c)
		_, err = http.ReadResponse(br, nil)
		require.NoError(t, err)
		b, err := io.ReadAll(br) // ends as the origin's direction does
		assert.Equal(t, []any{"bye", nil}, []any{string(b), err})
		io.WriteString(c, "later")
		c.(*net.TCPConn).CloseWrite()
		assert.Equal(t, early+"later", <-came)
		c.Close()
	}
}

// lone is a client's connection whose directions end together.
type lone struct{ net.Conn }

// A direction that can't end alone ends the other.
func TestConnectionOfEarlyBytesSaysThatItCantEndOneWay(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	c := &earlyConn{lone{a}, bufio.NewReader(strings.NewReader(""))}
	assert.ErrorIs(t, c.CloseWrite(), errors.ErrUnsupported)
	assert.NoError(t, c.Close())
}

// bubbled serves a handler in a bubble, and returns a connection to it.
func bubbled(t *testing.T, h http.Handler) net.Conn {
	l := testnet.NewPipeListener()
	srv := &http.Server{Handler: h, ErrorLog: noLog}
	served := make(chan struct{})
	go func() { defer close(served); srv.Serve(l) }()
	c, err := l.Dial(background)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close(); srv.Close(); <-served })
	return c
}

// An error doesn't wait for the rest of the upload, nor for the patience with it.
func TestProxyErrorComesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c := bubbled(t, newProxy(t, roundTripFunc(func(*http.Request) (*http.Response, error) { return nil, errOdd })))
		go io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\r\nsome")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		assert.Equal(t, []any{502, true, time.Duration(0)}, []any{res.StatusCode, res.Close, time.Since(began)})
	})
}

// An origin's connection that still sends when the response is complete finds no more
// of the body: that is the server's again.
func TestUploadEndsWithTheResponse(t *testing.T) {
	var kept io.ReadCloser
	p := newProxy(t, roundTripFunc(func(r *http.Request) (*http.Response, error) {
		kept = r.Body
		return &http.Response{StatusCode: 204, Header: http.Header{}, Body: http.NoBody}, nil
	}))
	reads := 0
	r := httptest.NewRequest("POST", "/", readerFunc(func(p []byte) (int, error) { reads++; return len(p), nil }))
	p.ServeHTTP(httptest.NewRecorder(), r)
	n, err := kept.Read(make([]byte, 10))
	assert.Equal(t, []any{0, errUploadOver, 0}, []any{n, err, reads})
}
