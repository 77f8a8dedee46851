package integration

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// statusField is where weir says in one word what it did.
const statusField = "Weir-Cache-Status"

// newClient returns a client that shows what was sent as it was sent.
func newClient(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		Timeout:       patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// do sends a request, and fails the test if the answer doesn't come whole.
func do(t *testing.T, c *http.Client, method, url string, header ...string) *testnet.Response {
	t.Helper()
	r, err := testnet.Do(c, method, url, header...)
	require.NoError(t, err, "%s %s", method, url)
	return r
}

// answer is what came of a request in the background.
type answer struct {
	*testnet.Response
	err error
}

// ask sends a GET in the background.
func ask(c *http.Client, url string, header ...string) <-chan answer {
	out := make(chan answer, 1)
	go func() {
		r, err := testnet.Do(c, http.MethodGet, url, header...)
		out <- answer{r, err}
	}()
	return out
}

// await returns what comes from the channel.
func await[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("no answer")
		panic("not reached")
	}
}

// stream is an answer that is still arriving.
type stream struct {
	*http.Response
	cancel context.CancelFunc
}

// open sends a GET and returns with the head of the answer.
func open(t *testing.T, c *http.Client, url string, header ...string) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	return &stream{resp, cancel}
}

// read reads exactly n bytes.
func (s *stream) read(t *testing.T, n int) string {
	t.Helper()
	b := make([]byte, n)
	_, err := io.ReadFull(s.Body, b)
	require.NoError(t, err)
	return string(b)
}

// rest reads to the end.
func (s *stream) rest(t *testing.T) string {
	t.Helper()
	b, err := io.ReadAll(s.Body)
	require.NoError(t, err)
	return string(b)
}

// leave goes away in the middle.
func (s *stream) leave() {
	s.cancel()
	s.Body.Close()
}

// dial opens a raw connection and sends a text over it.
func dial(t *testing.T, addr, text string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	return conn, bufio.NewReader(conn)
}

// readResponse reads the next response from a raw connection, as it is; interim
// ones too.
func readResponse(t *testing.T, r *bufio.Reader) *http.Response {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	return resp
}

// readFinal reads on to the next response that isn't an interim one.
func readFinal(t *testing.T, r *bufio.Reader) *http.Response {
	t.Helper()
	resp := readResponse(t, r)
	for resp.StatusCode < 200 {
		resp = readResponse(t, r)
	}
	return resp
}
