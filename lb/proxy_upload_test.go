package lb

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// An origin answers without reading the upload. The client gets the answer while
// it still sends, and its connection doesn't stay for what nobody wants.
func TestProxyEarlyAnswerToUpload(t *testing.T) {
	addr := listen(t, func(c net.Conn) {
		readHead(c)
		io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
		io.Copy(io.Discard, c)
	})
	srv := proxied(t, newProxy(t, transportTo(t, addr, TransportOptions{Scheme: "http"})))
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\r\nsome")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.Equal(t, "413 big", fmt.Sprint(res.StatusCode, " ", string(b)))
	assert.True(t, res.Close)
	_, err = c.Read(make([]byte, 1))
	assert.Error(t, err, "the server closes")
}

// A slow origin holds back the upload: it isn't buffered.
func TestProxyUploadIsNotBuffered(t *testing.T) {
	gate := testnet.NewGate()
	srv := toOrigin(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		gate.Wait(r.Context())
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	}))
	const size = 256 << 20 // more than all sockets' buffers hold
	var given, before atomic.Int64
	body := readerFunc(func(p []byte) (int, error) {
		if given.Load() >= size {
			return 0, io.EOF
		}
		given.Add(int64(len(p)))
		return len(p), nil
	})
	go func() { // open the gate when nothing moves any more
		for last := int64(-1); given.Load() != last; time.Sleep(100 * time.Millisecond) {
			last = given.Load()
		}
		before.Store(given.Load())
		gate.Open()
	}()
	req, _ := http.NewRequest("POST", srv.URL, body)
	res, err := srv.Client().Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	assert.Equal(t, fmt.Sprint(given.Load()), string(b))
	assert.Less(t, before.Load(), int64(size), "the origin read nothing until then")
}
