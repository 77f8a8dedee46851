package lb

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"
)

// tuned is the plain ReverseProxy that NewProxy is measured against.
func tuned(addr string, flush time.Duration) http.Handler {
	u := &url.URL{Scheme: "http", Host: addr}
	return &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.SetURL(u)
			pr.Out.Host = pr.In.Host
			pr.SetXForwarded()
		},
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 256, DisableCompression: true, IdleConnTimeout: time.Minute, ResponseHeaderTimeout: time.Minute,
		},
		BufferPool: &buffers, FlushInterval: flush,
	}
}

// BenchmarkProxy1KiB compares, over loopback, ReverseProxy and NewProxy on a
// response of 1 KiB. They take turns in one run, since the machine's mood changes
// more than what they differ by.
func BenchmarkProxy1KiB(b *testing.B) {
	body := strings.Repeat("x", 1024)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["Content-Type"] = []string{"text/html; charset=utf-8"}
		h["Cache-Control"] = []string{"max-age=60"}
		h["Etag"] = []string{`"abc"`}
		h["Vary"] = []string{"Accept-Encoding"}
		h["Content-Length"] = []string{"1024"}
		io.WriteString(w, body)
	}))
	defer origin.Close()
	addr := origin.Listener.Addr().String()
	tr, err := newTransport(addr, TransportOptions{Scheme: "http"})
	if err != nil {
		b.Fatal(err)
	}
	defer tr.Close()
	ours, err := NewProxy(ProxyOptions{Transport: tr})
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		h    http.Handler
	}{
		{"ReverseProxy", tuned(addr, 0)},
		{"ReverseProxyFlushing", tuned(addr, -1)},
		{"NewProxy", ours},
	} {
		b.Run(c.name, func(b *testing.B) {
			front := httptest.NewServer(c.h)
			defer front.Close()
			conn, err := net.Dial("tcp", front.Listener.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			br := bufio.NewReader(conn)
			const req = "GET /page?q=1 HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: bench\r\nAccept: */*\r\nAccept-Encoding: gzip\r\nCookie: a=b\r\n\r\n"
			b.ReportAllocs()
			for b.Loop() {
				io.WriteString(conn, req)
				for {
					line, err := br.ReadSlice('\n')
					if err != nil {
						b.Fatal(err)
					}
					if len(line) == 2 {
						break
					}
				}
				if _, err := br.Discard(1024); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
