package informational

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

func TestMain(m *testing.M) { testnet.MainCheck(m) }

// recorder notes the header that each head is sent with.
type recorder struct {
	http.ResponseWriter
	header http.Header
	sent   []http.Header
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(int) { r.sent = append(r.sent, r.header.Clone()) }

func TestWriteLeavesTheHeaderAsItWas(t *testing.T) {
	for name, h := range map[string]http.Header{
		"no length": {"Link": {"a"}},
		"a length":  {"Link": {"a"}, "Content-Length": {"3"}},
		"no values": {"Content-Length": nil},
		"empty":     {},
	} {
		t.Run(name, func(t *testing.T) {
			want := h.Clone()
			w := &recorder{header: h}
			Write(w, 103)
			require.Equal(t, want, h)
			want["Content-Length"] = nil
			require.Equal(t, []http.Header{want}, w.sent)
		})
	}
}

// The server encodes the interim response while the handler, whose client has reset
// the stream, goes on to change the header. The race detector sees that; one that the
// test itself orders would be none to it, so it tries until the two have met.
func TestHeaderMayChangeAfterAnInterimResponse(t *testing.T) {
	l := testnet.NewPipeListener()
	returned := make(chan struct{}, 1)
	srv := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"A", "B", "C", "D", "E", "F", "G", "H"} {
			w.Header()[name] = []string{"value"}
		}
		Write(w, http.StatusEarlyHints)
		clear(w.Header())
		returned <- struct{}{}
	})}
	srv.Protocols.SetUnencryptedHTTP2(true)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(l)
	}()
	for i := range 300 {
		conn, err := l.Dial(context.Background())
		require.NoError(t, err)
		resetSoon(t, conn, i%30)
		<-returned
		_ = conn.Close()
	}
	_ = srv.Close()
	<-served
}

// resetSoon sends a request over HTTP/2 and resets it, without reading the answer.
func resetSoon(t *testing.T, conn net.Conn, yields int) {
	const settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	go func() { _, _ = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+settings) }()
	for range 3 { // the server's settings, its window, and that it has the client's
		var head [9]byte
		_, err := io.ReadFull(conn, head[:])
		require.NoError(t, err)
		_, err = io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(head[:4])>>8))
		require.NoError(t, err)
	}
	const get = "\x00\x00\x06\x01\x05\x00\x00\x00\x01\x82\x86\x84\x41\x01a" // http://a/
	_, err := io.WriteString(conn, get)
	require.NoError(t, err)
	for range yields {
		runtime.Gosched()
	}
	const reset = "\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x08"
	_, err = io.WriteString(conn, reset)
	require.NoError(t, err)
}
