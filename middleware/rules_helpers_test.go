package middleware

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/trace"
)

// bubble runs f with a clock of its own and fails if it leaves goroutines.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// site is a cache in front of a scripted origin, called without a network.
type site struct {
	t      *testing.T
	origin *testnet.Origin
	mw     *Middleware
	h      http.Handler

	mu      sync.Mutex
	records []*trace.Record
}

// newSite makes a site whose origin answers every path by the given scripts.
func newSite(t *testing.T, o Options, scripts ...*testnet.Script) *site {
	t.Helper()
	s := &site{t: t, origin: testnet.NewOrigin()}
	o.Hook = func(r *trace.Record) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.records = append(s.records, r.Clone())
	}
	mw, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, mw.Close(context.Background())) })
	s.mw, s.h = mw, mw.Wrap(s.origin)
	s.answer(scripts...)
	return s
}

// answer replaces the origin's scripts and forgets what it was asked.
func (s *site) answer(scripts ...*testnet.Script) {
	s.origin.Handle(testnet.AnyPath, scripts...)
	s.origin.Forget()
}

// reply is what one client got, and the record of it.
type reply struct {
	status  int
	header  http.Header
	trailer http.Header
	body    string
	record  *trace.Record
}

// request makes a request with header fields given as pairs. The names Host,
// Peer and Body stand for what isn't a header field.
func request(method, target string, header ...string) *http.Request {
	if strings.HasPrefix(target, "/") {
		target = "http://example.com" + target
	}
	r := httptest.NewRequest(method, target, nil)
	r.URL.Scheme, r.URL.Host = "", "" // as a server has it
	r.RequestURI = r.URL.RequestURI()
	for i := 0; i < len(header); i += 2 {
		switch name, value := header[i], header[i+1]; name {
		case "Host":
			r.Host = value
		case "Peer":
			r.RemoteAddr = value + ":1234"
		case "Body":
			body := httptest.NewRequest(method, target, strings.NewReader(value))
			r.Body, r.ContentLength = body.Body, body.ContentLength
		default:
			r.Header[name] = append(r.Header[name], value)
		}
	}
	return r
}

// do sends a request and waits for the whole answer. The hook must have been
// called once.
func (s *site) do(method, target string, header ...string) reply {
	s.t.Helper()
	return s.send(httptest.NewRecorder(), request(method, target, header...))
}

func (s *site) get(target string, header ...string) reply {
	s.t.Helper()
	return s.do("GET", target, header...)
}

func (s *site) send(w *httptest.ResponseRecorder, r *http.Request) reply {
	s.t.Helper()
	s.mu.Lock()
	s.records = nil
	s.mu.Unlock()
	s.h.ServeHTTP(w, r)
	synctest.Wait()
	res := w.Result()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Len(s.t, s.records, 1, "the hook is called once for each request")
	return reply{res.StatusCode, res.Header, res.Trailer, w.Body.String(), s.records[0]}
}

// want is all that a test says about a reply beside its other header fields.
type want struct {
	status    int // 0 means 200
	body      string
	word      string // Weir-Cache-Status
	cache     string // Cache-Status without the cache's name
	age       string
	reason    string
	forward   trace.Forward
	stored    bool
	notStored string
}

// is compares the whole reply.
func (r *reply) is(t *testing.T, w want) {
	t.Helper()
	if w.status == 0 {
		w.status = 200
	}
	c := r.record.Cache
	require.Equal(t, w, want{
		r.status, r.body, r.header.Get("Weir-Cache-Status"),
		strings.TrimPrefix(r.header.Get("Cache-Status"), "weir;"), r.header.Get("Age"),
		c.Reason, r.record.ForwardReason, c.Stored, c.NotStored,
	})
	require.Equal(t, w.status, r.record.StatusCode)
	require.Equal(t, w.word, c.Status.String())
	require.EqualValues(t, len(r.body), r.record.BytesSent)
	require.Equal(t, trace.Complete, r.record.Outcome)
}

// missed is the reply to a request for which nothing was stored and whose
// response is.
func missed(body string, ttl int) want {
	return want{
		body: body, word: "MISS", cache: fmt.Sprintf("fwd=uri-miss;fwd-status=200;ttl=%d;stored", ttl),
		reason: "nothing is stored under the key", forward: trace.ForwardURIMiss, stored: true,
	}
}

// hit is the reply from the store.
func hit(body string, ttl, age int) want {
	return want{
		body: body, word: "HIT", cache: fmt.Sprintf("hit;ttl=%d", ttl), age: fmt.Sprint(age),
		reason: "the stored response is fresh",
	}
}

// dynamic is the reply from the origin that isn't stored, and why.
func dynamic(body, why string) want {
	return want{
		body: body, word: "DYNAMIC", cache: "fwd=uri-miss;fwd-status=200", reason: why,
		forward: trace.ForwardURIMiss, notStored: why,
	}
}

// bypassed is the reply past the cache, and why.
func bypassed(body, why string) want {
	return want{
		body: body, word: "BYPASS", cache: "fwd=bypass;fwd-status=200", reason: why,
		forward: trace.ForwardBypass, notStored: "the cache kept out of the request",
	}
}

// at returns w with another status code.
func (w want) at(status int) want {
	w.status = status
	w.cache = strings.Replace(w.cache, "fwd-status=200", fmt.Sprintf("fwd-status=%d", status), 1)
	return w
}

// asked checks how many requests the origin got since the scripts were set.
func (s *site) asked(n int) {
	s.t.Helper()
	require.Equal(s.t, n, s.origin.Total(), "requests at the origin")
}

// last returns the newest request at the origin.
func (s *site) last() testnet.Request {
	s.t.Helper()
	all := s.origin.Requests()
	require.NotEmpty(s.t, all)
	return all[len(all)-1]
}

// public is a response that may be stored for a minute.
func public(body string, header ...string) *testnet.Script {
	return testnet.Text(200, body, append([]string{"Content-Type", "text/html", "Cache-Control", "public, max-age=60"}, header...)...)
}

// text is a response with the given Cache-Control.
func text(body, control string, header ...string) *testnet.Script {
	return testnet.Text(200, body, append([]string{"Content-Type", "text/html", "Cache-Control", control}, header...)...)
}

func after(d time.Duration) { time.Sleep(d) }

// nothing is a handler that says nothing.
func nothing(http.ResponseWriter, *http.Request) {}

// closedUntilEnd is a gate that opens when the test ends.
func closedUntilEnd(t *testing.T) *testnet.Gate {
	g := testnet.NewGate()
	t.Cleanup(g.Open)
	return g
}

// atoi returns a decimal number, or -1.
func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

func recorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }

// quietLog drops what the cache logs.
func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }
