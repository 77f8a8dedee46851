package middleware

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/admission"
	"github.com/weirhttp/weir/internal/testnet"
)

func TestRefusalSaysWhatItIs(t *testing.T) {
	for _, c := range []struct {
		method     string
		retryAfter time.Duration
		from, to   int // of Retry-After; 0 for none
		body       string
	}{
		{"GET", 0, 0, 0, "Service Unavailable\n"},
		{"GET", -time.Second, 0, 0, "Service Unavailable\n"},
		{"GET", time.Millisecond, 1, 2, "Service Unavailable\n"},
		{"GET", time.Second, 1, 2, "Service Unavailable\n"},
		{"GET", 1500 * time.Millisecond, 2, 3, "Service Unavailable\n"},
		{"HEAD", 8 * time.Second, 8, 11, ""},
		{"POST", 32 * time.Second, 32, 41, "Service Unavailable\n"},
		{"GET", math.MaxInt64, 365 * 86400, 365*86400*5/4 + 1, "Service Unavailable\n"},
	} {
		seen := map[int]bool{}
		for range 200 {
			w := httptest.NewRecorder()
			WriteRefusal(w, httptest.NewRequest(c.method, "/", nil), 503, c.retryAfter)
			h := w.Result().Header
			want := http.Header{
				"Cache-Control": {"no-store"}, "Content-Type": {"text/plain; charset=utf-8"}, "X-Content-Type-Options": {"nosniff"},
			}
			if c.to > 0 {
				n := atoi(h.Get("Retry-After"))
				require.GreaterOrEqual(t, n, c.from)
				require.LessOrEqual(t, n, c.to)
				seen[n] = true
				h.Del("Retry-After")
			}
			require.Equal(t, want, h)
			require.Equal(t, 503, w.Code)
			require.Equal(t, c.body, w.Body.String())
		}
		if c.to > 0 {
			require.Len(t, seen, min(c.to-c.from+1, len(seen)), "not spread")
			require.GreaterOrEqual(t, len(seen), min(c.to-c.from+1, 100), "not spread")
		}
	}
}

// A refusal comes at once, whatever its client has announced and not sent, and the
// connection is free within a second. One without a body stays open.
func TestRefusalWaitsForNoBody(t *testing.T) {
	for name, c := range map[string]struct {
		head string
		kept bool
	}{
		"no body":        {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", true},
		"empty body":     {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", true},
		"small body":     {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n", false},
		"part of a body": {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n0123456789", false},
		"large body":     {"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n", false},
		"chunked body":   {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", false},
		"expectation":    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n", false},
		"HTTP/1.0":       {"POST / HTTP/1.0\r\nHost: a\r\nContent-Length: 100\r\n\r\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				defer time.Sleep(time.Second) // net/http's patience with a connection that it closes
				srv := testnet.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					WriteRefusal(w, r, 503, time.Second)
				}))
				conn, err := srv.Listener.Dial(t.Context())
				require.NoError(t, err)
				defer conn.Close()
				began := time.Now()
				go func() { _, _ = io.WriteString(conn, c.head) }()
				br := bufio.NewReader(conn)
				res, err := http.ReadResponse(br, nil)
				require.NoError(t, err)
				body, err := io.ReadAll(res.Body)
				require.NoError(t, err)
				require.Equal(t, 503, res.StatusCode)
				require.Equal(t, "Service Unavailable\n", string(body))
				require.Zero(t, time.Since(began))
				require.Equal(t, c.kept, !res.Close)
				if c.kept {
					go func() { _, _ = io.WriteString(conn, c.head) }()
					_, err := http.ReadResponse(br, nil)
					require.NoError(t, err)
					return
				}
				_, err = br.ReadByte()
				require.Error(t, err, "the connection is closed")
				require.LessOrEqual(t, time.Since(began), time.Second)
			})
		})
	}
}

// Ten thousand clients announce a body, are refused, and neither send nor go. Each
// gets its refusal, and none leaves a goroutine behind.
func TestTenThousandWithheldBodiesHoldNothing(t *testing.T) {
	const waves, size = 10, 1000
	r := newRealRig(t, limited(admission.Options{Limit: 1, Queue: -1}), http.HandlerFunc(nothing))
	p, _ := r.mw.governor.limiter.TryAcquire(admission.Request{})
	defer p.Release()
	addr := strings.TrimPrefix(r.url, "http://")
	base := runtime.NumGoroutine()
	for range waves {
		conns := make([]net.Conn, size)
		var all sync.WaitGroup
		errs := make(chan error, size)
		for i := range conns {
			all.Go(func() {
				var err error
				if conns[i], err = net.Dial("tcp", addr); err != nil {
					errs <- err
					return
				}
				_, _ = io.WriteString(conns[i], "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n")
				_ = conns[i].SetReadDeadline(time.Now().Add(time.Minute))
				status, err := bufio.NewReader(conns[i]).ReadString('\n')
				if err != nil || !strings.Contains(status, "503") {
					errs <- fmt.Errorf("%q: %w", status, err)
				}
			})
		}
		all.Wait()
		close(errs)
		for err := range errs {
			require.NoError(t, err)
		}
		// The clients still hold their ends.
		require.Eventually(t, func() bool { return runtime.NumGoroutine() <= base+2 }, time.Minute, 5*time.Millisecond)
		for _, c := range conns {
			_ = c.Close()
		}
	}
}

// Over HTTP/2 a refusal ends its own stream and nothing else: the connection serves
// the next request.
func TestRefusalOverHTTP2EndsOneStream(t *testing.T) {
	var mu sync.Mutex
	peers := map[string]bool{}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		peers[r.RemoteAddr] = true
		mu.Unlock()
		WriteRefusal(w, r, 503, time.Second)
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	for range 3 {
		body, withheld := io.Pipe()
		req, err := http.NewRequestWithContext(t.Context(), "POST", srv.URL, body)
		require.NoError(t, err)
		res, err := srv.Client().Do(req)
		require.NoError(t, err)
		require.Equal(t, 503, res.StatusCode)
		require.Equal(t, 2, res.ProtoMajor)
		_, err = io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		_ = withheld.Close()
	}
	require.Len(t, peers, 1)
}

// The error for an origin that can't be reached doesn't wait for the client's body
// either.
func TestOriginErrorWaitsForNoBody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		defer time.Sleep(time.Second)
		r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ProxyErrorHandler(w, r, io.ErrUnexpectedEOF)
		}))
		conn, err := dialRig(r)
		require.NoError(t, err)
		defer conn.Close()
		began := time.Now()
		_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n")
		require.NoError(t, err)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, 502, res.StatusCode)
		require.True(t, res.Close)
		require.Zero(t, time.Since(began))
	})
}

// So does the answer to a PURGE, of those who may and of those who may not.
func TestPurgeWaitsForNoBody(t *testing.T) {
	for _, err := range []error{nil, io.EOF} {
		bubble(t, func(t *testing.T) {
			defer time.Sleep(time.Second) // net/http's patience with a connection that it closes
			r := newRig(t, Options{Purge: PurgeOptions{Authorise: func(*http.Request) (string, error) { return "me", err }}}, http.NotFoundHandler())
			conn, dialErr := dialRig(r)
			require.NoError(t, dialErr)
			defer conn.Close()
			go func() { _, _ = io.WriteString(conn, "PURGE / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n") }()
			began := time.Now()
			answer := readAll(conn)
			require.LessOrEqual(t, time.Since(began), 2*time.Second)
			require.Contains(t, answer, map[bool]string{true: "HTTP/1.1 200 ", false: "HTTP/1.1 403 "}[err == nil])
		})
	}
}

// The same holds for a refusal by a handler behind the middleware.
func TestHandlersRefusalWaitsForNoBody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		defer time.Sleep(10 * time.Second) // net/http's patience with a connection that it closes
		r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			WriteRefusal(w, r, 503, time.Second)
		}))
		conn, err := dialRig(r)
		require.NoError(t, err)
		defer conn.Close()
		go func() { _, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n") }()
		began := time.Now()
		require.Contains(t, readAll(conn), "HTTP/1.1 503 ")
		require.LessOrEqual(t, time.Since(began), 1100*time.Millisecond)
	})
}
