package main

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/weirhttp/weir/lb"
	"github.com/weirhttp/weir/middleware"
)

// newBalancer makes one pool of the origins.
func newBalancer(c config) (*lb.Balancer, error) {
	pool := lb.Pool{
		Name: "origins", Policy: c.policy, HashName: c.hashName,
		Health: lb.HealthCheck{Path: c.healthPath},
		// Ceilings are admission's affair: see the quickstart.
		MaxConnections: -1,
	}
	for _, u := range c.origins {
		pool.Origins = append(pool.Origins, lb.Origin{Address: u.Host, Scheme: u.Scheme})
	}
	return lb.New(lb.Options{Pools: []lb.Pool{pool}})
}

// newProxy sends what isn't stored to the origins.
func newProxy(c config, origins http.RoundTripper) (http.Handler, error) {
	if base := c.origins[0]; base.Path != "" && base.Path != "/" {
		origins = below{base, origins}
	}
	return lb.NewProxy(lb.ProxyOptions{
		Transport:    origins,
		TrustedPeers: c.trust,
		ErrorHandler: middleware.ProxyErrorHandler, // a stale response may stand in
	})
}

// below puts the path of the origins' URL before each request's.
type below struct {
	base *url.URL
	next http.RoundTripper
}

func (b below) RoundTrip(r *http.Request) (*http.Response, error) {
	u := *r.URL
	u.Path = strings.TrimSuffix(b.base.Path, "/") + u.Path
	u.RawPath = strings.TrimSuffix(b.base.EscapedPath(), "/") + r.URL.EscapedPath()
	out := r.WithContext(r.Context())
	out.URL = &u
	return b.next.RoundTrip(out)
}
