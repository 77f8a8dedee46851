package testnet

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// PipeListener is a [net.Listener] whose connections are [net.Pipe]s: nothing
// is buffered, so a write waits for the reader. It works inside bubbles of
// testing/synctest; make it inside the bubble that uses it.
type PipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewPipeListener returns a listener that is ready to be dialled.
func NewPipeListener() *PipeListener {
	return &PipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial returns the client's end of a new connection, once it was accepted. It
// fails when ctx ends first or the listener is closed.
func (l *PipeListener) Dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	var err error
	select {
	case l.conns <- pipeConn{server}:
		return pipeConn{client}, nil
	case <-l.closed:
		err = net.ErrClosed
	case <-ctx.Done():
		err = ctx.Err()
	}
	client.Close()
	server.Close()
	return nil, &net.OpError{Op: "dial", Net: "pipe", Addr: pipeAddr{}, Err: err}
}

// DialContext is Dial in the form that [http.Transport] wants. It ignores
// network and address.
func (l *PipeListener) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	return l.Dial(ctx)
}

// Accept returns the server's end of the next connection.
func (l *PipeListener) Accept() (net.Conn, error) {
	select {
	case <-l.closed: // a closed listener accepts nothing, whoever is waiting
	default:
		select {
		case c := <-l.conns:
			return c, nil
		case <-l.closed:
		}
	}
	return nil, &net.OpError{Op: "accept", Net: "pipe", Addr: pipeAddr{}, Err: net.ErrClosed}
}

// Close stops the listener. Connections made before live on.
func (l *PipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr returns an address that looks like one of TCP, since code under test
// takes remote addresses apart.
func (l *PipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "192.0.2.1:80" }

// pipeConn gives a pipe's ends addresses that net.SplitHostPort understands.
type pipeConn struct{ net.Conn }

func (pipeConn) LocalAddr() net.Addr  { return pipeAddr{} }
func (pipeConn) RemoteAddr() net.Addr { return pipeAddr{} }

// Client returns a client whose every connection goes to l, whatever the URL's
// host. It doesn't ask for compression by itself and doesn't follow redirects,
// so that a test sees what was sent. Before a bubble ends, call its
// CloseIdleConnections.
func Client(l *PipeListener) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:         l.DialContext,
			DisableCompression:  true,
			MaxIdleConnsPerHost: 1024,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Server is an HTTP/1.1 server on a [PipeListener] with a client of its own.
type Server struct {
	// Listener is what the server accepts from.
	Listener *PipeListener
	// Client reaches the server under every URL.
	Client *http.Client
	// Config is the running server.
	Config *http.Server

	closing sync.Once
	done    chan struct{}
}

// Serve starts a server for h. It is closed when the test ends, or before by
// [Server.Close]. Panics of handlers are not logged.
func Serve(t testing.TB, h http.Handler) *Server {
	t.Helper()
	l := NewPipeListener()
	s := &Server{
		Listener: l,
		Client:   Client(l),
		Config:   &http.Server{Handler: h, ErrorLog: quiet(), ReadHeaderTimeout: time.Minute},
		done:     make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		s.Config.Serve(l)
	}()
	t.Cleanup(s.Close)
	return s
}

// Close stops the server and cuts all its connections. It doesn't wait for
// handlers that ignore their request's context. Calling it again does nothing.
func (s *Server) Close() {
	s.closing.Do(func() {
		s.Client.CloseIdleConnections()
		s.Config.Close()
		s.Listener.Close()
		<-s.done
	})
}

// Get sends a GET request for path, with the given pairs of header names and
// values, and reads the whole answer. It fails the test if that isn't possible.
func (s *Server) Get(t testing.TB, path string, header ...string) *Response {
	t.Helper()
	r, err := Do(s.Client, http.MethodGet, "http://example.com"+path, header...)
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	return r
}
