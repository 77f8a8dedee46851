package middleware

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/cachekey"
	"github.com/weirhttp/weir/lb"
	"github.com/weirhttp/weir/trace"
)

// transport is an origin that a proxy reaches.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func proxyTo(t transport) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite:      func(pr *httputil.ProxyRequest) { pr.SetURL(&url.URL{Scheme: "http", Host: "origin"}) },
		ErrorHandler: ProxyErrorHandler, Transport: t,
	}
}

// takesAll is an origin that reads the request's body, and fails as a transport does
// if it can't.
func takesAll(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return nil, fmt.Errorf("net/http: HTTP/1.x transport connection broken: %w", err)
		}
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, ProtoMajor: 1, ProtoMinor: 1}, nil
}

func failing(err error) transport {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// Only what speaks against the origin brings an adaptive ceiling down, and a client
// whose own request is broken is told so.
func TestOnlyTheOriginsFailuresShrinkTheCeiling(t *testing.T) {
	const get, post = "GET / HTTP/1.1\r\nHost: a\r\n", "POST / HTTP/1.1\r\nHost: a\r\n"
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	for name, c := range map[string]struct {
		request string
		origin  transport
		status  int
		down    bool
	}{
		"fine":              {get + "\r\n", takesAll, 200, false},
		"unknown protocol":  {get + "Connection: keep-alive, Upgrade\r\nUpgrade: \xc3\xa9\r\n\r\n", takesAll, 400, false},
		"broken chunk":      {post + "Transfer-Encoding: chunked\r\n\r\nZZ\r\n", takesAll, 400, false},
		"chunk too long":    {post + "Transfer-Encoding: chunked\r\n\r\n1\r\nxyz\r\n", takesAll, 400, false},
		"can't be sent":     {post + "Content-Length: 1\r\n\r\nx", failing(errors.New("http: no Host in request URL")), 502, false},
		"no origin":         {post + "Content-Length: 1\r\n\r\nx", failing(&lb.NoOriginError{}), 503, false},
		"bad request":       {post + "Content-Length: 1\r\n\r\nx", failing(&lb.TransportError{Failure: lb.FailureRequest, Err: io.EOF}), 400, false},
		"refused":           {post + "Content-Length: 1\r\n\r\nx", failing(refused), 502, true},
		"closed":            {get + "Cache-Control: no-store\r\n\r\n", failing(io.EOF), 502, true},
		"balancer, refused": {get + "Cache-Control: no-store\r\n\r\n", failing(&lb.TransportError{Failure: lb.FailureDial, Err: refused}), 502, true},
		"upload withheld":   {post + "Content-Length: 1\r\n\r\nx", failing(&lb.TransportError{Failure: lb.FailureUpload, Err: io.EOF}), 502, false},
		"shut down":         {post + "Content-Length: 1\r\n\r\nx", failing(&lb.TransportError{Failure: lb.FailureShutdown, Err: io.EOF}), 503, false},
		"timeout":           {get + "Cache-Control: no-store\r\n\r\n", failing(&lb.TransportError{Failure: lb.FailureHeadTimeout, Err: io.EOF}), 504, true},
	} {
		for mode, watched := range map[string]time.Duration{"watched": 0, "not watched": -1} {
			t.Run(name+", "+mode, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					opts := limited(admission.Options{Limit: 100, Adaptive: &admission.Adaptive{Start: 50}})
					opts.BodyTimeout, opts.UnshareableFor = watched, -1
					r := newRig(t, opts, proxyTo(c.origin))
					for range 200 {
						require.Equal(t, c.status, oneRequest(t, r, c.request))
						time.Sleep(20 * time.Millisecond)
					}
					synctest.Wait()
					require.Equal(t, c.down, r.mw.AdmissionStats().Limiter.Limit < 50, "%d", r.mw.AdmissionStats().Limiter.Limit)
				})
			})
		}
	}
}

// oneRequest sends text on a connection of its own, and returns the answer's status.
func oneRequest(t *testing.T, r *rig, text string) int {
	t.Helper()
	c, err := dialRig(r)
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, text)
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	_ = res.Body.Close()
	return res.StatusCode
}

// A body that breaks off looks like a connection to the origin that does.
func TestBodyCutByItsClientIsNotTheOriginsFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mw, err := New(limited(admission.Options{Limit: 100, Adaptive: &admission.Adaptive{Start: 50}}))
		require.NoError(t, err)
		h := mw.Wrap(proxyTo(takesAll))
		for range 200 {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("POST", "http://example.com/", iotest.ErrReader(io.ErrUnexpectedEOF)))
			require.Equal(t, 400, w.Code)
			time.Sleep(20 * time.Millisecond)
		}
		require.Equal(t, 50, mw.AdmissionStats().Limiter.Limit)
		require.NoError(t, mw.Close(context.Background()))
	})
}

// What a proxy refuses by itself is no sample of how fast the origin is either.
func TestRefusedUpgradeIsNoSample(t *testing.T) {
	bubble(t, func(t *testing.T) {
		opts := limited(admission.Options{Limit: 100, Adaptive: &admission.Adaptive{Start: 50}})
		slow := transport(func(r *http.Request) (*http.Response, error) {
			time.Sleep(100 * time.Millisecond)
			return takesAll(r)
		})
		r := newRig(t, opts, proxyTo(slow))
		for range 100 {
			oneRequest(t, r, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: \xc3\xa9\r\n\r\n")
			oneRequest(t, r, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
		}
		require.GreaterOrEqual(t, r.mw.AdmissionStats().Limiter.Limit, 50)
	})
}

// panics calls f, which may panic.
func panics(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

// A rule of the application that panics when the permit is taken already doesn't
// keep it.
func TestPanickingKeyRuleHoldsNoPermit(t *testing.T) {
	rule := cachekey.Normalizer{Value: func([]string) string { panic("rule") }, Send: func(string) string { return "a" }}
	o := limited(admission.Options{Limit: 2, Queue: -1})
	o.Default = Route{StorePost: true, Key: cachekey.Options{Headers: []string{"X-A"}, Normalize: map[string]cachekey.Normalizer{"X-A": rule}}}
	mw, err := New(o)
	require.NoError(t, err)
	h := mw.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for range 3 {
		r := httptest.NewRequest("POST", "http://example.com/", nil)
		r.Header.Set("X-A", "b")
		require.Equal(t, "rule", panics(func() { h.ServeHTTP(httptest.NewRecorder(), r) }))
	}
	require.Zero(t, mw.AdmissionStats().Limiter.InUse)
	require.NoError(t, mw.Close(context.Background()))
}

// Nor does a hook keep the request counted as in flight.
func TestPanickingHookHoldsNoToken(t *testing.T) {
	mw, err := New(Options{
		Hook:      func(*trace.Record) { panic("hook") },
		Admission: AdmissionOptions{Overload: &admission.OverloadOptions{Knee: 2, Limit: 4, LagKnee: -1}},
	})
	require.NoError(t, err)
	h := mw.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for range 3 {
		require.Equal(t, "hook", panics(func() {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "http://example.com/", nil))
		}))
	}
	require.Zero(t, mw.AdmissionStats().Overload.InFlight)
	require.NoError(t, mw.Close(context.Background()))
}

// A handler may keep only the buffers of a connection that it has taken over: they
// have what the client sent already, and hold the permit.
func TestTunnelsBuffersHoldItsPermit(t *testing.T) {
	answer := make(chan struct{})
	done := make(chan struct{})
	buffered := make(chan int, 1)
	r := newRealRig(t, limited(admission.Options{Limit: 5}), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		go func() {
			defer close(done)
			early, _ := rw.Peek(5)
			buffered <- len(early)
			line, _ := rw.ReadString('\n')
			<-answer
			_, _ = rw.WriteString("heard " + line)
			_ = rw.Flush()
		}()
	}))
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nearly")
	require.NoError(t, err)
	require.Equal(t, 5, <-buffered)
	_, err = io.WriteString(c, " and late\n")
	require.NoError(t, err)
	for range 10 {
		runtime.GC()
		runtime.Gosched()
	}
	require.Equal(t, 1, r.inUse())
	close(answer)
	line, err := bufio.NewReader(c).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "heard early and late\n", line)
	<-done
}

// The buffers of a tunnel begin where those of the connection were.
func TestTunnelKeepsWhatIsBuffered(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	defer here.Close()
	r := bufio.NewReaderSize(strings.NewReader("early"), 64)
	_, err := r.Peek(5)
	require.NoError(t, err)
	tu := newTunnel(here, &holding{})
	rw := tu.buffered(bufio.NewReadWriter(r, bufio.NewWriterSize(here, 64)))
	require.Equal(t, 5, rw.Reader.Buffered())
	go func() { _, _ = io.WriteString(there, " and late\n") }()
	line, err := rw.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "early and late\n", line)
	require.Nil(t, tu.buffered(nil))
}
