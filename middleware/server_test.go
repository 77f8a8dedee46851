package middleware

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// The same on a real socket: a client that announces a body and sends a byte now and
// then loses its connection, while others are served.
func TestSlowBodyOnARealSocket(t *testing.T) {
	out := make(chan upload, 1)
	r := newRealRig(t, Options{BodyTimeout: 300 * time.Millisecond}, takeUpload(0, out))
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n")
	require.NoError(t, err)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				_, _ = conn.Write([]byte("x"))
			}
		}
	}()
	select {
	case u := <-out:
		require.ErrorIs(t, u.err, os.ErrDeadlineExceeded)
		require.Less(t, u.got, int64(1000))
	case <-time.After(time.Minute):
		t.Fatal("the handler still reads")
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	answer, err := io.ReadAll(conn)
	require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "the connection is still open")
	require.Contains(t, string(answer), "204 No Content")
}

func TestNewServer(t *testing.T) {
	h := http.NotFoundHandler()
	srv := NewServer(h, ServerOptions{})
	require.Equal(t, DefaultHeadTimeout, srv.ReadHeaderTimeout)
	require.Equal(t, DefaultIdleTimeout, srv.IdleTimeout)
	require.Zero(t, srv.ReadTimeout)
	require.Zero(t, srv.WriteTimeout)
	require.Equal(t, &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout, WriteByteTimeout: writeByteTimeout}, srv.HTTP2)
	srv = NewServer(h, ServerOptions{Addr: ":1", HeadTimeout: time.Second, IdleTimeout: -1})
	require.Equal(t, ":1", srv.Addr)
	require.Equal(t, time.Second, srv.ReadHeaderTimeout)
	require.Negative(t, srv.IdleTimeout)
}

// A client that drips a request's head, or keeps a connection without a request,
// loses it; over HTTP/2 one whose frame never gets whole does.
func TestNewServerCutsSlowHeads(t *testing.T) {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	for name, c := range map[string]struct {
		first  string
		drip   string
		within time.Duration
		h2     bool
	}{
		"a head in drops":          {drip: strings.Repeat("GET / HTTP/1.1\r\n", 1000), within: 31 * time.Second},
		"nothing":                  {within: 31 * time.Second},
		"nothing after an answer":  {first: "GET / HTTP/1.1\r\nHost: a\r\n\r\n", within: 2*time.Minute + time.Second},
		"HTTP/2, a frame in drops": {first: preface, drip: "\x00\x40\x00\x01\x04\x00\x00\x00\x01" + strings.Repeat("\x00", 16000), within: 46 * time.Second, h2: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				defer time.Sleep(time.Second) // net/http's patience with a connection that it closes
				l := testnet.NewPipeListener()
				srv := NewServer(http.NotFoundHandler(), ServerOptions{})
				srv.ErrorLog = silent()
				srv.Protocols = new(http.Protocols)
				srv.Protocols.SetHTTP1(!c.h2)
				srv.Protocols.SetUnencryptedHTTP2(c.h2)
				served := make(chan struct{})
				go func() {
					defer close(served)
					_ = srv.Serve(l)
				}()
				conn, err := l.Dial(t.Context())
				require.NoError(t, err)
				began := time.Now()
				ended := make(chan time.Duration, 1)
				go func() {
					_, _ = io.Copy(io.Discard, conn)
					ended <- time.Since(began)
				}()
				_, err = io.WriteString(conn, c.first)
				require.NoError(t, err)
				for _, b := range []byte(c.drip) {
					if _, err := conn.Write([]byte{b}); err != nil {
						break
					}
					time.Sleep(time.Second)
				}
				require.LessOrEqual(t, <-ended, c.within)
				_ = conn.Close()
				_ = srv.Close()
				<-served
			})
		})
	}
}
