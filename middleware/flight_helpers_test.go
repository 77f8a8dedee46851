package middleware

import (
	"bytes"
	"context"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/trace"
)

// rig is a cache on a server, in front of any handler.
type rig struct {
	t      *testing.T
	mw     *Middleware
	client *http.Client
	url    string

	mu      sync.Mutex
	logged  bytes.Buffer
	records []*trace.Record
}

// newRig makes a rig on a network in memory, for use in a bubble.
func newRig(t *testing.T, o Options, next http.Handler) *rig {
	t.Helper()
	return newOuterRig(t, o, func(h http.Handler) http.Handler { return h }, next)
}

// newOuterRig makes a rig with an outer handler.
func newOuterRig(t *testing.T, o Options, outer func(http.Handler) http.Handler, next http.Handler) *rig {
	t.Helper()
	r := prepareRig(t, o)
	r.url = "http://example.com"
	srv := testnet.Serve(t, outer(r.mw.Wrap(next)))
	r.client = srv.Client
	return r
}

// newRealRig makes a rig on a real socket.
func newRealRig(t *testing.T, o Options, next http.Handler) *rig {
	t.Helper()
	r := prepareRig(t, o)
	srv := httptest.NewUnstartedServer(r.mw.Wrap(next))
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	srv.Start()
	t.Cleanup(srv.Close)
	r.url, r.client = srv.URL, srv.Client()
	r.client.Transport.(*http.Transport).DisableCompression = true
	r.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 100
	return r
}

func prepareRig(t *testing.T, o Options) *rig {
	t.Helper()
	r := &rig{t: t}
	o.Logger = slog.New(slog.NewTextHandler(lockedWriter{r}, nil))
	o.Hook = func(rec *trace.Record) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.records = append(r.records, rec.Clone())
	}
	mw, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, mw.Close(context.Background()))
		// The server doesn't wait for the handlers of connections that it cuts.
		require.Eventually(t, func() bool { return mw.Stats().FillBytes == 0 }, 10*time.Second, time.Millisecond)
		require.Zero(t, mw.flights.Flights(), "flights under way")
	})
	r.mw = mw
	return r
}

type lockedWriter struct{ r *rig }

func (w lockedWriter) Write(p []byte) (int, error) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	return w.r.logged.Write(p)
}

func (r *rig) log() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.logged.String()
}

// call is a request under way.
type call struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	status  int // 0 before the head
	header  http.Header
	trailer http.Header
	body    bytes.Buffer
	err     error
}

// start sends a request and returns at once.
func (r *rig) start(path string, header ...string) *call {
	ctx, cancel := context.WithCancel(context.Background())
	c := &call{cancel: cancel, done: make(chan struct{})}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+path, nil)
	require.NoError(r.t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	go func() {
		defer close(c.done)
		defer cancel()
		c.run(r.client, req)
	}()
	return c
}

func (c *call) run(client *http.Client, req *http.Request) {
	resp, err := client.Do(req)
	c.mu.Lock()
	c.err = err
	if err == nil {
		c.status, c.header = resp.StatusCode, resp.Header
	}
	c.mu.Unlock()
	if err != nil {
		return
	}
	defer resp.Body.Close()
	_, err = io.Copy(c, resp.Body)
	c.mu.Lock()
	c.err, c.trailer = err, resp.Trailer
	c.mu.Unlock()
}

// Write takes a piece of the body.
func (c *call) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.body.Write(p)
}

// sofar is what has come until now.
func (c *call) sofar() (status int, body string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status, c.body.String()
}

// leave breaks the request off and waits until the server has noticed. For a
// bubble.
func (c *call) leave() {
	c.cancel()
	<-c.done
	synctest.Wait()
}

// whole waits for the whole answer, which must be right, and returns the
// status word.
func (c *call) whole(t *testing.T, status int, body string) (word string) {
	t.Helper()
	<-c.done
	require.NoError(t, c.err)
	require.Equal(t, status, c.status)
	require.Equal(t, body, c.body.String())
	return c.header.Get("Weir-Cache-Status")
}

// broken waits for an answer that must break off: before its head, or in its
// body.
func (c *call) broken(t *testing.T) {
	t.Helper()
	<-c.done
	require.Error(t, c.err, "status %d, body %q looks whole", c.status, c.body.String())
}

// get is start and whole.
func (r *rig) get(path string, status int, body string, header ...string) (word string) {
	r.t.Helper()
	return r.start(path, header...).whole(r.t, status, body)
}

// many starts n equal requests.
func (r *rig) many(n int, path string, header ...string) []*call {
	calls := make([]*call, n)
	for i := range calls {
		calls[i] = r.start(path, header...)
	}
	return calls
}

// lead starts a request and waits until it waits for the origin, so that it
// leads those that are started then. For a bubble.
func (r *rig) lead(path string, header ...string) *call {
	c := r.start(path, header...)
	synctest.Wait()
	return c
}

// goodFor60 are the fields of a response that everyone may have.
func goodFor60(h http.Header) {
	h.Set("Content-Type", "text/plain")
	h.Set("Cache-Control", "public, max-age=60")
}

// shareable is a script whose response everyone may have, in gated chunks.
func shareable(chunks ...testnet.Chunk) *testnet.Script {
	return &testnet.Script{
		Header:    testnet.Header("Content-Type", "text/plain", "Cache-Control", "public, max-age=60"),
		FlushHead: true, Body: chunks,
	}
}

// origin returns a scripted origin that answers every path alike.
func originOf(scripts ...*testnet.Script) *testnet.Origin {
	o := testnet.NewOrigin()
	o.Handle(testnet.AnyPath, scripts...)
	return o
}

// dialRig opens a connection to a rig in a bubble, for raw requests.
func dialRig(r *rig) (net.Conn, error) {
	return r.client.Transport.(*http.Transport).DialContext(context.Background(), "", "")
}

// readAll returns what comes until the connection's end.
func readAll(conn net.Conn) string {
	b, _ := io.ReadAll(conn)
	return string(b)
}

type netConn = net.Conn

func mustURL(s string) *url.URL {
	u, err := url.Parse(s)
	if err != nil {
		panic(err)
	}
	return u
}

func silent() *log.Logger { return log.New(io.Discard, "", 0) }
