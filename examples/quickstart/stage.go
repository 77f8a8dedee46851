package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/weirhttp/weir/middleware"
)

// closeGrace is how long requests under way may take at the end.
const closeGrace = 3 * time.Second

// stage has the origin, weir before it, a plain proxy beside weir for
// comparison, and the client of all visitors. All sockets are real ones.
type stage struct {
	plan
	origin *origin

	originURL, weirURL, plainURL, governedURL string

	transports []*http.Transport
	servers    []*http.Server // the origin comes first
	served     sync.WaitGroup
	closers    []func(context.Context) error // of what is before the origin
	client     *http.Client
}

// newStage sets the stage, on free ports.
func newStage(p plan) (*stage, error) {
	s := &stage{plan: p, origin: newOrigin(p)}
	s.client = &http.Client{Transport: s.newTransport()}
	if err := s.set(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *stage) set() (err error) {
	if s.originURL, err = s.serve(s.origin); err != nil {
		return err
	}
	target, err := url.Parse(s.originURL)
	if err != nil {
		return err
	}
	if s.plainURL, err = s.serve(s.newProxy(target)); err != nil {
		return err
	}
	if s.weirURL, err = s.put(s.cache, target); err != nil {
		return err
	}
	s.governedURL, err = s.put(s.governor, target)
	return err
}

// put serves what wrap puts before a proxy to the origin.
func (s *stage) put(wrap func(http.Handler) (http.Handler, func(context.Context) error, error), origin *url.URL) (string, error) {
	h, closeIt, err := wrap(s.newProxy(origin))
	if err != nil {
		return "", err
	}
	s.closers = append(s.closers, closeIt)
	return s.serve(h)
}

// serve starts a server on a free port and returns its URL.
func (s *stage) serve(h http.Handler) (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	srv := middleware.NewServer(h, middleware.ServerOptions{})
	s.servers = append(s.servers, srv)
	s.served.Go(func() { _ = srv.Serve(ln) }) // ends with ErrServerClosed
	return "http://" + ln.Addr().String(), nil
}

// close ends everything: first the servers before the origin, then the cache,
// then the origin.
func (s *stage) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	var errs []error
	for i := len(s.servers) - 1; i > 0; i-- {
		s.hangUp()
		errs = append(errs, shutdown(ctx, s.servers[i]))
	}
	for _, closeIt := range s.closers {
		errs = append(errs, closeIt(ctx))
	}
	s.hangUp()
	if len(s.servers) > 0 {
		errs = append(errs, shutdown(ctx, s.servers[0]))
	}
	s.served.Wait()
	return errors.Join(errs...)
}

// hangUp closes the connections that carry no request.
func (s *stage) hangUp() {
	for _, t := range s.transports {
		t.CloseIdleConnections()
	}
}

// shutdown lets the requests under way end. Those that don't in time are cut
// off, which at the end of a show is no failure.
func shutdown(ctx context.Context, srv *http.Server) error {
	err := srv.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return srv.Close()
	}
	return err
}

// newProxy is a proxy to the origin, as it should be behind a cache.
func (s *stage) newProxy(origin *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.SetURL(origin)
			pr.SetXForwarded()
		},
		Transport:     s.newTransport(),
		BufferPool:    &buffers{},
		FlushInterval: -1, // what isn't cached streams too
		ErrorHandler:  middleware.ProxyErrorHandler,
	}
}

func (s *stage) newTransport() *http.Transport {
	t := &http.Transport{
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true,
	}
	s.transports = append(s.transports, t)
	return t
}

// buffers makes httputil.ReverseProxy four times as fast.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, 32<<10)
}

func (b *buffers) Put(p []byte) { b.pool.Put(&p) }
