package middleware

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// Two spellings of a path that have one key must be one to the handler as well.
func TestReviewSpellingOfThePathDoesNotReachTheHandler(t *testing.T) {
	var seen []string
	r := newRealRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.RequestURI+" "+r.URL.RawPath)
		goodFor60(w.Header())
		_, _ = io.WriteString(w, r.RequestURI)
	}))
	addr := strings.TrimPrefix(r.url, "http://")
	for _, target := range []string{`/a"<b>?q="<`, `/a%22%3Cb%3E?q="<`, `/c%2Fd`} {
		_, err := exchangeRaw(t, addr, "GET "+target+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		require.NoError(t, err)
	}
	require.Equal(t, []string{`/a%22%3Cb%3E?q="< `, `/c%2Fd /c%2Fd`}, seen)
}

// What an origin chooses by the client's address isn't for others: proxies behind
// the cache may write the field.
func TestReviewVaryByClientAddressIsNotShared(t *testing.T) {
	for _, name := range []string{"X-Forwarded-For", "Forwarded", "x-real-ip", "CF-Connecting-IP"} {
		bubble(t, func(t *testing.T) {
			s := newSite(t, Options{}, public("one", "Vary", "Accept, "+name), public("two"))
			r := s.get("/")
			r.is(t, dynamic("one", "the response varies by where its client is"))
			require.Equal(t, "two", s.get("/").body)
		})
	}
}

// A handler that panics in the middle of a passed body: an outer handler that
// recovers doesn't make it look whole, whatever the protocol.
func TestReviewOuterRecoverDoesNotHideAPassedCutBody(t *testing.T) {
	mw, err := New(Options{Logger: quietLog()})
	require.NoError(t, err)
	inner := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/length" {
			w.Header().Set("Content-Length", "4")
		}
		_, _ = io.WriteString(w, "part")
		_ = http.NewResponseController(w).Flush()
		panic("the database is gone")
	}))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { _ = recover() }()
		inner.ServeHTTP(w, r)
	}))
	defer func() {
		srv.Close()
		require.NoError(t, mw.Close(context.Background()))
	}()
	for _, proto := range []string{"HTTP/1.1", "HTTP/1.0"} {
		ask := func(path string) (string, error) {
			return exchangeRaw(t, srv.Listener.Addr().String(), "POST "+path+" "+proto+"\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		}
		body, err := ask("/")
		require.Error(t, err, "%s: a clean end after %q", proto, body)
		body, err = ask("/length")
		require.NoError(t, err, proto)
		require.Equal(t, "part", body, "its length says that it's whole")
	}
}

// An outer handler's context values keep the request open until the handler returns,
// but not the connection of a client whose body is cut.
func TestReviewCutDoesNotWaitForADeafHandler(t *testing.T) {
	release := make(chan struct{})
	mw, err := New(Options{StallTimeout: 50 * time.Millisecond, Logger: quietLog()})
	require.NoError(t, err)
	inner := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		goodFor60(w.Header())
		_, _ = io.WriteString(w, "part")
		_ = http.NewResponseController(w).Flush()
		<-release
	}))
	type key struct{}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, 1)))
	}))
	srv.Config.ErrorLog = silent()
	srv.Start()
	defer func() {
		srv.Close()
		require.NoError(t, mw.Close(context.Background()))
	}()
	defer close(release)
	_, err = exchangeRaw(t, srv.Listener.Addr().String(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	require.Error(t, err)
}

// A 304 that doesn't fit is asked about again, and that may take as long as any
// fetch without a deadline.
func TestReviewSecondQuestionHasItsOwnPatience(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := testnet.NewGate()
		slow := text("new", "max-age=60")
		slow.Gate = gate
		s := newSite(t, Options{FetchTimeout: -1}, text("old", "max-age=1", "Etag", `"a"`))
		s.get("/")
		after(2 * time.Second)
		s.answer(testnet.Text(304, "", "Etag", `"b"`), slow)
		done := s.begin("/")
		after(time.Minute)
		gate.Open()
		require.Equal(t, "200 new", <-done)
	})
}

// HTTP/1.0 knows no interim responses (RFC 9110 §15.2), fetched or passed.
func TestReviewNoInterimResponsesForHTTP10(t *testing.T) {
	r := newRealRig(t, Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		goodFor60(w.Header())
		_, _ = io.WriteString(w, "body")
	}))
	for _, method := range []string{"GET", "POST"} {
		for _, proto := range []string{"HTTP/1.0", "HTTP/1.1"} {
			conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
			require.NoError(t, err)
			fmt.Fprintf(conn, "%s /%s%s %s\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", method, proto, method, proto)
			got, err := io.ReadAll(conn)
			require.NoError(t, err)
			require.NoError(t, conn.Close())
			require.Equal(t, proto == "HTTP/1.1", strings.Contains(string(got), " 103 "), "%s %s", method, proto)
			require.Contains(t, string(got), "body")
		}
	}
}

// countedListener counts its connections and shows what is under them.
type countedListener struct {
	net.Listener
	open sync.WaitGroup
}

type countedConn struct {
	net.Conn
	closed func()
}

func (l *countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.open.Add(1)
	return &countedConn{c, sync.OnceFunc(l.open.Done)}, nil
}

func (c *countedConn) NetConn() net.Conn { return c.Conn }

func (c *countedConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}

// A reset closes every layer of a connection: a listener that counts them must not
// run out.
func TestReviewResetClosesWrappedConnections(t *testing.T) {
	mw, err := New(Options{Logger: quietLog()})
	require.NoError(t, err)
	srv := httptest.NewUnstartedServer(mw.Wrap(cutOrigin(11000)))
	srv.Config.ErrorLog = silent()
	l := &countedListener{Listener: srv.Listener}
	srv.Listener = l
	srv.Start()
	defer func() {
		srv.Close()
		require.NoError(t, mw.Close(context.Background()))
	}()
	for range 5 {
		_, err := exchangeRaw(t, l.Addr().String(), "POST /cut HTTP/1.0\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
		require.Error(t, err)
	}
	l.open.Wait() // for ever, if one isn't closed
}

// A handler that is passed through and gives up silently gets the cache's fields on
// what net/http makes of it, and nothing stored is touched.
func TestReviewSilentPassAfterADeadlineCarriesTheStatus(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, public("old"), &testnet.Script{Do: nothing})
		s.get("/")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r := s.send(recorder(), request("POST", "/").WithContext(ctx))
		require.Equal(t, "BYPASS", r.header.Get("Weir-Cache-Status"))
		r = s.get("/")
		r.is(t, hit("old", 60, 0))
	})
}

// With private="*" nobody names a field: the whole response is private.
func TestReviewQualifiedByAStarIsUnqualified(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, Options{}, text("mine", `max-age=60, private="*"`))
		r := s.get("/")
		r.is(t, dynamic("mine", "the response says private"))
	})
}
