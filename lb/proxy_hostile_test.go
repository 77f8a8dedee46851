package lb

import (
	"bufio"
	"bytes"
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
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slowHints tells when a 1xx response is being written, which takes its time, as
// with a client that reads slowly.
type slowHints struct {
	http.ResponseWriter
	begun chan struct{}
}

func (w slowHints) WriteHeader(status int) {
	w.ResponseWriter.WriteHeader(status)
	if status < 200 {
		close(w.begun)
		<-time.After(20 * time.Millisecond) // the response is there long before
	}
}

// A hint of an attempt that was given up is still being written to the client when
// another one has the response: whose header stays whole. Hints after it are dropped.
func TestProxyLateHintLeavesTheHeaderAlone(t *testing.T) {
	begun, late := make(chan struct{}), make(chan error, 1)
	hint := textproto.MIMEHeader{"Link": {"</a>"}}
	var hook func(int, textproto.MIMEHeader) error
	p := newProxy(t, roundTripFunc(func(out *http.Request) (*http.Response, error) {
		hook = httptrace.ContextClientTrace(out.Context()).Got1xxResponse
		go func() { late <- hook(http.StatusEarlyHints, hint) }()
		<-begun
		h := http.Header{"Cache-Control": {"private, no-store"}, "Content-Type": {"text/plain"}}
		return &http.Response{StatusCode: 204, Header: h, Body: http.NoBody}, nil
	}))
	w := httptest.NewRecorder()
	p.ServeHTTP(slowHints{w, begun}, httptest.NewRequest("GET", "/", nil))
	assert.NoError(t, <-late)
	assert.NoError(t, hook(http.StatusEarlyHints, hint))
	assert.Equal(t, http.Header{"Cache-Control": {"private, no-store"}, "Content-Type": {"text/plain"}}, w.Header())
}

// What the origin doesn't call its content, nobody else does.
func TestProxyGuessesNoContentType(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = nil
		w.Header().Set("X-Content-Type-Options", "nosniff")
		io.WriteString(w, "<script>alert(1)</script>")
	})
	overBoth(t, h, func(t *testing.T, url string, c *http.Client) {
		res, err := c.Get(url)
		require.NoError(t, err)
		res.Body.Close()
		assert.Equal(t, []string(nil), res.Header["Content-Type"])
	})
}

// A target that HTTP/2 lets through and that would end HTTP/1's request line early
// goes no further.
func TestProxyRefusesBrokenTargets(t *testing.T) {
	sent := 0
	p := newProxy(t, roundTripFunc(func(*http.Request) (*http.Response, error) {
		sent++
		return &http.Response{StatusCode: 204, Header: http.Header{}, Body: http.NoBody}, nil
	}))
	for query, want := range map[string]int{
		"x HTTP/1.0": 400, "x\r\nHost: y": 400, "x\ty": 400, "\x00": 400, "x\x7f": 400,
		"": 204, "a=b&c": 204, "%20+\"<>|\xe9": 204,
	} {
		sent = 0
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.RawQuery = query
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		assert.Equal(t, []int{want, want / 204}, []int{w.Code, sent + want/400}, "%q", query)
	}
}

// An absolute target is an http URL with a host, or none of the proxy's business: the
// rest would be a request line that isn't one.
func TestProxyRefusesTargetsOfOtherSchemes(t *testing.T) {
	front := toOrigin(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RequestURI) }))
	for target, want := range map[string]string{
		"http:admin": "400", "mailto:x": "400", "foo:*": "400", "http:*": "400", "x:/admin": "400", "foo://other.test/p": "400", "https:a/b": "400",
		"/p?q": "200 /p?q", "http://a.test": "200 /", "HTTP://a.test/p": "200 /p", "https://a.test/p": "200 /p", "/http:admin": "200 /http:admin",
	} {
		c, err := net.Dial("tcp", front.Listener.Addr().String())
		require.NoError(t, err)
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n", target)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		body, _ := io.ReadAll(res.Body)
		c.Close()
		assert.Equal(t, want, strings.TrimSpace(fmt.Sprint(res.StatusCode, " ", string(body))), target)
	}
	c, err := net.Dial("tcp", front.Listener.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	io.WriteString(c, "OPTIONS * HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	assert.Equal(t, 200, res.StatusCode)
}

func TestTransportRefusesBrokenTargets(t *testing.T) {
	tr := transportTo(t, speaking(t, "HTTP/1.1 204 No Content\r\n\r\n"), TransportOptions{Scheme: "http"})
	for _, query := range []string{"x HTTP/1.0", "x\r\nHost: y", "\x7f"} {
		r := httptest.NewRequest("GET", "http://shop.test/", nil)
		r.URL.RawQuery = query
		_, err := tr.RoundTrip(r)
		assert.Equal(t, TransportError{Failure: FailureRequest}, asTransportError(t, err), "%q", query)
	}
	for _, opaque := range []string{"//shop.test/a b", "admin", "shop.test/p"} {
		r := httptest.NewRequest("GET", "http://shop.test/", nil)
		r.URL.Opaque = opaque
		_, err := tr.RoundTrip(r)
		assert.Equal(t, TransportError{Failure: FailureRequest}, asTransportError(t, err), opaque)
	}
	for _, opaque := range []string{"*", "//shop.test/p", "/p"} {
		r := httptest.NewRequest("OPTIONS", "http://shop.test/", nil)
		r.URL.Opaque = opaque
		_, err := tr.RoundTrip(r)
		assert.NoError(t, err, opaque)
	}
}

var authorities = map[string]bool{
	"shop.test": true, "Shop.test.": true, "shop.test:8080": true, "shop.test:": true, "a_b.test": true, "10.0.0.1:80": true,
	"xn--bcher-kva.test": true, "[2001:db8::1]": true, "[2001:db8::1]:80": true, "[fe80::1%eth0]:80": true, "%C3%A9.test": true,

	"": false, ":80": false, "[": false, "[]": false, "[::1": false, "[::1]x": false, "[::1]:x": false, "[10.0.0.1]": false,
	"[internal.test].public.test": false, "[::1%/internal.test]": false, "::1": false,
	"internal.test/.public.test": false, "internal.test .public.test": false, "internal.test\t.public.test": false,
	"internal.test?.public.test": false, "internal.test#.public.test": false, `internal.test\.public.test`: false,
	"a@shop.test": false, "shop.test:80@internal.test": false, "shop.test:80:90": false, "internal.test:80.public.test": false,
	"internal.test:80,a.public.test": false, "shop.test\r\nX: y": false, "shop.test\x00": false, "b\xc3\xbccher.test": false,
}

func TestValidAuthority(t *testing.T) {
	for s, want := range authorities {
		assert.Equal(t, want, validAuthority(s), "%q", s)
	}
}

// Neither the proxy nor the balancer takes what is no host for one of the list.
func TestBrokenAuthorityReachesNoOrigin(t *testing.T) {
	b := newBalancer(t, Options{
		Pools: []Pool{plainPool("p", speaking(t, "HTTP/1.1 204 No Content\r\n\r\n"))},
		Hosts: map[string][]string{"*.public.test": {"p"}, "*": {"p"}},
	})
	p := newProxy(t, b)
	for host, valid := range authorities {
		if valid || host == "" {
			continue
		}
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		assert.Equal(t, http.StatusBadRequest, w.Code, "%q", host)
		_, err := b.RoundTrip(r)
		assert.Equal(t, &NoOriginError{Host: host, UnknownHost: true}, err, "%q", host)
	}
	a := ask(t, b, "GET", "http://a.public.test:8080/", "")
	assert.Equal(t, []any{204, nil}, []any{a.status, a.err})
}

// The same with a real HTTP/2 client, whose :authority the server doesn't look at.
func TestBrokenAuthorityOverHTTP2(t *testing.T) {
	front := httptest.NewUnstartedServer(newProxy(t, roundTripFunc(func(r *http.Request) (*http.Response, error) {
		t.Errorf("sent for %q", r.Host)
		return nil, errOdd
	})))
	front.Config.Protocols = new(http.Protocols)
	front.Config.Protocols.SetUnencryptedHTTP2(true)
	front.Config.ErrorLog = noLog
	front.Start()
	defer front.Close()
	c, err := net.Dial("tcp", front.Listener.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	writeFrame(c, frame{kind: frameSettings})
	host := "internal.test/.public.test"
	h := bytes.NewBuffer([]byte{0x82, 0x86, 0x84, 0x01, byte(len(host))})
	h.WriteString(host)
	writeFrame(c, frame{kind: frameHeaders, flags: flagEndStream | flagEndHeaders, stream: 1, data: h.Bytes()})
	for {
		f, err := readFrame(c)
		require.NoError(t, err)
		if f.kind == frameHeaders {
			assert.Equal(t, byte(0x8c), f.data[0], "HPACK's :status 400")
			return
		}
	}
}

// A client that leaves while a connection is made doesn't speak against the origin.
func TestLeavingDuringTheDial(t *testing.T) {
	for _, protocol := range []string{"", "websocket"} {
		for _, want := range []Failure{FailureCanceled, FailureDeadline} {
			t.Run(fmt.Sprintf("%s/%v", protocol, want), func(t *testing.T) {
				dialling := make(chan struct{})
				tr := transportTo(t, "192.0.2.1:80", TransportOptions{Scheme: "http",
					DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
						close(dialling)
						<-ctx.Done()
						return nil, ctx.Err()
					}})
				ctx, cancel := context.WithCancel(background)
				if want == FailureDeadline {
					ctx, cancel = context.WithTimeout(background, time.Millisecond)
				} else {
					go func() { <-dialling; cancel() }()
				}
				defer cancel()
				_, err := tr.RoundTrip(upgradeRequest(protocol).WithContext(ctx))
				assert.Equal(t, TransportError{Failure: want}, asTransportError(t, err))
				assert.ErrorIs(t, err, ctx.Err())
			})
		}
	}
}

// What a client sends right behind its request for an upgrade, not waiting for the
// answer, is the beginning of the tunnel.
func TestProxyUpgradeWithEarlyBytes(t *testing.T) {
	srv := toOrigin(t, http.HandlerFunc(echoUpgrade))
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly")
	br := bufio.NewReader(c)
	res, err := http.ReadResponse(br, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, res.StatusCode)
	io.WriteString(c, "later")
	got := make([]byte, 10)
	_, err = io.ReadFull(br, got)
	require.NoError(t, err)
	assert.Equal(t, "EARLYLATER", string(got))
}
