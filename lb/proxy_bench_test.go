package lb

import (
	"bufio"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
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

// BenchmarkProxy1KiB compares, over loopback, ReverseProxy with NewProxy, to one origin
// and with a balancer, on a response of 1 KiB. An operation is a request to each of
// them: they take turns, since the machine's mood changes more than what they differ
// by. The medians of their times are the metrics; NewProxy's shouldn't be the larger.
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
	fronts := []*benchFront{
		{name: "ReverseProxy", h: tuned(addr, 0)},
		{name: "ReverseProxyFlushing", h: tuned(addr, -1)},
		{name: "NewProxy", h: newProxy(b, transportTo(b, addr, TransportOptions{Scheme: "http"}))},
		{name: "NewProxyBalanced", h: newProxy(b, newBalancer(b, Options{Pools: []Pool{plainPool("p", addr)}}))},
	}
	for _, f := range fronts {
		defer f.start(b)()
	}
	for b.Loop() {
		for _, i := range rand.Perm(len(fronts)) {
			fronts[i].ask(b)
		}
	}
	for _, f := range fronts {
		slices.Sort(f.took)
		b.ReportMetric(float64(f.took[len(f.took)/2].Nanoseconds()), f.name+"-ns")
	}
}

// benchFront is a proxy with one client.
type benchFront struct {
	name string
	h    http.Handler
	conn net.Conn
	br   *bufio.Reader
	took []time.Duration
}

// start starts the server, and returns what ends it.
func (f *benchFront) start(b *testing.B) (end func()) {
	server := httptest.NewServer(f.h)
	var err error
	if f.conn, err = net.Dial("tcp", server.Listener.Addr().String()); err != nil {
		b.Fatal(err)
	}
	f.br = bufio.NewReader(f.conn)
	return func() {
		f.conn.Close()
		server.Close()
	}
}

// ask makes one request.
func (f *benchFront) ask(b *testing.B) {
	const req = "GET /page?q=1 HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: bench\r\nAccept: */*\r\nAccept-Encoding: gzip\r\nCookie: a=b\r\n\r\n"
	began := time.Now()
	io.WriteString(f.conn, req)
	for {
		line, err := f.br.ReadSlice('\n')
		if err != nil {
			b.Fatal(err)
		}
		if len(line) == 2 {
			break
		}
	}
	if _, err := f.br.Discard(1024); err != nil {
		b.Fatal(err)
	}
	f.took = append(f.took, time.Since(began))
}
