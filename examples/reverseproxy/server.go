package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/weirhttp/weir/middleware"
	"github.com/weirhttp/weir/purge"
)

// server is an HTTP server and the listener that it serves.
type server struct {
	ln net.Listener
	*http.Server
}

// newServer has the limits that keep slow clients away, and none for whole
// responses, which may be long. All its requests end with ctx.
func newServer(ctx context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
}

// newAdmin is the purge API on a listener of its own.
func newAdmin(ctx context.Context, mw *middleware.Middleware, c config) (*server, error) {
	api, err := mw.PurgeAPI(purge.BearerToken(c.adminToken))
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", c.admin)
	if err != nil {
		return nil, fmt.Errorf("-admin: %w", err)
	}
	return &server{ln, newServer(ctx, api)}, nil
}

// serve serves until ctx ends, or one of the servers can't any more.
func serve(ctx context.Context, servers []*server) error {
	served := make(chan error, len(servers))
	for _, s := range servers {
		go func() { served <- s.Serve(s.ln) }()
	}
	select {
	case err := <-served:
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return err
	case <-ctx.Done():
		return nil
	}
}

// shutdown lets the requests under way end. Those that don't in time are cut off, which
// is no failure.
func shutdown(grace context.Context, servers []*server) (err error) {
	grace, cancel := context.WithTimeout(grace, requestGrace)
	defer cancel()
	for _, s := range servers {
		failed := s.Shutdown(grace)
		if errors.Is(failed, context.DeadlineExceeded) {
			failed = s.Close()
		}
		err = errors.Join(err, failed)
	}
	return err
}
