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
	check := c.healthPath
	if strings.HasPrefix(check, "/") { // else the balancer says what is wrong with it
		check = prefix(c.origins[0]) + check
	}
	pool := lb.Pool{
		Name: "origins", Policy: c.policy, HashName: c.hashName,
		Health: lb.HealthCheck{Path: check},
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
	base := c.origins[0]
	if prefix(base) != "" {
		origins = below{base, origins}
	}
	p, err := lb.NewProxy(lb.ProxyOptions{
		Transport:    origins,
		TrustedPeers: c.trust,
		ErrorHandler: middleware.ProxyErrorHandler, // a stale response may stand in
	})
	if err != nil || prefix(base) == "" {
		return p, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if leaves(r.URL) {
			w.Header().Set("Cache-Control", "no-store")
			http.Error(w, "bad path", http.StatusBadRequest)
			return
		}
		p.ServeHTTP(w, r)
	}), nil
}

// prefix is what the origins' URL puts before every path; "" for nothing.
func prefix(base *url.URL) string { return strings.TrimSuffix(base.EscapedPath(), "/") }

// below puts the path of the origins' URL before each request's.
type below struct {
	base *url.URL
	next http.RoundTripper
}

func (b below) RoundTrip(r *http.Request) (*http.Response, error) {
	u := *r.URL
	u.Path = strings.TrimSuffix(b.base.Path, "/") + u.Path
	u.RawPath = prefix(b.base) + r.URL.EscapedPath()
	out := r.WithContext(r.Context())
	out.URL = &u
	return b.next.RoundTrip(out)
}

// leaves reports whether an origin might take a target for one outside the path that
// is put before it: one with a ".." segment, however often it is encoded, with
// backslashes or parameters too; or one that is no path.
func leaves(u *url.URL) bool {
	if u.Opaque != "" || u.Path != "" && u.Path[0] != '/' {
		return true
	}
	for path := u.Path; ; {
		for segment := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
			if name, _, _ := strings.Cut(segment, ";"); name == ".." {
				return true
			}
		}
		decoded, err := url.PathUnescape(path)
		if err != nil || decoded == path {
			return false
		}
		path = decoded
	}
}
