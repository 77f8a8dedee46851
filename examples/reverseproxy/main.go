// Command reverseproxy is a plain caching reverse proxy: weir in front of one
// origin or several.
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
	"path/filepath"
	"syscall"
	"time"

	"github.com/weirhttp/weir/lb"
	"github.com/weirhttp/weir/middleware"
	"github.com/weirhttp/weir/purge"
	"github.com/weirhttp/weir/store"
	"github.com/weirhttp/weir/store/disk"
)

// Once the process is told to end, it does so within shutdownGrace. Requests under way
// may take requestGrace of that; then they are cut off, event streams for instance. What
// is left is for the cache, which writes to disk what waits for it. Upgraded connections
// such as WebSockets, which have no end of their own, end as soon as no request is left.
const (
	shutdownGrace = 8 * time.Second
	requestGrace  = 6 * time.Second
)

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
	balancer, err := newBalancer(c)
	if err != nil {
		return err
	}
	mw, err := newCache(c)
	if err != nil {
		return errors.Join(err, closeAll(context.Background(), balancer))
	}
	defer floorHeap()()
	// The requests' contexts come from this one, so that it ends what a server doesn't.
	requests, cut := context.WithCancel(context.Background())
	defer cut()
	servers, err := listen(requests, c, mw, balancer, stdout)
	if err == nil {
		err = serve(ctx, servers)
	}
	grace, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	err = errors.Join(err, shutdown(grace, servers))
	cut()
	return errors.Join(err, closeAll(grace, mw, balancer))
}

// closeAll ends what runs behind the requests.
func closeAll(grace context.Context, parts ...interface{ Close(context.Context) error }) (err error) {
	for _, p := range parts {
		err = errors.Join(err, p.Close(grace))
	}
	return err
}

// listen makes the servers, and says where they listen.
func listen(requests context.Context, c config, mw *middleware.Middleware, balancer *lb.Balancer, stdout io.Writer) ([]*server, error) {
	proxy, err := newProxy(c, balancer)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", c.listen)
	if err != nil {
		return nil, fmt.Errorf("-listen: %w", err)
	}
	servers := []*server{{ln, newServer(requests, mw.Wrap(proxy))}}
	if c.admin != "" {
		admin, err := newAdmin(requests, mw, c)
		if err != nil {
			return nil, errors.Join(err, ln.Close())
		}
		servers = append(servers, admin)
	}
	fmt.Fprintf(stdout, "listening on http://%s, origin %s", ln.Addr(), c.origins)
	for _, s := range servers[1:] {
		fmt.Fprintf(stdout, ", purge API on http://%s", s.ln.Addr())
	}
	fmt.Fprintln(stdout)
	return servers, nil
}

// newCache makes the cache, with its disk if there is one.
func newCache(c config) (*middleware.Middleware, error) {
	o := options(c)
	if c.disk == "" {
		return middleware.New(o)
	}
	// What is purged must stay so after a restart: the purges are written down
	// beside what is stored.
	if err := os.MkdirAll(c.disk, 0o700); err != nil {
		return nil, fmt.Errorf("-disk: %w", err)
	}
	// What was stored from another site isn't this one's.
	o.Purge.RulesVersion = "origins " + c.origins.site()
	if c.site != "" {
		o.Purge.RulesVersion = "site " + c.site
	}
	o.Purge.List.Journal = filepath.Join(c.disk, "purges")
	tier, err := disk.Open(disk.Options{Dir: filepath.Join(c.disk, "objects"), MaxBytes: c.diskBytes})
	if err != nil {
		return nil, fmt.Errorf("-disk: %w", err)
	}
	o.Store.Disk = tier
	mw, err := middleware.New(o)
	if err != nil {
		return nil, errors.Join(err, tier.Close(context.Background()))
	}
	return mw, nil
}

// options turns the flags into what they mean.
func options(c config) middleware.Options {
	o := middleware.Options{Store: store.Options{MemoryBytes: c.memory}, TrustedProxies: c.trust}
	if c.rfc {
		o.Default = middleware.RFCProfile()
	}
	if c.debug {
		o.Debug = func(*http.Request) bool { return true }
	}
	if c.tagHeader != "" {
		o.Purge.TagFields = []purge.TagField{{Name: c.tagHeader}}
	}
	if len(c.allowPurge) > 0 {
		o.Purge.Authorise = purge.FromPrefixes(c.allowPurge)
	}
	return o
}
