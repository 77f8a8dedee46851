package middleware

import (
	"context"
	"crypto/tls"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServerLimitsWhatIsUnsent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	srv := NewServer(nil, ServerOptions{})
	ctx := context.Background()
	require.Equal(t, ctx, srv.ConnContext(ctx, tls.Server(conn, nil)))
	raw, err := conn.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		n, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotSentLowAt)
		require.NoError(t, err)
		require.Equal(t, unsentLimit, n)
	}))
	pipe, other := net.Pipe()
	require.Equal(t, ctx, srv.ConnContext(ctx, pipe))
	require.NoError(t, pipe.Close())
	require.NoError(t, other.Close())
}
