package lb

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirhttp/weir/internal/testnet"
)

// reset closes a TCP connection with RST.
func reset(c net.Conn) {
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// readHead reads up to the end of a request's head.
func readHead(c net.Conn) {
	var b [1]byte
	var tail string
	for !strings.HasSuffix(tail, "\r\n\r\n") {
		if _, err := c.Read(b[:]); err != nil {
			return
		}
		tail += string(b[:])
	}
}

func TestFailureKinds(t *testing.T) {
	say := func(s string, end func(net.Conn)) func(net.Conn) {
		return func(c net.Conn) {
			readHead(c)
			io.WriteString(c, s)
			end(c)
		}
	}
	closeIt := func(c net.Conn) { c.Close() }
	for _, c := range []struct {
		name   string
		origin func(net.Conn)
		want   TransportError
	}{
		{"closes at once", func(c net.Conn) { readHead(c) }, TransportError{Failure: FailureClosed, Wrote: true}},
		{"resets before the head", say("", reset), TransportError{Failure: FailureClosed, Wrote: true}},
		{"closes inside the head", say("HTTP/1.1 200 OK\r\nContent-Le", closeIt), TransportError{Failure: FailureHeadCut, Wrote: true}},
		{"resets inside the head", func(c net.Conn) {
			readHead(c)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Le")
			time.Sleep(20 * time.Millisecond) // a reset may overtake data
			reset(c)
		}, TransportError{Failure: FailureHeadCut, Wrote: true}},
		{"isn't HTTP", say("220 mail.test ESMTP\r\n", func(c net.Conn) { io.Copy(io.Discard, c) }), TransportError{Failure: FailureProtocol, Wrote: true}},
		{"ambiguous length", say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", closeIt), TransportError{Failure: FailureProtocol, Wrote: true}},
		{"endless head", func(c net.Conn) {
			readHead(c)
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for {
				if _, err := io.WriteString(c, "X: "+strings.Repeat("x", 8000)+"\r\n"); err != nil {
					return
				}
			}
		}, TransportError{Failure: FailureProtocol, Wrote: true}},
		{"body shorter than announced", say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", closeIt), TransportError{Failure: FailureBodyCut, Wrote: true}},
		{"chunked body without its end", say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", closeIt), TransportError{Failure: FailureBodyCut, Wrote: true}},
		{"malformed chunk", say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n", closeIt), TransportError{Failure: FailureBodyCut, Wrote: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := transportTo(t, listen(t, c.origin), TransportOptions{Scheme: "http"})
			r := send(tr, newRequest(t, "GET", ""), false)
			assert.Equal(t, c.want, asTransportError(t, r.err), "%v", r.err)
			assert.Equal(t, c.want.Failure, FailureOf(r.err))
			assert.True(t, c.want.Failure.OriginAtFault())
		})
	}
}

func TestFailureRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.Close()
	tr := transportTo(t, l.Addr().String(), TransportOptions{Scheme: "http"})
	r := send(tr, newRequest(t, "POST", "data"), false)
	assert.Equal(t, TransportError{Failure: FailureDial}, asTransportError(t, r.err))
}

func TestFailureTLS(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.Config.ErrorLog = noLog
	srv.StartTLS()
	t.Cleanup(srv.Close)
	addr := srv.Listener.Addr().String()
	roots := srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	for _, c := range []struct {
		name string
		o    TransportOptions
		want Failure
	}{
		{"unknown authority", TransportOptions{}, FailureTLS},
		{"another name", TransportOptions{RootCAs: roots, ServerName: "shop.test"}, FailureTLS},
		{"certificate for another name than is sent", TransportOptions{RootCAs: roots, ServerName: "shop.test", VerifyName: "example.com"}, FailureNone},
		{"certificate not for the name to verify", TransportOptions{RootCAs: roots, ServerName: "example.com", VerifyName: "shop.test"}, FailureTLS},
		{"unknown authority with a name to verify", TransportOptions{ServerName: "shop.test", VerifyName: "example.com"}, FailureTLS},
		{"an address in the certificate", TransportOptions{RootCAs: roots}, FailureNone},
		{"only HTTP/2", TransportOptions{RootCAs: roots, Protocol: ProtocolHTTP2}, FailureTLS},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := send(transportTo(t, addr, c.o), newRequest(t, "GET", ""), false)
			if assert.Equal(t, c.want, FailureOf(r.err), "%v", r.err) && c.want != FailureNone {
				assert.Equal(t, TransportError{Failure: c.want}, asTransportError(t, r.err))
			}
		})
	}
}

// The caller's own checks get the verified chains, whether crypto/tls verifies or we do
// for another name, and can refuse.
func TestOwnCertificateChecksGetTheChains(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.Config.ErrorLog = noLog
	srv.StartTLS()
	t.Cleanup(srv.Close)
	roots := srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	refused := errors.New("refused")
	for _, name := range []string{"", "example.com"} {
		for _, c := range []struct{ peer, conn error }{{nil, nil}, {refused, nil}, {nil, refused}} {
			var got []string
			cfg := &tls.Config{
				VerifyPeerCertificate: func(raw [][]byte, chains [][]*x509.Certificate) error {
					got = append(got, fmt.Sprint("peer ", len(raw), " ", chains[0][0].Equal(srv.Certificate())))
					return c.peer
				},
				VerifyConnection: func(cs tls.ConnectionState) error {
					got = append(got, fmt.Sprint("connection ", len(cs.PeerCertificates), " ", cs.VerifiedChains[0][0].Equal(srv.Certificate())))
					return c.conn
				},
			}
			tr := transportTo(t, srv.Listener.Addr().String(), TransportOptions{RootCAs: roots, VerifyName: name, TLS: cfg})
			r := send(tr, newRequest(t, "GET", ""), false)
			want := []string{"peer 1 true", "connection 1 true"}
			if c.peer != nil {
				want = want[:1]
			}
			assert.Equal(t, want, got, "%q", name)
			assert.Equal(t, c.peer != nil || c.conn != nil, errors.Is(r.err, refused))
		}
	}
}

// The name in the handshake is the configured one.
func TestServerNameIsSent(t *testing.T) {
	var mu sync.Mutex
	var got []string
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.TLS = &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, h.ServerName)
		return nil, nil
	}}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	roots := srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	for _, o := range []TransportOptions{{ServerName: "a.test", VerifyName: "example.com"}, {}} {
		o.RootCAs = roots
		require.NoError(t, send(transportTo(t, srv.Listener.Addr().String(), o), newRequest(t, "GET", ""), false).err)
	}
	mu.Lock()
	defer mu.Unlock()
	assert.Equal(t, []string{"a.test", ""}, got, "an address isn't sent")
}

// A client whose upload breaks isn't an origin that fails.
func TestFailureOfTheClient(t *testing.T) {
	addr := listen(t, func(c net.Conn) { io.Copy(io.Discard, c) })
	tr := transportTo(t, addr, TransportOptions{Scheme: "http"})
	broken := errors.New("broken upload")
	req := newRequest(t, "POST", "")
	req.Body = io.NopCloser(io.MultiReader(strings.NewReader("half"), iotestErr{broken}))
	req.ContentLength = 10
	r := send(tr, req, false)
	assert.Equal(t, FailureRequest, FailureOf(r.err))
	assert.ErrorIs(t, r.err, broken)

	ctx, cancel := context.WithCancel(background)
	req = newRequest(t, "GET", "").WithContext(ctx)
	time.AfterFunc(10*time.Millisecond, cancel)
	assert.Equal(t, FailureCanceled, FailureOf(send(tr, req, false).err))

	req = newRequest(t, "GET", "", "X-Bad", "a\nb")
	assert.Equal(t, FailureRequest, FailureOf(send(tr, req, false).err))

	for _, f := range []Failure{FailureRequest, FailureCanceled} {
		assert.False(t, f.OriginAtFault())
	}
}

type iotestErr struct{ err error }

func (e iotestErr) Read([]byte) (int, error) { return 0, e.err }

// All limits of time, on a clock of the test's own.
func TestTimeouts(t *testing.T) {
	const limit = 8 * time.Second
	wait := func(c net.Conn) { io.Copy(io.Discard, c) }
	hangs := func(say string) func(net.Conn) {
		return func(c net.Conn) { readHead(c); io.WriteString(c, say); wait(c) }
	}
	for _, c := range []struct {
		name   string
		o      TransportOptions
		origin func(net.Conn)
		upload int // bytes
		want   TransportError
	}{
		{"dial", TransportOptions{Scheme: "http", DialTimeout: limit}, nil, 0, TransportError{Failure: FailureDialTimeout}},
		{"handshake", TransportOptions{TLSTimeout: limit}, wait, 0, TransportError{Failure: FailureTLSTimeout}},
		{"head", TransportOptions{Scheme: "http", HeadTimeout: limit}, hangs(""), 0, TransportError{Failure: FailureHeadTimeout, Wrote: true}},
		{"head over h2c", TransportOptions{Scheme: "http", Protocol: ProtocolHTTP2, HeadTimeout: limit},
			rawHTTP2(func(net.Conn, int, frame) {}), 0, TransportError{Failure: FailureHeadTimeout, Wrote: true}},
		{"rest of the head", TransportOptions{Scheme: "http", HeadTimeout: limit}, hangs("HTTP/1.1 200 OK\r\nConte"), 0,
			TransportError{Failure: FailureHeadTimeout, Wrote: true}},
		{"body", TransportOptions{Scheme: "http", BodyIdle: limit}, hangs("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), 0,
			TransportError{Failure: FailureBodyTimeout, Wrote: true}},
		{"body over h2c", TransportOptions{Scheme: "http", Protocol: ProtocolHTTP2, BodyIdle: limit},
			rawHTTP2(func(c net.Conn, _ int, h frame) {
				writeFrame(c, frame{kind: frameHeaders, flags: flagEndHeaders, stream: h.stream, data: []byte{0x88}})
			}), 0, TransportError{Failure: FailureBodyTimeout, Wrote: true}},
		{"upload", TransportOptions{Scheme: "http", BodyIdle: limit}, func(c net.Conn) { readHead(c); time.Sleep(2 * limit) }, 1 << 20,
			TransportError{Failure: FailureSendTimeout, Wrote: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := testnet.NewPipeListener()
				defer l.Close()
				c.o.DialContext = l.DialContext
				if c.origin != nil {
					go func() {
						for {
							conn, err := l.Accept()
							if err != nil {
								return
							}
							go func() { defer conn.Close(); c.origin(conn) }()
						}
					}()
				}
				tr, err := newTransport("192.0.2.1", c.o)
				require.NoError(t, err)
				defer tr.Close()
				start := time.Now()
				r := send(tr, newRequest(t, "POST", strings.Repeat("x", c.upload)), false)
				took := time.Since(start)
				assert.Equal(t, c.want, asTransportError(t, r.err), "%v", r.err)
				assert.True(t, r.err.(*TransportError).Timeout())
				assert.GreaterOrEqual(t, took, limit)
				assert.LessOrEqual(t, took, limit+limit/4)
				time.Sleep(2 * limit) // until the origins are done
			})
		})
	}
}

// Slowness is no silence: neither an origin that drips nor a visitor who uploads
// or reads slowly meets a limit.
func TestSlowIsNotIdle(t *testing.T) {
	const limit = 8 * time.Second
	o := TransportOptions{Scheme: "http", BodyIdle: limit, HeadTimeout: limit}
	for _, c := range []struct {
		name string
		h    http.HandlerFunc
		body io.ReadCloser
		read time.Duration
	}{
		{"origin drips", func(w http.ResponseWriter, r *http.Request) {
			for range 10 {
				time.Sleep(limit * 3 / 4)
				io.WriteString(w, "x")
				http.NewResponseController(w).Flush()
			}
		}, nil, 0},
		{"visitor uploads slowly", func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			io.WriteString(w, "xxxxxxxxxx")
		}, slowBody(3, 2*limit), 0},
		{"visitor reads slowly", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "xxxxxxxxxx") }, nil, 2 * limit},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := testnet.Serve(t, c.h)
				o := o
				o.DialContext = srv.Listener.DialContext
				o.HeadTimeout = limit
				tr, err := newTransport("192.0.2.1", o)
				require.NoError(t, err)
				defer tr.Close()
				req := newRequest(t, "POST", "")
				if c.body != nil {
					req.Body, req.ContentLength = c.body, -1
				}
				res, err := tr.RoundTrip(req)
				require.NoError(t, err)
				defer res.Body.Close()
				n := 0
				for {
					time.Sleep(c.read)
					var b [1]byte
					k, err := res.Body.Read(b[:])
					n += k
					if err == io.EOF {
						break
					}
					require.NoError(t, err)
				}
				assert.Equal(t, 10, n)
			})
		})
	}
}

// slowBody is n bytes, each after a pause.
func slowBody(n int, pause time.Duration) io.ReadCloser {
	return io.NopCloser(readerFunc(func(p []byte) (int, error) {
		time.Sleep(pause)
		if n--; n < 0 {
			return 0, io.EOF
		}
		return copy(p, "x"), nil
	}))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestFailureNames(t *testing.T) {
	seen := map[string]bool{}
	for f := FailureNone; f <= FailureUpload; f++ {
		assert.NotContains(t, f.String(), "unknown")
		assert.False(t, seen[f.String()])
		seen[f.String()] = true
	}
	assert.Equal(t, "unknown (200)", Failure(200).String())
}
