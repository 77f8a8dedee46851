package middleware

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// onlyUnwrap is an outer writer that has nothing but Unwrap beside the minimum.
type onlyUnwrap struct{ w http.ResponseWriter }

func (o onlyUnwrap) Header() http.Header         { return o.w.Header() }
func (o onlyUnwrap) WriteHeader(code int)        { o.w.WriteHeader(code) }
func (o onlyUnwrap) Write(p []byte) (int, error) { return o.w.Write(p) }
func (o onlyUnwrap) Unwrap() http.ResponseWriter { return o.w }

// wrapped returns h behind the cache, and that behind a writer with Unwrap only.
func wrapped(t *testing.T, h http.HandlerFunc) http.Handler {
	t.Helper()
	mw, err := New(Options{Logger: quietLog()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, mw.Close(context.Background())) })
	inner := mw.Wrap(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { inner.ServeHTTP(onlyUnwrap{w}, r) })
}

// An event stream: each event arrives when it's sent, past the cache as in a
// fetch, and behind a writer that has Flush only by Unwrap.
func TestEventStreamArrivesEventByEvent(t *testing.T) {
	for _, accept := range []string{"text/event-stream", "*/*"} {
		bubble(t, func(t *testing.T) {
			s := testnet.Serve(t, wrapped(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for i := range 5 {
					fmt.Fprintf(w, "data: %d\n\n", i)
					if accept == "text/event-stream" {
						w.(http.Flusher).Flush()
					} else {
						_ = http.NewResponseController(w).Flush()
					}
					time.Sleep(time.Second)
				}
			}))
			req, _ := http.NewRequest("GET", "http://example.com/", nil)
			req.Header.Set("Accept", accept)
			start := time.Now()
			resp, err := s.Client.Do(req)
			require.NoError(t, err)
			br := bufio.NewReader(resp.Body)
			for i := range 5 {
				line, err := br.ReadString('\n')
				require.NoError(t, err)
				require.Equal(t, fmt.Sprintf("data: %d\n", i), line)
				require.Equal(t, time.Duration(i)*time.Second, time.Since(start))
				_, _ = br.ReadString('\n')
			}
			_, err = br.ReadString('\n')
			require.Equal(t, io.EOF, err)
			resp.Body.Close()
			require.Contains(t, []string{"BYPASS", "DYNAMIC"}, resp.Header.Get("Weir-Cache-Status"))
			s.Close()
		})
	}
}

// A WebSocket handshake: the connection is the handler's, by Hijack on the writer
// and through http.ResponseController.
func TestUpgradeHandsTheConnectionOver(t *testing.T) {
	for _, byController := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			s := testnet.Serve(t, wrapped(t, func(w http.ResponseWriter, r *http.Request) {
				var conn net.Conn
				var rw *bufio.ReadWriter
				var err error
				if byController {
					conn, rw, err = http.NewResponseController(w).Hijack()
				} else {
					conn, rw, err = w.(http.Hijacker).Hijack()
				}
				if err != nil {
					panic(err)
				}
				defer conn.Close()
				fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				_ = rw.Flush()
				line, _ := rw.ReadString('\n')
				fmt.Fprint(rw, "echo "+line)
				_ = rw.Flush()
			}))
			conn, err := s.Listener.Dial(t.Context())
			require.NoError(t, err)
			defer conn.Close()
			fmt.Fprint(conn, "GET /ws HTTP/1.1\r\nHost: example.com\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n")
			br := bufio.NewReader(conn)
			resp, err := http.ReadResponse(br, nil)
			require.NoError(t, err)
			require.Equal(t, 101, resp.StatusCode)
			fmt.Fprint(conn, "hello\n")
			line, err := br.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "echo hello\n", line)
			s.Close()
		})
	}
}

// A hijacked connection has no status that the cache could know of.
func TestHijackedRequestHasNoStatus(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				conn.Close()
			}
		}})
		server := testnet.Serve(t, s.h)
		_, err := testnet.Do(server.Client, "GET", "http://example.com/", "Upgrade", "x", "Connection", "Upgrade")
		require.Error(t, err)
		server.Close()
		synctest.Wait() // the client sees the end before the handler has returned
		s.mu.Lock()
		defer s.mu.Unlock()
		require.Len(t, s.records, 1)
		require.Zero(t, s.records[0].StatusCode)
	})
}

// readerFrom notes whether the source itself came through.
type readerFrom struct {
	*httptest.ResponseRecorder
	src io.Reader
}

func (r *readerFrom) ReadFrom(src io.Reader) (int64, error) {
	r.src = src
	return io.Copy(struct{ io.Writer }{r.ResponseRecorder}, src)
}

// Past the cache io.Copy reaches the client's own ReadFrom with the source as it
// is, so that sendfile works; a writer without ReadFrom gets the bytes all the
// same.
func TestReadFromKeepsTheSource(t *testing.T) {
	bubble(t, func(t *testing.T) {
		src := &struct{ io.Reader }{strings.NewReader("bytes of a file")}
		s := newSite(t, Options{}, &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) {
			n, err := w.(io.ReaderFrom).ReadFrom(src)
			if n != 15 || err != nil {
				panic(fmt.Sprint(n, err))
			}
		}})
		w := &readerFrom{ResponseRecorder: recorder()}
		s.h.ServeHTTP(w, request("POST", "/"))
		require.Same(t, src, w.src)
		require.Equal(t, "bytes of a file", w.Body.String())
		require.Equal(t, "BYPASS", w.Result().Header.Get("Weir-Cache-Status"))
		src.Reader = strings.NewReader("bytes of a file")
		r := s.do("POST", "/")
		require.Equal(t, "bytes of a file", r.body)
		require.EqualValues(t, 15, r.record.BytesSent)
		src.Reader = strings.NewReader("bytes of a file")
		r = s.get("/")
		require.Equal(t, "bytes of a file", r.body)
	})
}

// Early hints reach the client that asked, in a fetch as past the cache, and
// aren't part of what is stored.
func TestInterimResponses(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		bubble(t, func(t *testing.T) {
			origin := testnet.NewOrigin()
			script := public("page")
			script.Informational = []testnet.Head{{Status: 103, Header: testnet.Header("Link", "<a.css>", "Cache-Control", "max-age=600")}}
			origin.Handle(testnet.AnyPath, script)
			s := testnet.Serve(t, wrapped(t, origin.ServeHTTP))
			for n := range 2 {
				var hints []string
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
					hints = append(hints, fmt.Sprint(code, h["Link"]))
					return nil
				}})
				req, _ := http.NewRequestWithContext(ctx, method, "http://example.com/", nil)
				resp, err := s.Client.Do(req)
				require.NoError(t, err)
				body, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				require.Equal(t, "page", string(body))
				require.NotContains(t, resp.Header, "Link")
				require.Equal(t, "public, max-age=60", resp.Header.Get("Cache-Control"))
				if n == 0 || method == "POST" {
					require.Equal(t, []string{"103 [<a.css>]"}, hints)
				} else {
					require.Empty(t, hints)
					require.Equal(t, "HIT", resp.Header.Get("Weir-Cache-Status"))
				}
			}
			s.Close()
		})
	}
}

// Trailers arrive, announced and unannounced, on the miss, on the hit and past
// the cache, over HTTP/1.1 and HTTP/2.
func TestTrailers(t *testing.T) {
	h := wrapped(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=60")
		w.Header().Set("Trailer", "X-Sum")
		fmt.Fprint(w, "page")
		w.(http.Flusher).Flush()
		w.Header().Set("X-Sum", "4")
		w.Header().Set(http.TrailerPrefix+"X-More", "m")
	})
	for _, http2 := range []bool{false, true} {
		srv := httptest.NewUnstartedServer(h)
		srv.EnableHTTP2 = http2
		srv.StartTLS()
		for _, method := range []string{"GET", "GET", "POST"} {
			r, err := testnet.Do(srv.Client(), method, srv.URL+fmt.Sprint("/", http2))
			require.NoError(t, err)
			require.Equal(t, "page", r.Body)
			require.Equal(t, "4", r.Trailer.Get("X-Sum"), "%s http2=%v", method, http2)
			require.Equal(t, "m", r.Trailer.Get("X-More"), "%s http2=%v", method, http2)
			require.NotContains(t, r.Header, "X-Sum")
		}
		srv.CloseClientConnections()
		srv.Close()
	}
}

// HTTP/2: misses, hits, parts and passed requests are as over HTTP/1.1, and
// Hijack says that it can't be.
func TestHTTP2(t *testing.T) {
	var hijack error
	h := wrapped(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			_, _, hijack = http.NewResponseController(w).Hijack()
		}
		w.Header().Set("Cache-Control", "public, max-age=60")
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, strings.Repeat(digits, 100_000))
	})
	srv := httptest.NewUnstartedServer(h)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	for _, c := range []struct{ method, word string }{{"GET", "MISS"}, {"GET", "HIT"}, {"POST", "BYPASS"}} {
		r, err := testnet.Do(srv.Client(), c.method, srv.URL)
		require.NoError(t, err)
		require.Equal(t, c.word, r.Header.Get("Weir-Cache-Status"))
		require.Len(t, r.Body, 1_000_000)
	}
	require.ErrorIs(t, hijack, http.ErrNotSupported)
	r, err := testnet.Do(srv.Client(), "GET", srv.URL+"/other", "Range", "bytes=999990-999999")
	require.NoError(t, err)
	require.Equal(t, 206, r.Status)
	require.Equal(t, digits, r.Body)
}

// The first word about the status counts: a handler that writes and then sets a
// status has answered 200, on the wire, in the record, and in the store.
func TestFirstStatusCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, &testnet.Script{Do: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "public, max-age=60")
			_, _ = io.WriteString(w, "page")
			w.WriteHeader(500)
			w.Header().Set("X-Late", "too late")
		}})
		r := s.get("/")
		r.is(t, missed("page", 60))
		r = s.get("/")
		r.is(t, hit("page", 60, 0))
		require.NotContains(t, r.header, "X-Late")
	})
}
