package middleware

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

type reviewStateKey struct{}

// recycling is a router that takes an object for each request's state from a pool and
// gives it back when the request has ended, as chi does.
func recycling(inner http.Handler) http.Handler {
	pool := sync.Pool{New: func() any { return new(atomic.Pointer[string]) }}
	recycled := "recycled"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		state := pool.Get().(*atomic.Pointer[string])
		state.Store(&r.URL.Path)
		defer func() {
			state.Store(&recycled)
			pool.Put(state)
		}()
		inner.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), reviewStateKey{}, state)))
	})
}

// item answers, after a while, with what the router's state says the request is for.
func item(control string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Second) // authorisation, a query
		w.Header().Set("Cache-Control", control)
		_, _ = io.WriteString(w, *r.Context().Value(reviewStateKey{}).(*atomic.Pointer[string]).Load())
	}
}

// Clients ask a router for items and go away. The fetches go on, and what they store
// under an item's URL is that item, not what the router's object was used for next.
func TestReviewRouterStateWhenClientsLeave(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mw, err := New(Options{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, mw.Close(context.Background())) })
		s := testnet.Serve(t, recycling(mw.Wrap(item("public, max-age=60"))))
		r := &rig{t: t, mw: mw, client: s.Client, url: "http://example.com"}
		for i := range 20 {
			r.lead(fmt.Sprint("/left/", i)).leave()
			r.lead(fmt.Sprint("/other/", i))
		}
		time.Sleep(5 * time.Second)
		for i := range 20 {
			for _, kind := range []string{"/left/", "/other/"} {
				path := fmt.Sprint(kind, i)
				require.Equal(t, "HIT", r.get(path, 200, path))
			}
		}
	})
}

// Nobody leaves, but stale items are refreshed behind their answers.
func TestReviewRouterStateWhileRefreshing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mw, err := New(Options{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, mw.Close(context.Background())) })
		s := testnet.Serve(t, recycling(mw.Wrap(item("public, max-age=30, stale-while-revalidate=600"))))
		r := &rig{t: t, mw: mw, client: s.Client, url: "http://example.com"}
		for _, word := range []string{"MISS", "STALE", "HIT"} {
			for i := range 20 {
				path := fmt.Sprint("/items/", i)
				require.Equal(t, word, r.start(path).whole(t, 200, path))
			}
			if word == "MISS" {
				time.Sleep(60 * time.Second)
			} else {
				time.Sleep(2 * time.Second)
			}
		}
	})
}

// A stale copy is served while the origin hangs. With a router's values in the context
// the request lasts as long as the refresh; with none it's over at once.
func TestReviewStaleHitEndsByWhatIsInItsContext(t *testing.T) {
	for name, outer := range map[string]func(http.Handler) http.Handler{
		"router": recycling,
		"plain":  func(h http.Handler) http.Handler { return h },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				gate := testnet.NewGate()
				refreshed := text("new", "max-age=10")
				refreshed.Gate = gate
				s := newSite(t, Options{FetchTimeout: -1}, text("old", "max-age=10, stale-while-revalidate=600"), refreshed)
				h := outer(s.h)
				h.ServeHTTP(recorder(), request("GET", "/"))
				after(60 * time.Second)
				w, ended := recorder(), make(chan struct{})
				go func() {
					defer close(ended)
					h.ServeHTTP(w, request("GET", "/"))
				}()
				synctest.Wait()
				require.Equal(t, "STALE old", w.Header().Get("Weir-Cache-Status")+" "+w.Body.String(), "answered either way")
				over := false
				select {
				case <-ended:
					over = true
				default:
				}
				require.Equal(t, name == "plain", over)
				gate.Open()
				<-ended
				synctest.Wait()
				s.asked(2)
				r := s.get("/")
				require.Equal(t, "HIT new", r.words())
			})
		})
	}
}

// exchangeRaw sends a request on a connection of its own and reads the answer.
func exchangeRaw(t *testing.T, addr, raw string) (body string, err error) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	_, _ = io.WriteString(conn, raw)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// cutOrigin answers with bodies of unknown length: /cut breaks off after its first
// part, /whole doesn't.
func cutOrigin(size int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		goodFor60(w.Header())
		_, _ = io.WriteString(w, strings.Repeat("x", size))
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/cut" {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "end")
	}
}

// HTTP/1.0 knows no chunks: a body without a length ends with the connection, whole or
// not. A client of it must never take a part for the whole; whole bodies it gets.
func TestReviewCutBodyOverHTTP10(t *testing.T) {
	r := newRealRig(t, Options{}, cutOrigin(11000))
	addr := strings.TrimPrefix(r.url, "http://")
	for range 3 {
		body, err := exchangeRaw(t, addr, "GET /cut HTTP/1.0\r\nHost: a\r\n\r\n")
		require.True(t, err != nil || body == "", "a clean end after %d bytes of a broken body", len(body))
		body, err = exchangeRaw(t, addr, "GET /whole HTTP/1.0\r\nHost: a\r\n\r\n")
		require.NoError(t, err)
		require.Equal(t, 11003, len(body))
	}
}

// A body too long to be kept can't be waited for, nor one that is handed through. Its
// break must be an error for a client of HTTP/1.0 all the same, and its end none.
func TestReviewLongCutBodyOverHTTP10(t *testing.T) {
	shared, passed := cutOrigin(5<<20), cutOrigin(300<<10)
	for name, rig := range map[string]*rig{
		"shared": newRealRig(t, Options{}, shared),
		"passed": newRealRig(t, Options{Default: Route{CacheOff: true}}, passed),
	} {
		t.Run(name, func(t *testing.T) {
			addr := strings.TrimPrefix(rig.url, "http://")
			for range 3 {
				body, err := exchangeRaw(t, addr, "GET /cut HTTP/1.0\r\nHost: a\r\n\r\n")
				require.Error(t, err, "a clean end after %d bytes of a broken body", len(body))
				body, err = exchangeRaw(t, addr, "GET /whole HTTP/1.0\r\nHost: a\r\n\r\n")
				require.NoError(t, err)
				require.Equal(t, "end", body[len(body)-3:])
			}
		})
	}
}

// An outer handler recovers from whatever panics, so net/http ends a cut body in good
// order. The client must see all the same that it isn't whole: the one whose request
// was fetched, and over a body with a length too.
func TestReviewOuterRecoverDoesNotHideACutBody(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"no length": cutOrigin(11000),
		"length": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "20000")
			cutOrigin(11000)(w, r)
		},
		"handler's own panic": func(w http.ResponseWriter, r *http.Request) {
			goodFor60(w.Header())
			_, _ = io.WriteString(w, strings.Repeat("x", 11000))
			_ = http.NewResponseController(w).Flush()
			panic("the database is gone")
		},
	} {
		t.Run(name, func(t *testing.T) {
			mw, err := New(Options{Logger: quietLog()})
			require.NoError(t, err)
			inner := mw.Wrap(handler)
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() { _ = recover() }()
				inner.ServeHTTP(w, r)
			}))
			srv.Config.ErrorLog = silent()
			srv.Start()
			defer func() {
				srv.Close()
				require.NoError(t, mw.Close(context.Background()))
			}()
			for _, proto := range []string{"HTTP/1.1", "HTTP/1.0"} {
				body, err := exchangeRaw(t, srv.Listener.Addr().String(), "GET /cut "+proto+"\r\nHost: a\r\nConnection: close\r\n\r\n")
				require.Error(t, err, "%s: a clean end after %d bytes", proto, len(body))
			}
		})
	}
}

// Hundreds of clients ask for cold URLs, all at once, and hang up. Their fetches may go
// on for the store's sake, but no more than 64 of them, and none for ever.
func TestReviewClientsThatComeAndGoAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var running atomic.Int64
		r := newRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			running.Add(1)
			defer running.Add(-1)
			<-r.Context().Done()
		}))
		calls := make([]*call, 300)
		for i := range calls {
			calls[i] = r.start(fmt.Sprint("/", i))
		}
		synctest.Wait()
		require.EqualValues(t, 300, running.Load(), "each client waits for its own")
		for _, c := range calls {
			c.leave()
		}
		require.LessOrEqual(t, running.Load(), int64(64))
		time.Sleep(DefaultFetchTimeout + time.Second)
		synctest.Wait()
		require.Zero(t, running.Load())
	})
}

// A client asks for a stored file and doesn't read. It's cut off, after as many stall
// timeouts as the file is long, and its goroutine on the server ends.
func TestReviewClientThatDoesNotReadAHitIsCutOff(t *testing.T) {
	const size, stall = 1 << 20, 50 * time.Millisecond
	mw, err := New(Options{StallTimeout: stall, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	inner := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		goodFor60(w.Header())
		_, _ = io.WriteString(w, strings.Repeat("x", size))
	}))
	type ending struct {
		took  time.Duration
		panic any
	}
	ended := make(chan ending, 2)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		defer func() {
			p := recover()
			ended <- ending{time.Since(start), p}
			if p != nil {
				panic(p)
			}
		}()
		inner.ServeHTTP(w, r)
	}))
	srv.Config.ErrorLog = silent()
	srv.Config.ConnState = func(c net.Conn, s http.ConnState) {
		if s == http.StateNew {
			_ = c.(*net.TCPConn).SetWriteBuffer(4 << 10) // or the kernel takes all of it
		}
	}
	srv.Start()
	defer func() {
		srv.Close()
		require.NoError(t, mw.Close(context.Background()))
	}()
	addr := srv.Listener.Addr().String()
	body, err := exchangeRaw(t, addr, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	require.Equal(t, size, len(body))
	require.Nil(t, (<-ended).panic)

	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	select {
	case e := <-ended:
		require.Equal(t, http.ErrAbortHandler, e.panic)
		require.GreaterOrEqual(t, e.took, 4*stall, "four pieces of 256 KiB")
	case <-time.After(10 * time.Second):
		t.Fatal("the hit's goroutine still waits for its client")
	}
}

// deadlines counts the write deadlines that are set on a client's connection.
type deadlines struct {
	*httptest.ResponseRecorder
	set int
}

func (d *deadlines) SetWriteDeadline(time.Time) error { d.set++; return nil }

// A small hit is watched by a timer of ours, so it sets no deadline: that costs a call
// to the server for each, and over HTTP/2 resets streams that nothing is sent on.
func TestReviewSmallHitSetsNoDeadline(t *testing.T) {
	for size, some := range map[int]bool{0: false, 4: false, 16 << 10: false, 1 << 20: true} {
		bubble(t, func(t *testing.T) {
			s := newSite(t, Options{}, public(strings.Repeat("x", size)))
			s.get("/")
			w := &deadlines{ResponseRecorder: recorder()}
			s.h.ServeHTTP(w, request("GET", "/"))
			require.Equal(t, "HIT", w.Header().Get("Weir-Cache-Status"))
			require.Equal(t, size, w.Body.Len())
			require.Equal(t, some, w.set > 0, "%d bytes, %d deadlines", size, w.set)
		})
	}
}
