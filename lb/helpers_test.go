package lb

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// site is an origin with a real socket that counts what it gets.
type site struct {
	*httptest.Server
	mu   sync.Mutex
	seen map[string]int // by method
	ids  map[string]int // by X-Request
	now  atomic.Int32   // in flight
	peak atomic.Int32
	h    atomic.Pointer[http.HandlerFunc]
}

func newSite(t testing.TB, h http.HandlerFunc) *site {
	s := &site{seen: map[string]int{}, ids: map[string]int{}}
	s.handle(h)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.Config.ErrorLog = noLog
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func (s *site) handle(h http.HandlerFunc) { s.h.Store(&h) }

func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.seen[r.Method]++
	s.ids[r.Header.Get("X-Request")]++
	s.mu.Unlock()
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for p := s.peak.Load(); n > p && !s.peak.CompareAndSwap(p, n); p = s.peak.Load() {
	}
	(*s.h.Load())(w, r)
}

func (s *site) count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[method]
}

func (s *site) address() string { return s.Listener.Addr().String() }

// saying answers with a status and a text.
func saying(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(status)
		io.WriteString(w, text)
	}
}

// deadAddress is where nobody listens.
func deadAddress(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// plainPool is a pool of HTTP origins named a, b, c... that are never ejected.
func plainPool(name string, addresses ...string) Pool {
	p := Pool{Name: name, Transport: TransportOptions{Scheme: "http"}, Ejection: Ejection{Off: true}, Policy: Failover}
	for i, a := range addresses {
		p.Origins = append(p.Origins, Origin{ID: name + string(rune('a'+i)), Address: a})
	}
	return p
}

func newBalancer(t testing.TB, o Options) *Balancer {
	t.Helper()
	b, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.Close(context.Background())) })
	return b
}

// answer is what a client sees.
type answer struct {
	status int
	body   string
	err    error
	trail  Record
}

func ask(t testing.TB, rt http.RoundTripper, method, url, body string, opts ...func(*http.Request)) answer {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = struct{ io.Reader }{strings.NewReader(body)} // without GetBody, as from a server
	}
	ctx, trail := WithTrail(context.Background())
	req, err := http.NewRequestWithContext(ctx, method, url, r)
	require.NoError(t, err)
	if body != "" {
		req.ContentLength = int64(len(body))
	}
	for _, o := range opts {
		o(req)
	}
	res, err := rt.RoundTrip(req)
	if err != nil {
		return answer{err: err, trail: trail.Record()}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, string(text), err, trail.Record()}
}

// origins tells the reasons of all origins, by ID.
func (r Record) origins() map[string]string {
	out := map[string]string{}
	for _, o := range r.Origins {
		out[o.Origin] = o.String()
	}
	return out
}

// attempts tells the attempts as text.
func (r Record) attempts() []string {
	var out []string
	for _, a := range r.Attempts {
		what := a.Failure.String()
		if a.Status != 0 {
			what = http.StatusText(a.Status)
		}
		out = append(out, a.Origin+": "+what+"; "+a.Next)
	}
	return out
}
