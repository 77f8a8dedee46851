package lb

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

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

// A client that pauses in its upload hears at once that there will be no response,
// and doesn't hold a place at an origin meanwhile.
func TestProxyPausedUploadEndsWithItsOrigin(t *testing.T) {
	for _, c := range []struct {
		name, method, want string
		limit              time.Duration // of the request, whose origin says nothing then
	}{
		{"the origin closes", "POST", "502", 0},
		{"the only origin closes", "PUT", "502", 0},
		{"the request's time is over", "PUT", "504", 50 * time.Millisecond},
	} {
		for _, protocol := range []Protocol{ProtocolHTTP1, ProtocolHTTP2} {
			for _, clientHTTP2 := range []bool{false, true} {
				t.Run(fmt.Sprint(c.name, " ", protocol, " ", clientHTTP2), func(t *testing.T) {
					testnet.CheckLeaks(t)
					over := make(chan struct{})
					h := func(w http.ResponseWriter, r *http.Request) {
						io.ReadFull(r.Body, make([]byte, 4))
						if c.limit > 0 {
							<-over
						}
						cut(w, r)
					}
					b := newBalancer(t, Options{Pools: []Pool{{
						Name: "p", Origins: []Origin{{Address: originOver(t, protocol, h)}},
						Transport: TransportOptions{Scheme: "http", Protocol: protocol},
					}}})
					p := newProxy(t, b)
					srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if c.limit > 0 {
							ctx, cancel := context.WithTimeout(r.Context(), c.limit)
							defer cancel()
							r = r.WithContext(ctx)
						}
						p.ServeHTTP(w, r)
					}))
					srv.EnableHTTP2 = clientHTTP2
					srv.Config.ErrorLog = noLog
					srv.StartTLS()
					t.Cleanup(srv.Close)

					pr, pw := io.Pipe()
					t.Cleanup(func() { pw.Close() })
					go pw.Write([]byte("some"))
					req, _ := http.NewRequest(c.method, srv.URL, pr)
					req.ContentLength = 1000
					res, err := srv.Client().Do(req)
					close(over)
					require.NoError(t, err)
					res.Body.Close()
					assert.Equal(t, c.want, fmt.Sprint(res.StatusCode))
				})
			}
		}
	}
}

// A paused upload that another origin can take over goes on when its client does.
func TestProxyPausedUploadGoesOnElsewhere(t *testing.T) {
	began := make(chan struct{}, 2)
	bad := originOver(t, ProtocolHTTP1, func(w http.ResponseWriter, r *http.Request) {
		io.ReadFull(r.Body, make([]byte, 4))
		began <- struct{}{}
		cut(w, r)
	})
	good := originOver(t, ProtocolHTTP1, func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
	b := newBalancer(t, Options{Pools: []Pool{plainPool("p", bad, good)}})
	srv := proxied(t, newProxy(t, b))
	pr, pw := io.Pipe()
	go func() {
		pw.Write([]byte("some"))
		<-began
		pw.Write([]byte(" more"))
		pw.Close()
	}()
	req, _ := http.NewRequest("PUT", srv.URL, pr)
	res, err := srv.Client().Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.Equal(t, "200 some more", fmt.Sprint(res.StatusCode, " ", string(body)))
}

// originOver is an origin that speaks one protocol, without TLS.
func originOver(t testing.TB, protocol Protocol, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(protocol == ProtocolHTTP1)
	s.Config.Protocols.SetUnencryptedHTTP2(protocol == ProtocolHTTP2)
	s.Config.ErrorLog = noLog
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// cut closes an HTTP/1 connection, and resets a stream of HTTP/2. A panic alone
// would have net/http wait for more of an HTTP/1 request's body first.
func cut(w http.ResponseWriter, r *http.Request) {
	if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
		c.Close()
		return
	}
	panic(http.ErrAbortHandler)
}
