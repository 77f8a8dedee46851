package lb

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// transportTo makes a transport and closes it when the test ends.
func transportTo(t testing.TB, address string, o TransportOptions) *transport {
	t.Helper()
	tr, err := newTransport(address, o)
	require.NoError(t, err)
	t.Cleanup(func() { tr.Close() })
	return tr
}

// reply is what came of a request.
type reply struct {
	status int
	body   string
	info   attemptInfo
	err    error
}

func send(tr *transport, req *http.Request, fresh bool) reply {
	var r reply
	res, err := tr.roundTrip(req, fresh, &r.info)
	if err != nil {
		r.err = err
		return r
	}
	defer res.Body.Close()
	r.status = res.StatusCode
	b, err := io.ReadAll(res.Body)
	r.body, r.err = string(b), err
	return r
}

func newRequest(t testing.TB, method, body string, header ...string) *http.Request {
	t.Helper()
	var rd io.Reader
	if body != "" {
		rd = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, "http://shop.test/page", rd)
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	return req
}

// listen starts a TCP server that calls f for each connection, and waits for all
// calls when the test ends.
func listen(t testing.TB, f func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var mu sync.Mutex
	var conns []net.Conn
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() { defer c.Close(); f(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}

// keptOnce is an origin that answers the first request of each connection and
// closes at the second, having read it. It counts all of them.
func keptOnce(count *atomic.Int32) func(net.Conn) {
	return func(c net.Conn) {
		br := bufio.NewReader(c)
		for i := range 2 {
			req, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			io.Copy(io.Discard, req.Body)
			count.Add(1)
			if i == 0 {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			}
		}
	}
}

// frame is an HTTP/2 frame.
type frame struct {
	kind, flags byte
	stream      uint32
	data        []byte
}

const (
	frameHeaders   = 1
	frameReset     = 3
	frameSettings  = 4
	framePing      = 6
	frameGoAway    = 7
	flagEndStream  = 1
	flagEndHeaders = 4
)

func writeFrame(w io.Writer, f frame) {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(f.data)))[1:]
	b = append(b, f.kind, f.flags)
	b = binary.BigEndian.AppendUint32(b, f.stream)
	w.Write(append(b, f.data...))
}

func readFrame(r io.Reader) (frame, error) {
	var h [9]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return frame{}, err
	}
	f := frame{kind: h[3], flags: h[4], stream: binary.BigEndian.Uint32(h[5:]) & (1<<31 - 1)}
	f.data = make([]byte, int(h[0])<<16|int(h[1])<<8|int(h[2]))
	_, err := io.ReadFull(r, f.data)
	return f, err
}

// rawHTTP2 is an HTTP/2 origin without TLS that calls f for each request's head.
func rawHTTP2(f func(c net.Conn, conn int, head frame)) func(net.Conn) {
	return rawFrames(func(c net.Conn, conn int, fr frame) {
		if fr.kind == frameHeaders {
			f(c, conn, fr)
		}
	})
}

// rawFrames is rawHTTP2 with all frames but SETTINGS and PING.
func rawFrames(f func(c net.Conn, conn int, fr frame)) func(net.Conn) {
	var conns atomic.Int32
	return func(c net.Conn) {
		n := int(conns.Add(1))
		queue := make(chan []byte, 64) // a pipe takes nothing while its peer writes
		defer close(queue)
		go func(under net.Conn) {
			for b := range queue {
				if len(b) == 0 {
					under.Close()
				}
				under.Write(b)
			}
		}(c)
		c = queuedConn{c, queue}
		preface := make([]byte, 24)
		if _, err := io.ReadFull(c, preface); err != nil {
			return
		}
		writeFrame(c, frame{kind: frameSettings})
		for {
			fr, err := readFrame(c)
			switch {
			case err != nil:
				return
			case fr.kind == frameSettings && fr.flags == 0:
				writeFrame(c, frame{kind: frameSettings, flags: 1})
			case fr.kind == framePing && fr.flags == 0:
				writeFrame(c, frame{kind: framePing, flags: 1, data: fr.data})
			case fr.kind != frameSettings && fr.kind != framePing:
				f(c, n, fr)
			}
		}
	}
}

// queuedConn writes, and closes, by way of a queue.
type queuedConn struct {
	net.Conn
	queue chan<- []byte
}

func (c queuedConn) Write(p []byte) (int, error) { c.queue <- bytes.Clone(p); return len(p), nil }
func (c queuedConn) Close() error                { c.queue <- nil; return nil }

// answer200 is an HTTP/2 response without a body.
func answer200(c net.Conn, stream uint32) {
	writeFrame(c, frame{kind: frameHeaders, flags: flagEndStream | flagEndHeaders, stream: stream, data: []byte{0x88}})
}

// asTransportError returns the error as far as tests compare it.
func asTransportError(t testing.TB, err error) TransportError {
	t.Helper()
	te, ok := errors.AsType[*TransportError](err)
	require.True(t, ok, "%v", err)
	return TransportError{Failure: te.Failure, Reused: te.Reused, Wrote: te.Wrote}
}

var background = context.Background()
