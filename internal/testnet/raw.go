package testnet

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"testing"
)

// RawOrigin is a TCP server that answers with whatever bytes a test wants.
type RawOrigin struct {
	// Addr is the host and port it listens on.
	Addr string
	// URL is http:// and Addr.
	URL string

	l     net.Listener
	mu    sync.Mutex
	conns map[net.Conn]struct{}
	count int
	wg    sync.WaitGroup
}

// RawServer starts a TCP server on the loopback interface. For each connection
// it parses one request and calls f, which writes the answer byte by byte; when
// f returns, the connection is closed. Reading from conn continues after the
// request's head; use req.Body or conn, not both, and
// http.ReadRequest(bufio.NewReader(conn)) for further requests. When the test
// ends, the connections are cut and all calls of f are waited for.
//
// Real sockets stall a bubble of testing/synctest: use [RawServe] with a
// [PipeListener] there.
func RawServer(t testing.TB, f func(conn net.Conn, req *http.Request)) *RawOrigin {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("testnet: listen: %v", err)
	}
	return RawServe(t, l, f)
}

// RawServe is [RawServer] on the caller's listener, which it closes.
func RawServe(t testing.TB, l net.Listener, f func(conn net.Conn, req *http.Request)) *RawOrigin {
	t.Helper()
	o := &RawOrigin{Addr: l.Addr().String(), URL: "http://" + l.Addr().String(), l: l, conns: map[net.Conn]struct{}{}}
	o.wg.Go(func() { o.accept(f) })
	t.Cleanup(o.close)
	return o
}

// Count returns how many requests came whose heads could be parsed.
func (o *RawOrigin) Count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count
}

func (o *RawOrigin) accept(f func(net.Conn, *http.Request)) {
	for {
		conn, err := o.l.Accept()
		if err != nil {
			return
		}
		o.mu.Lock()
		if o.conns == nil { // closed meanwhile
			o.mu.Unlock()
			conn.Close()
			return
		}
		o.conns[conn] = struct{}{}
		o.mu.Unlock()
		o.wg.Go(func() { o.serve(conn, f) })
	}
}

func (o *RawOrigin) serve(conn net.Conn, f func(net.Conn, *http.Request)) {
	defer func() {
		conn.Close()
		o.mu.Lock()
		delete(o.conns, conn)
		o.mu.Unlock()
	}()
	br := bufio.NewReader(conn)
	req, err := http.ReadRequest(br)
	if err != nil {
		return
	}
	o.mu.Lock()
	o.count++
	o.mu.Unlock()
	f(&bufferedConn{conn, br}, req)
}

func (o *RawOrigin) close() {
	o.l.Close()
	o.mu.Lock()
	for conn := range o.conns {
		conn.Close()
	}
	o.conns = nil
	o.mu.Unlock()
	o.wg.Wait()
}

// bufferedConn reads what the request's parser has read ahead first.
type bufferedConn struct {
	net.Conn
	br *bufio.Reader
}

func (c *bufferedConn) Read(p []byte) (int, error) { return c.br.Read(p) }

// Drip writes s one byte at a time, each in a write of its own.
func Drip(conn net.Conn, s string) error {
	for i := range len(s) {
		if _, err := conn.Write([]byte{s[i]}); err != nil {
			return err
		}
	}
	return nil
}
