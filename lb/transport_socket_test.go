package lb

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// blindConn is a connection that doesn't say whether a read blocks.
type blindConn struct{ net.Conn }

func dialBlind(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return blindConn{c}, nil
}

// socketPair returns a guarded connection, the origin's end of it, and what tells
// that it has settled.
func socketPair(t *testing.T, dial func(context.Context, string, string) (net.Conn, error)) (*countedConn, net.Conn, chan bool) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	c, err := dial(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	origin, err := l.Accept()
	require.NoError(t, err)
	settled := make(chan bool, 9)
	s := newSocket(c, false)
	s.guard(func() { settled <- true })
	counted := &countedConn{Conn: s, socket: s, onLost: func() {}}
	t.Cleanup(func() { counted.Close(); origin.Close() })
	return counted, origin, settled
}

var dials = map[string]func(context.Context, string, string) (net.Conn, error){
	"socket": new(net.Dialer).DialContext, "blind": dialBlind,
}

// got is what a Read returns.
type got struct {
	s   string
	err error
}

func readFrom(c net.Conn, size int) chan got {
	ch := make(chan got, 1)
	go func() {
		b := make([]byte, size)
		n, err := c.Read(b)
		ch <- got{string(b[:n]), err}
	}()
	return ch
}

// A request begins when a Read waits, a connection rests only when one waits after
// the response, and nothing that comes in between is passed on.
func TestSocketKeepsRequestsApart(t *testing.T) {
	for name, dial := range dials {
		t.Run(name, func(t *testing.T) {
			c, origin, settled := socketPair(t, dial)
			wrote := make(chan error, 1)
			go func() { _, err := c.Write([]byte("ask")); wrote <- err }()
			read := readFrom(c, 2) // without it the Write waits
			require.NoError(t, <-wrote)
			ask := make([]byte, 3)
			io.ReadFull(origin, ask)
			io.WriteString(origin, "ok")
			assert.Equal(t, got{"ok", nil}, <-read)

			assert.Equal(t, notYet, c.socket.rest())
			read = readFrom(c, 2)
			assert.True(t, <-settled)
			assert.Equal(t, ready, c.socket.rest(), "it waits")

			_, err := c.Write([]byte("ask"))
			require.NoError(t, err)
			io.ReadFull(origin, ask)
			io.WriteString(origin, "okmore")
			assert.Equal(t, got{"ok", nil}, <-read)
			assert.Equal(t, notYet, c.socket.rest())
			assert.Equal(t, got{"", errUnsolicited}, <-readFrom(c, 9))
			assert.Equal(t, unfit, c.socket.rest())
			_, err = c.Write([]byte("ask"))
			assert.Equal(t, errUnsolicited, err)
		})
	}
}

// What was in the socket when the response ended never counts as settled.
func TestSocketWithLeftoverNeverSettles(t *testing.T) {
	c, origin, settled := socketPair(t, dials["socket"])
	read := readFrom(c, 2)
	_, err := c.Write([]byte("ask"))
	require.NoError(t, err)
	io.WriteString(origin, "okmore")
	assert.Equal(t, got{"ok", nil}, <-read)
	assert.Equal(t, notYet, c.socket.rest())
	assert.Equal(t, got{"", errUnsolicited}, <-readFrom(c, 9))
	assert.Empty(t, settled)
}

// Bytes that come before a request is written aren't its response.
func TestSocketUnsolicitedBytes(t *testing.T) {
	for name, dial := range dials {
		t.Run(name, func(t *testing.T) {
			c, origin, _ := socketPair(t, dial)
			io.WriteString(origin, "HTTP/1.1 200 OK\r\n")
			assert.Equal(t, got{"", errUnsolicited}, <-readFrom(c, 99))
			_, err := c.Write([]byte("ask"))
			assert.Equal(t, errUnsolicited, err)
			b := make([]byte, 1)
			c.Close()
			n, _ := origin.Read(b)
			assert.Zero(t, n, "nothing was sent")
		})
	}
}

// A Write that waits for a reader ends with the connection.
func TestSocketCloseEndsWaitingWrite(t *testing.T) {
	c, _, _ := socketPair(t, dials["socket"])
	go c.Close()
	_, err := c.Write([]byte("ask"))
	assert.Equal(t, errUnsolicited, err)
}

func TestRecordReader(t *testing.T) {
	record := func(n int) []byte { return append([]byte{23, 3, 3, byte(n >> 8), byte(n)}, make([]byte, n)...) }
	stream := append(append(append(record(1), record(0)...), record(300)...), record(16640)...)
	ends := map[int]bool{0: true, 6: true, 11: true, 316: true, 316 + 16645: true}
	for _, step := range []int{1, 2, 3, 5, 6, 7, 299, 4096, len(stream)} {
		var r recordReader
		for at := 0; ; at += step {
			require.Equal(t, !ends[at], r.partial(), "%d after %d bytes", step, at)
			if at+step > len(stream) {
				break
			}
			r.add(stream[at : at+step])
		}
	}
}

// Half a TLS record is no emptiness.
func TestSocketWithHalfARecordIsUnfit(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	raw, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	origin, err := l.Accept()
	require.NoError(t, err)
	defer origin.Close()
	settled := make(chan bool, 9)
	s := newSocket(raw, true)
	s.guard(func() { settled <- true })
	defer s.Close()
	origin.Write([]byte{23, 3, 3, 1})
	assert.Equal(t, got{"\x17\x03\x03\x01", nil}, <-readFrom(s, 9))
	assert.Equal(t, notYet, s.rest())
	assert.Equal(t, errUnsolicited, (<-readFrom(s, 9)).err)
	assert.Empty(t, settled)
}
