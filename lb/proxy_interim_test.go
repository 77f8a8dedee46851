package lb

import (
	"bufio"
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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Early hints come before the origin has its response, and what handlers outside
// have set survives them.
func TestProxyEarlyHints(t *testing.T) {
	gate := make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		<-gate
		w.Header().Set("X-Final", "1")
	})
	overBoth(t, h, func(t *testing.T, url string, c *http.Client) {
		trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			assert.Equal(t, http.StatusEarlyHints, code)
			assert.Equal(t, "</a.css>; rel=preload", h.Get("Link"))
			gate <- struct{}{}
			return nil
		}}
		req, _ := http.NewRequestWithContext(httptrace.WithClientTrace(background, trace), "GET", url, nil)
		res, err := c.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		assert.Equal(t, []string{"", "1"}, []string{res.Header.Get("Link"), res.Header.Get("X-Final")})
	})
}

func TestProxyKeepsOuterHeaderAfterEarlyHints(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Add("X-Both", "origin")
	}))
	t.Cleanup(origin.Close)
	p := newProxy(t, transportTo(t, origin.Listener.Addr().String(), TransportOptions{Scheme: "http"}))
	srv := proxied(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Outer", "1")
		w.Header().Set("X-Both", "outer")
		p.ServeHTTP(w, r)
	}))
	res, err := srv.Client().Get(srv.URL)
	require.NoError(t, err)
	res.Body.Close()
	assert.Equal(t, "1", res.Header.Get("X-Outer"))
	assert.Equal(t, []string{"outer", "origin"}, res.Header["X-Both"])
}

// An origin that says 100 gets the body; one that refuses doesn't, and the client
// hears that at once.
func TestProxyExpectContinue(t *testing.T) {
	srv := toOrigin(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refuse" {
			w.WriteHeader(http.StatusExpectationFailed)
			return
		}
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "got %s", b)
	}))
	for path, want := range map[string]string{"/": "HTTP/1.1 100 Continue", "/refuse": "HTTP/1.1 417 Expectation Failed"} {
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		require.NoError(t, err)
		fmt.Fprintf(c, "PUT %s HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n", path)
		br := bufio.NewReader(c)
		line, err := br.ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, want, strings.TrimSpace(line))
		if path == "/" {
			br.ReadString('\n')
			io.WriteString(c, "data")
			res, err := http.ReadResponse(br, nil)
			require.NoError(t, err)
			b, _ := io.ReadAll(res.Body)
			assert.Equal(t, [2]any{200, "got data"}, [2]any{res.StatusCode, string(b)})
		}
		c.Close()
	}
}

// copied notes with which heads a server takes a copy of the header.
type copied struct {
	*httptest.ResponseRecorder
	seen []string
}

func (w *copied) WriteHeader(status int) {
	_, ok := w.Header()["Content-Length"]
	w.seen = append(w.seen, fmt.Sprint(status, " ", ok))
	if status >= 200 {
		w.ResponseRecorder.WriteHeader(status)
	}
}

// The header is changed after an interim response, so that the server must have a copy
// of its own.
func TestProxyLetsTheServerCopyInterimHeaders(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(origin.Close)
	p := newProxy(t, transportTo(t, origin.Listener.Addr().String(), TransportOptions{Scheme: "http"}))
	w := &copied{ResponseRecorder: httptest.NewRecorder()}
	p.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	assert.Equal(t, []string{"103 true", "204 false"}, w.seen)
}

// An origin goes on sending 1xx responses when its request has been given up, or
// answered, and the transport's reader tells of them: to a request that is over, or that
// has made room for another.
func TestProxyLateInterimResponseDoesNothing(t *testing.T) {
	var late []func(int, textproto.MIMEHeader) error
	rt := roundTripFunc(func(r *http.Request) (*http.Response, error) {
		for _, hook := range late {
			assert.NoError(t, hook(http.StatusEarlyHints, textproto.MIMEHeader{"Link": {"</late.css>"}}))
		}
		late = append(late, httptrace.ContextClientTrace(r.Context()).Got1xxResponse)
		return &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	})
	p := newProxy(t, rt)
	for range 8 {
		w := &copied{ResponseRecorder: httptest.NewRecorder()}
		p.ServeHTTP(w, httptest.NewRequest("POST", "/", strings.NewReader("body")))
		assert.Equal(t, []string{"204 false"}, w.seen)
		for _, hook := range late {
			assert.NoError(t, hook(http.StatusContinue, nil))
			assert.NoError(t, hook(http.StatusEarlyHints, textproto.MIMEHeader{"Link": {"</late.css>"}}))
		}
		assert.Equal(t, []string{"204 false"}, w.seen)
		assert.NotContains(t, w.Header(), "Link")
	}
}

// An origin looks at an upload's head for longer than bodies may stand still, and then
// takes it: while it's awaited to say 100 (Continue), there's no body for it to take.
func TestExpectContinueOutlastsShortBodyIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.add("10.0.0.1:80", func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(700 * time.Millisecond) // nothing buffers what is sent meanwhile
			io.Copy(w, r.Body)
		})
		pool := n.pool("p", "10.0.0.1:80")
		pool.Transport.BodyIdle = 500 * time.Millisecond
		a := ask(t, newBalancer(t, Options{Pools: []Pool{pool}}), "POST", "http://shop.test/", "data", func(r *http.Request) {
			r.Header.Set("Expect", "100-continue")
		})
		assert.Equal(t, []any{200, "data", nil}, []any{a.status, a.body, a.err})
	})
}
