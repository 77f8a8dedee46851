package lb

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

func newProxy(t testing.TB, rt http.RoundTripper) http.Handler {
	t.Helper()
	h, err := NewProxy(ProxyOptions{Transport: rt})
	require.NoError(t, err)
	return h
}

// proxied serves a proxy to a transport on a real socket.
func proxied(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = noLog
	srv.Start()
	t.Cleanup(srv.Close)
	return srv
}

// toOrigin is a proxy server before an origin server.
func toOrigin(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	origin := httptest.NewUnstartedServer(h)
	origin.Config.ErrorLog = noLog
	origin.Start()
	t.Cleanup(origin.Close)
	return proxied(t, newProxy(t, transportTo(t, origin.Listener.Addr().String(), TransportOptions{Scheme: "http"})))
}

// overHTTP2 is a proxy that speaks HTTP/2 with its client and its origin, and a
// client for it.
func overHTTP2(t testing.TB, h http.Handler) (*httptest.Server, *http.Client) {
	t.Helper()
	origin := httptest.NewUnstartedServer(h)
	origin.Config.Protocols = new(http.Protocols)
	origin.Config.Protocols.SetUnencryptedHTTP2(true)
	origin.Config.ErrorLog = noLog
	origin.Start()
	t.Cleanup(origin.Close)
	tr := transportTo(t, origin.Listener.Addr().String(), TransportOptions{Scheme: "http", Protocol: ProtocolHTTP2})
	front := httptest.NewUnstartedServer(newProxy(t, tr))
	front.EnableHTTP2 = true
	front.Config.ErrorLog = noLog
	front.StartTLS()
	t.Cleanup(front.Close)
	return front, front.Client()
}

// overBoth runs a test over HTTP/1.1 and over HTTP/2 on both sides.
func overBoth(t *testing.T, h http.Handler, f func(t *testing.T, url string, c *http.Client)) {
	t.Run("HTTP/1.1", func(t *testing.T) {
		srv := toOrigin(t, h)
		f(t, srv.URL, srv.Client())
	})
	t.Run("HTTP/2", func(t *testing.T) {
		srv, c := overHTTP2(t, h)
		f(t, srv.URL, c)
	})
}

// Each part reaches the client before the origin sends the next one, whatever
// says how long the body is; the head too, before any part.
func TestProxyStreams(t *testing.T) {
	for _, header := range [][]string{{"Content-Type", "text/event-stream"}, {"Content-Length", "15"}, {}} {
		next := make(chan struct{})
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			http.NewResponseController(w).Flush()
			for i := range 5 {
				<-next
				fmt.Fprintf(w, "%02d\n", i)
				http.NewResponseController(w).Flush()
			}
		})
		t.Run(strings.Join(header, ":"), func(t *testing.T) {
			overBoth(t, h, func(t *testing.T, url string, c *http.Client) {
				res, err := c.Get(url)
				require.NoError(t, err)
				defer res.Body.Close()
				for i := range 5 {
					next <- struct{}{}
					var b [3]byte
					_, err := io.ReadFull(res.Body, b[:])
					require.NoError(t, err)
					assert.Equal(t, fmt.Sprintf("%02d\n", i), string(b[:]))
				}
				_, err = res.Body.Read(make([]byte, 1))
				assert.Equal(t, io.EOF, err)
			})
		})
	}
}

func TestProxyBigBodies(t *testing.T) {
	data := make([]byte, 5<<20+17)
	rand.Read(data)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err == nil {
			w.Write(b)
		}
	})
	overBoth(t, h, func(t *testing.T, url string, c *http.Client) {
		for _, body := range []io.Reader{bytes.NewReader(data), io.MultiReader(bytes.NewReader(data))} {
			res, err := c.Post(url, "", body)
			require.NoError(t, err)
			b, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			res.Body.Close()
			assert.True(t, bytes.Equal(data, b), "%d bytes", len(b))
		}
	})
}

func TestProxyTrailers(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Announced")
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "body")
		w.Header().Set("X-Announced", "a")
		w.Header().Set(http.TrailerPrefix+"X-Late", "b")
		w.Header().Set(http.TrailerPrefix+"X-Echo", r.Trailer.Get("X-Sent"))
	})
	overBoth(t, h, func(t *testing.T, url string, c *http.Client) {
		req, _ := http.NewRequest("POST", url, io.MultiReader(strings.NewReader("upload")))
		req.Trailer = http.Header{"X-Sent": {"c"}}
		res, err := c.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		_, err = io.ReadAll(res.Body)
		require.NoError(t, err)
		assert.Equal(t, http.Header{"X-Announced": {"a"}, "X-Late": {"b"}, "X-Echo": {"c"}}, res.Trailer)
	})
}

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
			assert.Equal(t, "got data", string(b))
		}
		c.Close()
	}
}

// echoUpgrade is an origin that takes a connection over and sends back what it
// gets, in capitals.
func echoUpgrade(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") == "" {
		fmt.Fprintf(w, "no upgrade, connection %q", r.Header.Get("Connection"))
		return
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\nSec-WebSocket-Accept: x\r\n\r\n", r.Header.Get("Upgrade"))
	rw.Flush()
	for {
		b, err := rw.ReadByte()
		if err != nil {
			return
		}
		conn.Write(bytes.ToUpper([]byte{b}))
	}
}

func TestProxyUpgrade(t *testing.T) {
	front := map[string]func(t *testing.T) *httptest.Server{
		"plain": func(t *testing.T) *httptest.Server { return toOrigin(t, http.HandlerFunc(echoUpgrade)) },
		// The origin would rather have HTTP/2, which has no upgrades.
		"HTTP/2 origin": func(t *testing.T) *httptest.Server {
			origin := httptest.NewUnstartedServer(http.HandlerFunc(echoUpgrade))
			origin.EnableHTTP2 = true
			origin.StartTLS()
			t.Cleanup(origin.Close)
			tr := transportTo(t, origin.Listener.Addr().String(), TransportOptions{
				RootCAs: origin.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs})
			require.NoError(t, send(tr, newRequest(t, "GET", ""), false).err)
			return proxied(t, newProxy(t, tr))
		},
	}
	for name, serve := range front {
		t.Run(name, func(t *testing.T) {
			testnet.CheckLeaks(t)
			srv := serve(t)
			for range 2 {
				c, err := net.Dial("tcp", srv.Listener.Addr().String())
				require.NoError(t, err)
				io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\r\n")
				br := bufio.NewReader(c)
				res, err := http.ReadResponse(br, nil)
				require.NoError(t, err)
				assert.Equal(t, http.StatusSwitchingProtocols, res.StatusCode)
				assert.Equal(t, "x", res.Header.Get("Sec-Websocket-Accept"))
				for _, s := range []string{"hello", "world"} {
					io.WriteString(c, s)
					b := make([]byte, len(s))
					_, err := io.ReadFull(br, b)
					require.NoError(t, err)
					assert.Equal(t, strings.ToUpper(s), string(b))
				}
				c.Close()
			}
		})
	}
}

// An upgrade that isn't allowed is a plain request; nothing tunnels past.
func TestProxyUpgradeOnlyToKnownProtocols(t *testing.T) {
	srv := toOrigin(t, http.HandlerFunc(echoUpgrade))
	for _, fields := range []string{
		"Connection: Upgrade\r\nUpgrade: h2c\r\n", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n",
		"Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n", "Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n",
		"Connection: Upgrade\r\nUpgrade:\r\n", "Upgrade: websocket\r\n",
	} {
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		require.NoError(t, err)
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.test\r\n"+fields+"\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		b, _ := io.ReadAll(res.Body)
		assert.Equal(t, `no upgrade, connection ""`, string(b), fields)
		c.Close()
	}
}

// A body that breaks off never looks whole: not with a server, and not without.
func TestProxyCutBodyAborts(t *testing.T) {
	cut := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/length" {
			w.Header().Set("Content-Length", "10")
		}
		io.WriteString(w, "half")
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	overBoth(t, cut, func(t *testing.T, url string, c *http.Client) {
		for _, path := range []string{"/length", "/chunked"} {
			res, err := c.Get(url + path)
			require.NoError(t, err)
			b, err := io.ReadAll(res.Body)
			assert.Error(t, err)
			assert.Equal(t, "half", string(b))
			res.Body.Close()
		}
	})
	t.Run("without a server", func(t *testing.T) {
		origin := httptest.NewUnstartedServer(cut)
		origin.Config.ErrorLog = noLog
		origin.Start()
		t.Cleanup(origin.Close)
		p := newProxy(t, transportTo(t, origin.Listener.Addr().String(), TransportOptions{Scheme: "http"}))
		assert.PanicsWithValue(t, http.ErrAbortHandler, func() {
			p.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/length", nil))
		})
	})
}

// A client that leaves ends its request at the origin, in the upload and in the
// download, and nothing is left behind.
func TestProxyClientLeaves(t *testing.T) {
	testnet.CheckLeaks(t)
	ended := make(chan struct{}, 1)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { ended <- struct{}{} }()
		if r.Method == "POST" {
			io.Copy(io.Discard, r.Body)
			return
		}
		for {
			if _, err := w.Write(make([]byte, 1<<10)); err != nil || r.Context().Err() != nil {
				return
			}
			http.NewResponseController(w).Flush()
		}
	})
	overBoth(t, h, func(t *testing.T, url string, c *http.Client) {
		ctx, cancel := context.WithCancel(background)
		req, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
		res, err := c.Do(req)
		require.NoError(t, err)
		io.CopyN(io.Discard, res.Body, 4<<10)
		cancel()
		res.Body.Close()
		<-ended

		ctx, cancel = context.WithCancel(background)
		body := readerFunc(func(p []byte) (int, error) {
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
			time.AfterFunc(10*time.Millisecond, cancel)
			return len(p), nil
		})
		req, _ = http.NewRequestWithContext(ctx, "POST", url, body)
		_, err = c.Do(req)
		assert.ErrorIs(t, err, context.Canceled)
		<-ended
	})
}

// An origin answers without reading the upload. The client gets the answer while
// it still sends, and its connection doesn't stay for what nobody wants.
func TestProxyEarlyAnswerToUpload(t *testing.T) {
	addr := listen(t, func(c net.Conn) {
		readHead(c)
		io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
		io.Copy(io.Discard, c)
	})
	srv := proxied(t, newProxy(t, transportTo(t, addr, TransportOptions{Scheme: "http"})))
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	io.WriteString(c, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\r\nsome")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.Equal(t, "413 big", fmt.Sprint(res.StatusCode, " ", string(b)))
	assert.True(t, res.Close)
	_, err = c.Read(make([]byte, 1))
	assert.Error(t, err, "the server closes")
}

// A slow origin holds back the upload: it isn't buffered.
func TestProxyUploadIsNotBuffered(t *testing.T) {
	gate := testnet.NewGate()
	srv := toOrigin(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		gate.Wait(r.Context())
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	}))
	const size = 256 << 20 // more than all sockets' buffers hold
	var given, before atomic.Int64
	body := readerFunc(func(p []byte) (int, error) {
		if given.Load() >= size {
			return 0, io.EOF
		}
		given.Add(int64(len(p)))
		return len(p), nil
	})
	go func() { // open the gate when nothing moves any more
		for last := int64(-1); given.Load() != last; time.Sleep(100 * time.Millisecond) {
			last = given.Load()
		}
		before.Store(given.Load())
		gate.Open()
	}()
	req, _ := http.NewRequest("POST", srv.URL, body)
	res, err := srv.Client().Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	assert.Equal(t, fmt.Sprint(given.Load()), string(b))
	assert.Less(t, before.Load(), int64(size), "the origin read nothing until then")
}
