package integration

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/middleware"
	"github.com/weirhttp/weir/trace"
)

// inProcess is the example proxy in the tests' own process, where what it
// leaves behind can be seen.
type inProcess struct {
	url, addr string
	mw        *middleware.Middleware
	mu        sync.Mutex
	records   []trace.Record
}

// serve starts the proxy. end ends it and says whether it went well.
func serve(t *testing.T, origin string) (p *inProcess, end func()) {
	t.Helper()
	p = &inProcess{}
	return p, p.start(t, origin, middleware.Options{Hook: func(r *trace.Record) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.records = append(p.records, *r)
	}})
}

// start starts the proxy with a cache of its own making.
func (p *inProcess) start(t *testing.T, origin string, o middleware.Options) (end func()) {
	t.Helper()
	u, err := url.Parse(origin)
	require.NoError(t, err)
	mw, err := middleware.New(o)
	require.NoError(t, err)
	p.mw = mw
	transport := &http.Transport{DisableCompression: true}
	handler := &httputil.ReverseProxy{
		Rewrite:       func(pr *httputil.ProxyRequest) { pr.SetURL(u) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorHandler:  middleware.ProxyErrorHandler,
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := &http.Server{Handler: mw.Wrap(handler)}
	go func() { _ = srv.Serve(l) }()
	p.addr = l.Addr().String()
	p.url = "http://" + p.addr
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		assert.NoError(t, srv.Shutdown(ctx))
		assert.NoError(t, mw.Close(ctx))
		transport.CloseIdleConnections()
	}
}

// codes returns the status codes that the proxy has recorded for a method.
func (p *inProcess) codes(method string) (codes []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.records {
		if r.Method == method {
			codes = append(codes, r.StatusCode)
		}
	}
	return codes
}

// All that can go wrong at once goes wrong; afterwards nothing is left of it.
func TestNothingIsLeftBehind(t *testing.T) {
	a := startApp(t)
	c := newClient(t)
	before := goleak.IgnoreCurrent()
	p, end := serve(t, a.url)
	var wg sync.WaitGroup
	for i := range 5 {
		for _, page := range []string{"abort", "abortchunked", "short", "badchunk", "gone", "duplicate", "nonsense", "page", "trailers", "packed"} {
			path := fmt.Sprintf("/%s/%d", page, i)
			a.release(path)
			for range 4 {
				wg.Go(func() { _, _ = testnet.Do(c, "GET", p.url+path) })
			}
			wg.Wait()
			a.release(path)
		}
		for _, path := range []string{"/endless/a", "/endless/storable", "/slow/never", "/slowprivate/never", "/events/a"} {
			conn, _ := dial(t, p.addr, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
			eventually(t, "the request arrives", func() bool { return a.seen(path).Count > 0 })
			require.NoError(t, conn.Close())
		}
		conn, r := dial(t, p.addr, fmt.Sprintf(upgrade, "/upgrade/a", "Upgrade", "websocket"))
		require.Equal(t, 101, readResponse(t, r).StatusCode)
		require.NoError(t, conn.Close())
	}
	a.release("/slow/never")
	end()
	c.CloseIdleConnections()
	a.client.CloseIdleConnections()
	assert.NoError(t, goleak.Find(before))
}

// Closing doesn't wait for an origin that never answers.
func TestCloseCancelsFetches(t *testing.T) {
	a := startApp(t)
	before := goleak.IgnoreCurrent()
	p, end := serve(t, a.url)
	conn, _ := dial(t, p.addr, "GET /late/closing HTTP/1.1\r\nHost: a\r\n\r\n")
	a.await("/late/closing", 1)
	require.NoError(t, conn.Close())
	began := time.Now()
	end()
	assert.Less(t, time.Since(began), patience/2)
	eventually(t, "the origin sees it", func() bool { return a.seen("/late/closing").Cut == 1 })
	a.client.CloseIdleConnections()
	assert.NoError(t, goleak.Find(before))
}

// What becomes of a connection that changed its protocol isn't an answer 200.
func TestUpgradeIsRecorded(t *testing.T) {
	a := startApp(t)
	p, end := serve(t, a.url)
	defer end()
	conn, r := dial(t, p.addr, fmt.Sprintf(upgrade, "/upgrade/recorded", "Upgrade", "websocket"))
	require.Equal(t, 101, readResponse(t, r).StatusCode)
	_, err := io.WriteString(conn, "x")
	require.NoError(t, err)
	_, err = r.ReadByte()
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	eventually(t, "the request is over", func() bool { return len(p.codes("GET")) == 1 })
	assert.NotContains(t, p.codes("GET"), 200)
	p.mu.Lock()
	defer p.mu.Unlock()
	assert.Equal(t, trace.Bypass, p.records[0].Cache.Status)
}
