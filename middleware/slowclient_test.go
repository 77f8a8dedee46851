package middleware

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
	"github.com/weirhttp/weir/trace"
)

// upload is what became of a body in the handler.
type upload struct {
	got  int64
	err  error
	took time.Duration
}

// takeUpload is a handler that reads the body, resting after each read.
func takeUpload(rest time.Duration, out chan<- upload) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		var u upload
		buf := make([]byte, 4<<10)
		for u.err == nil {
			var n int
			n, u.err = r.Body.Read(buf)
			u.got += int64(n)
			time.Sleep(rest)
		}
		u.took = time.Since(began)
		out <- u
		w.WriteHeader(http.StatusNoContent)
	}
}

// A request's body must come, by its time without progress and never by its total
// time. What the handler takes itself isn't the client's fault.
func TestSlowBody(t *testing.T) {
	const all = 1 << 30 // announced
	for name, c := range map[string]struct {
		o     Options
		rest  time.Duration
		piece int
		every time.Duration
		n     int // pieces; the body ends with the last one if want is nil
		took  time.Duration
		want  error
	}{
		"nothing comes":                         {every: time.Hour, n: 1, took: 60 * time.Second, want: os.ErrDeadlineExceeded},
		"a byte now and then":                   {piece: 1, every: 59 * time.Second, n: 100, took: 60 * time.Second, want: os.ErrDeadlineExceeded},
		"a byte now and then, no rate":          {o: Options{BodyRate: -1}, piece: 1, every: 59 * time.Second, n: 100, took: 5900 * time.Second},
		"below the rate":                        {piece: 239, every: time.Second, n: 200, took: 60 * time.Second, want: os.ErrDeadlineExceeded},
		"above the rate, for hours":             {piece: 250, every: time.Second, n: 20000, took: 20000 * time.Second},
		"in bursts, for hours":                  {piece: 16 << 10, every: 59 * time.Second, n: 500, took: 59 * 500 * time.Second},
		"a handler that takes its time":         {rest: 10 * time.Minute, piece: 4 << 10, every: time.Second, n: 20, took: 20*10*time.Minute + time.Second},
		"other limits":                          {o: Options{BodyTimeout: 5 * time.Second, BodyRate: 1000}, piece: 999, every: time.Second, n: 10, took: 5 * time.Second, want: os.ErrDeadlineExceeded},
		"no limit":                              {o: Options{BodyTimeout: -1}, piece: 1, every: time.Hour, n: 100, took: 100 * time.Hour},
		"good at first and then nothing at all": {piece: 16 << 10, every: 0, n: 10, took: 60 * time.Second, want: os.ErrDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				defer time.Sleep(time.Second) // net/http's patience with a connection that it closes
				out := make(chan upload, 1)
				r := newRig(t, c.o, takeUpload(c.rest, out))
				conn, err := dialRig(r)
				require.NoError(t, err)
				defer conn.Close()
				length := all
				if c.want == nil {
					length = c.piece * c.n
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() {
					_, _ = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", length)
					piece := strings.Repeat("x", c.piece)
					for range c.n {
						select {
						case <-time.After(c.every):
						case <-ctx.Done():
							return
						}
						if _, err := io.WriteString(conn, piece); err != nil {
							return
						}
					}
				}()
				u := <-out
				if c.want == nil {
					require.Equal(t, upload{int64(length), io.EOF, c.took}, u)
				} else {
					require.ErrorIs(t, u.err, c.want)
					require.Equal(t, c.took, u.took)
				}
				br := bufio.NewReader(conn)
				res, err := http.ReadResponse(br, nil)
				require.NoError(t, err)
				require.Equal(t, 204, res.StatusCode)
				require.Equal(t, c.want != nil, res.Close, "the connection of one who is too slow isn't used again")
				cancel()
				synctest.Wait()
				r.mu.Lock()
				defer r.mu.Unlock()
				require.Len(t, r.records, 1)
				want := trace.Complete
				if c.want != nil {
					want = trace.ClientGone
				}
				require.Equal(t, want, r.records[0].Outcome)
			})
		})
	}
}

// After an upload that took long in all, and a long pause, the connection still
// serves, and a request under way isn't taken for cancelled.
func TestSlowBodyLeavesNoDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var gone error
		r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			time.Sleep(10 * time.Minute)
			gone = r.Context().Err()
		}))
		r.client.Timeout = 0
		for range 3 {
			req, err := http.NewRequestWithContext(t.Context(), "POST", r.url, strings.NewReader("body"))
			require.NoError(t, err)
			res, err := r.client.Do(req)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.NoError(t, gone)
			time.Sleep(10 * time.Second)
		}
	})
}

// A handler that answers without the body has its answer sent within seconds, even
// if the client never sends what it announced, and whatever the handler does with the
// body.
func TestUnreadBodyHoldsNoAnswer(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"ignored": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(403) },
		"flushed": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(403)
			_ = http.NewResponseController(w).Flush()
		},
		"closed first": func(w http.ResponseWriter, r *http.Request) {
			_ = r.Body.Close()
			w.WriteHeader(403)
		},
		"closed last": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(403)
			_ = r.Body.Close()
		},
		"read in part": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadFull(r.Body, make([]byte, 2))
			w.WriteHeader(403)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				defer time.Sleep(time.Second) // net/http's patience with a connection that it closes
				r := newRig(t, Options{}, handler)
				conn, err := dialRig(r)
				require.NoError(t, err)
				defer conn.Close()
				began := time.Now()
				_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n1234")
				require.NoError(t, err)
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err)
				require.Equal(t, 403, res.StatusCode)
				require.LessOrEqual(t, time.Since(began), 2*unreadPatience)
			})
		})
	}
}

// A proxy tells a client that was too slow that it was, and not that the origin is.
func TestProxyTellsSlowClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		defer time.Sleep(time.Second)
		origin := testnet.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
		}))
		r := newRig(t, Options{}, &httputil.ReverseProxy{
			Rewrite:      func(pr *httputil.ProxyRequest) { pr.SetURL(mustURL("http://origin")) },
			Transport:    origin.Client.Transport,
			ErrorHandler: ProxyErrorHandler,
			ErrorLog:     silent(),
		})
		conn, err := dialRig(r)
		require.NoError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n1234")
		require.NoError(t, err)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, 408, res.StatusCode)
		require.True(t, res.Close)
	})
}

// writeAll answers with n bytes in one of the ways that handlers have.
var writeAll = map[string]func(t *testing.T, w http.ResponseWriter, n int) error{
	"Write": func(_ *testing.T, w http.ResponseWriter, n int) error {
		_, err := w.Write(make([]byte, n))
		return err
	},
	"WriteString": func(_ *testing.T, w http.ResponseWriter, n int) error {
		_, err := io.WriteString(w, strings.Repeat("x", n))
		return err
	},
	"small pieces": func(_ *testing.T, w http.ResponseWriter, n int) error {
		for ; n > 0; n -= 100 {
			if _, err := w.Write(make([]byte, min(n, 100))); err != nil {
				return err
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				return err
			}
		}
		return nil
	},
	"a reader": func(_ *testing.T, w http.ResponseWriter, n int) error {
		_, err := io.Copy(w, struct{ io.Reader }{strings.NewReader(strings.Repeat("x", n))})
		return err
	},
	"a file": func(t *testing.T, w http.ResponseWriter, n int) error {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, make([]byte, n), 0o600); err != nil {
			return err
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.CopyN(w, f, int64(n))
		return err
	},
}

// A client that doesn't take an answer that is passed on is cut off, so that what the
// request holds is free again; one that takes it slowly gets all of it, in whatever
// time.
func TestSlowReaderOfPassedAnswer(t *testing.T) {
	const size = 1 << 20
	for name, write := range writeAll {
		for _, c := range []struct {
			every time.Duration // for each 32 KiB
			whole bool
		}{{12 * time.Second, true}, {time.Hour, false}} {
			t.Run(fmt.Sprint(name, ", ", c.every), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					defer time.Sleep(time.Second) // net/http's patience with a connection that it closes
					ended := make(chan error, 1)
					r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						w.Header().Set("Content-Length", fmt.Sprint(size))
						w.Header().Set("Content-Type", "application/octet-stream")
						ended <- write(t, w, size)
					}))
					conn, err := dialRig(r)
					require.NoError(t, err)
					defer conn.Close()
					_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
					require.NoError(t, err)
					began := time.Now()
					ctx, cancel := context.WithCancel(t.Context())
					go func() {
						buf := make([]byte, 32<<10)
						for err := error(nil); err == nil; _, err = io.ReadFull(conn, buf) {
							select {
							case <-time.After(c.every):
							case <-ctx.Done():
								return
							}
						}
					}()
					err = <-ended
					took := time.Since(began)
					cancel()
					_ = conn.Close()
					synctest.Wait()
					want := trace.Complete
					if c.whole {
						require.NoError(t, err)
						require.Greater(t, took, 6*time.Minute)
					} else {
						require.ErrorIs(t, err, os.ErrDeadlineExceeded)
						require.LessOrEqual(t, took, 2*time.Minute)
						want = trace.ClientGone
					}
					r.mu.Lock()
					defer r.mu.Unlock()
					require.Len(t, r.records, 1)
					require.Equal(t, want, r.records[0].Outcome)
				})
			})
		}
	}
}

// Pauses of the handler aren't the client's: an event stream goes on for ever.
func TestPausesOfPassedAnswerAreNobodysFault(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for range 20 {
				_, _ = io.WriteString(w, "data: 1\n\n")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(10 * time.Minute)
			}
		}))
		r.get("/", 200, strings.Repeat("data: 1\n\n", 20), "Accept", "text/event-stream")
	})
}

// h2Rig serves h over HTTP/2 in the clear on a network in memory.
func h2Rig(t *testing.T, srv *http.Server) *http.Client {
	t.Helper()
	l := testnet.NewPipeListener()
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetUnencryptedHTTP2(true)
	srv.ErrorLog = silent()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(l)
	}()
	tr := &http.Transport{DialContext: l.DialContext, Protocols: srv.Protocols}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		_ = srv.Close()
		<-served
	})
	return &http.Client{Transport: tr}
}

// Over HTTP/2 a stalled body fails alone: another request on the connection, and a
// handler that takes its time between two reads, notice nothing.
func TestSlowBodyOverHTTP2(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mw, err := New(Options{})
		require.NoError(t, err)
		defer func() { require.NoError(t, mw.Close(context.Background())) }()
		slow, good := make(chan upload, 1), make(chan upload, 1)
		mux := http.NewServeMux()
		mux.Handle("/slow", takeUpload(0, slow))
		mux.Handle("/good", takeUpload(5*time.Minute, good))
		client := h2Rig(t, NewServer(mw.Wrap(mux), ServerOptions{}))
		send := func(path string, body io.Reader) {
			req, err := http.NewRequestWithContext(t.Context(), "POST", "http://a"+path, body)
			require.NoError(t, err)
			if res, err := client.Do(req); err == nil {
				_ = res.Body.Close()
			}
		}
		stalled, writer := io.Pipe()
		goodBody, goodWriter := io.Pipe()
		go send("/slow", stalled)
		go send("/good", goodBody)
		go func() { _, _ = writer.Write([]byte("abc")) }()
		go func() {
			for range 5 {
				_, _ = goodWriter.Write([]byte("abc"))
				time.Sleep(30 * time.Second)
			}
			_ = goodWriter.Close()
		}()
		u := <-slow
		require.ErrorIs(t, u.err, os.ErrDeadlineExceeded)
		require.Equal(t, int64(3), u.got)
		require.Equal(t, 60*time.Second, u.took)
		u = <-good
		require.Equal(t, io.EOF, u.err)
		require.Equal(t, int64(15), u.got)
		_ = writer.Close()
	})
}

// Over HTTP/2 a client that takes nothing of an answer has its stream reset.
func TestSlowReaderOverHTTP2(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mw, err := New(Options{})
		require.NoError(t, err)
		defer func() { require.NoError(t, mw.Close(context.Background())) }()
		ended := make(chan error, 1)
		client := h2Rig(t, NewServer(mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				_, err := w.Write(make([]byte, 64<<20))
				ended <- err
			}
		})), ServerOptions{}))
		began := time.Now()
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://a/", nil)
		require.NoError(t, err)
		res, err := client.Do(req)
		require.NoError(t, err)
		require.Error(t, <-ended)
		require.LessOrEqual(t, time.Since(began), time.Minute)
		_ = res.Body.Close()
		res, err = client.Get("http://a/other")
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
	})
}

// The same on a real socket: a client that announces a body and sends a byte now and
// then loses its connection, while others are served.
func TestSlowBodyOnARealSocket(t *testing.T) {
	out := make(chan upload, 1)
	r := newRealRig(t, Options{BodyTimeout: 300 * time.Millisecond}, takeUpload(0, out))
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n")
	require.NoError(t, err)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				_, _ = conn.Write([]byte("x"))
			}
		}
	}()
	select {
	case u := <-out:
		require.ErrorIs(t, u.err, os.ErrDeadlineExceeded)
		require.Less(t, u.got, int64(1000))
	case <-time.After(time.Minute):
		t.Fatal("the handler still reads")
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	answer, err := io.ReadAll(conn)
	require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "the connection is still open")
	require.Contains(t, string(answer), "204 No Content")
}

func TestNewServer(t *testing.T) {
	h := http.NotFoundHandler()
	srv := NewServer(h, ServerOptions{})
	require.Equal(t, DefaultHeadTimeout, srv.ReadHeaderTimeout)
	require.Equal(t, DefaultIdleTimeout, srv.IdleTimeout)
	require.Zero(t, srv.ReadTimeout)
	require.Zero(t, srv.WriteTimeout)
	require.Equal(t, &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout, WriteByteTimeout: writeByteTimeout}, srv.HTTP2)
	srv = NewServer(h, ServerOptions{Addr: ":1", HeadTimeout: time.Second, IdleTimeout: -1})
	require.Equal(t, ":1", srv.Addr)
	require.Equal(t, time.Second, srv.ReadHeaderTimeout)
	require.Negative(t, srv.IdleTimeout)
}

// A client that drips a request's head, or keeps a connection without a request,
// loses it; over HTTP/2 one whose frame never gets whole does.
func TestNewServerCutsSlowHeads(t *testing.T) {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	for name, c := range map[string]struct {
		first  string
		drip   string
		within time.Duration
		h2     bool
	}{
		"a head in drops":          {drip: strings.Repeat("GET / HTTP/1.1\r\n", 1000), within: 31 * time.Second},
		"nothing":                  {within: 31 * time.Second},
		"nothing after an answer":  {first: "GET / HTTP/1.1\r\nHost: a\r\n\r\n", within: 2*time.Minute + time.Second},
		"HTTP/2, a frame in drops": {first: preface, drip: "\x00\x40\x00\x01\x04\x00\x00\x00\x01" + strings.Repeat("\x00", 16000), within: 46 * time.Second, h2: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				defer time.Sleep(time.Second) // net/http's patience with a connection that it closes
				l := testnet.NewPipeListener()
				srv := NewServer(http.NotFoundHandler(), ServerOptions{})
				srv.ErrorLog = silent()
				srv.Protocols = new(http.Protocols)
				srv.Protocols.SetHTTP1(!c.h2)
				srv.Protocols.SetUnencryptedHTTP2(c.h2)
				served := make(chan struct{})
				go func() {
					defer close(served)
					_ = srv.Serve(l)
				}()
				conn, err := l.Dial(t.Context())
				require.NoError(t, err)
				began := time.Now()
				ended := make(chan time.Duration, 1)
				go func() {
					_, _ = io.Copy(io.Discard, conn)
					ended <- time.Since(began)
				}()
				_, err = io.WriteString(conn, c.first)
				require.NoError(t, err)
				for _, b := range []byte(c.drip) {
					if _, err := conn.Write([]byte{b}); err != nil {
						break
					}
					time.Sleep(time.Second)
				}
				require.LessOrEqual(t, <-ended, c.within)
				_ = conn.Close()
				_ = srv.Close()
				<-served
			})
		})
	}
}

// A handler that answers while the body still comes (full duplex) reads on for as long
// as it likes.
func TestSlowBodyBesideTheAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		defer time.Sleep(time.Second)
		got := make(chan string, 1)
		r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			if err := rc.EnableFullDuplex(); err != nil {
				panic(err)
			}
			w.WriteHeader(200)
			_ = rc.Flush()
			time.Sleep(10 * time.Second)
			b, err := io.ReadAll(r.Body)
			got <- fmt.Sprint(string(b), err)
		}))
		conn, err := dialRig(r)
		require.NoError(t, err)
		defer conn.Close()
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
		require.NoError(t, err)
		for _, b := range []byte("abcde") {
			time.Sleep(4 * time.Second)
			_, err = conn.Write([]byte{b})
			require.NoError(t, err)
		}
		require.Equal(t, "abcde<nil>", <-got)
	})
}
