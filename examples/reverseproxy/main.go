// Command reverseproxy is a plain caching reverse proxy: weir in front of
// httputil.ReverseProxy.
//
//	go run ./examples/reverseproxy -listen 127.0.0.1:8080 -origin http://127.0.0.1:3000
//
// It prints one line with its address when it's ready, and shuts down cleanly
// on SIGTERM or an interrupt.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/weirhttp/weir/middleware"
	"github.com/weirhttp/weir/store"
)

// shutdownGrace is how long requests under way may take once the process is
// told to end.
const shutdownGrace = 8 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case err == nil, errors.Is(err, flag.ErrHelp):
	default:
		fmt.Fprintln(os.Stderr, "reverseproxy:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, err := parse(args, stderr)
	if err != nil {
		return err
	}
	opts := middleware.Options{Store: store.Options{MemoryBytes: c.memory}}
	if c.rfc {
		opts.Default = middleware.RFCProfile()
	}
	if c.debug {
		opts.Debug = func(*http.Request) bool { return true }
	}
	mw, err := middleware.New(opts)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", c.listen)
	if err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	defer floorHeap()()
	srv := &http.Server{
		Handler:           mw.Wrap(newProxy(c.origin)),
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       2 * time.Minute,
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	fmt.Fprintf(stdout, "listening on http://%s, origin %s\n", ln.Addr(), c.origin)
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	return errors.Join(srv.Shutdown(grace), mw.Close(grace))
}
