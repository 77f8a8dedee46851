package middleware

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/store"
)

type proxyBuffers struct{ pool sync.Pool }

func (b *proxyBuffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, 32<<10)
}

func (b *proxyBuffers) Put(p []byte) { b.pool.Put(&p) }

// A miss of 1 KiB through httputil.ReverseProxy to an origin on a socket, and the
// same proxy without weir. What weir adds should be a small part of the whole.
func BenchmarkMissThroughProxy(b *testing.B) {
	body := make([]byte, 1024)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Cache-Control", "max-age=3600")
		w.Header().Set("Content-Length", "1024")
		_, _ = w.Write(body)
	}))
	defer origin.Close()
	target, err := url.Parse(origin.URL)
	require.NoError(b, err)
	proxy := &httputil.ReverseProxy{
		Rewrite:    func(pr *httputil.ProxyRequest) { pr.SetURL(target) },
		Transport:  &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16},
		BufferPool: &proxyBuffers{},
	}
	mw, err := New(Options{Store: store.Options{MemoryBytes: 256 << 20}})
	require.NoError(b, err)
	for _, c := range []struct {
		name string
		h    http.Handler
	}{{"bare", proxy}, {"weir", mw.Wrap(proxy)}} {
		b.Run(c.name, func(b *testing.B) {
			front := httptest.NewServer(c.h)
			defer front.Close()
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				r, err := client.Get(fmt.Sprintf("%s/%s/%d", front.URL, b.Name(), n))
				require.NoError(b, err)
				buf := make([]byte, 1024)
				_, _ = r.Body.Read(buf)
				_ = r.Body.Close()
			}
		})
	}
}
